"""An interpreter that has imported the libraries already, so that a command costs what it does and not what it imports.

One process imports the libraries of others, nothing of this project, and forks for every command that the program
`python` in its folder is called with. The fork is a process of its own, with the caller's environment, working
directory and streams; it imports the project from where the command is run and ends as an interpreter does.
That a command imports what it needs, and says nothing while it does, is shown by those that run in the real one.
"""

import array
import gc
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.support.child import ROOT, environment

OURS = ("evals", "retrievers", "tests")

LIBRARIES = (
    "alembic.command",
    "alembic.context",
    "datasets",
    "httpcore",
    "jinja2",
    "langchain.chat_models",
    "langchain_cohere",
    "langchain_qdrant",
    "markdown_it",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "mdit_py_plugins.front_matter",
    "mlflow",
    "mlflow.store.tracking.sqlalchemy_store",
    "portalocker",
    "qdrant_client",
    "qdrant_edge",
    "ragas",
    "ragas.metrics.collections",
    "rapidfuzz.fuzz",
    "rich.console",
    "rich.progress",
    "scipy.optimize",
    "scipy.stats",
    "tokenizers",
)
CLIENT = """#!{python} -IS
import array, json, os, signal, socket, sys
if len(sys.argv) < 2 or sys.argv[1] not in ("-m", "-c", "-"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
command, early = 0, []
def forward(number, _):
    os.kill(command, number) if command else early.append(number)
for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, forward)
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
    streams = array.array("i", [0, 1, 2])
    server.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    server.sendall(json.dumps(asked).encode() + b"\\n")
    said = server.makefile()
    command = int(said.readline())
    for one in early:
        os.kill(command, one)
    code = int(said.readline())
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextmanager
def warm_python(folder: Path) -> Iterator[Path]:
    """The program `python` in the folder, which is to be first on the path, as long as the context lasts."""
    address, program = folder / "socket", folder / "python"
    program.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    command = [sys.executable, "-m", "tests.support.warm", str(address)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=environment(), cwd=folder, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        try:
            yield program
        finally:
            process.terminate()


def _serve(address: str) -> None:
    """Fork for every connection; returns in the fork in which a command has run."""
    from evals.config.telemetry import silence

    silence(hub=False)
    for module in LIBRARIES:
        import_module(module)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    sys.path[:] = [place for place in sys.path if place not in ("", str(ROOT), str(Path.cwd()))]
    logging.getLogger().handlers.clear()
    signal.signal(signal.SIGCHLD, _reap)
    gc.freeze()  # so that collecting garbage copies no pages
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        os.write(1, b"ready\n")
        while True:
            asking, _ = server.accept()
            if not os.fork():
                break
            asking.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _answer(asking)


def _reap(*_: object) -> None:
    """Let go of those that have waited for a command."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(asking: socket.socket) -> None:
    """Fork for the command, and say how it ended; returns in the fork."""
    _, ancillary, _, _ = asking.recvmsg(1, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i", ancillary[0][2])
    asked = json.loads(asking.makefile().readline())
    child = os.fork()
    if child:
        asking.sendall(f"{child}\n".encode())
        for stream in (0, 1, 2, *streams):
            os.close(stream)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asking.sendall(f"{code}\n".encode())
        os._exit(0)
    asking.close()
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    _run(*asked["arguments"])


def _run(how: str, *rest: str) -> None:
    """What an interpreter does that is called with these arguments."""
    added = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:0] = [str(Path.cwd()) if how == "-m" else "", *added]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if how == "-m":
        sys.argv = list(rest)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    text, *others = (sys.stdin.read(), *rest) if how == "-" else rest
    sys.argv = [how, *others]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    _serve(sys.argv[1])
