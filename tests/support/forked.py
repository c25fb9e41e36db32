"""Commands in forks of one process that has imported everything, so that they begin at once and can be killed often."""

import gc
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from tests.support.child import environment

SAY = "forked.log"
SLOW = (
    "cohere.client",
    "evals.collect.passes",
    "evals.metrics.evaluation",
    "evals.report.document",
    "evals.report.terminal",
    "httpcore",
    "langchain.chat_models",
    "langchain_cohere",
    "ragas.metrics.collections",
    "retrievers.store.edge",
    "scipy.stats",
)
"""What a command imports once it has begun."""


class Forker:
    """Starts one `evals.run` after the other; what they print is in `forked.log`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def start(self, arguments: Sequence[str]) -> int:
        """Begin a command; its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
        return int(self._line())

    @property
    def ended(self) -> bool:
        """Whether the command has ended, and is to be waited for."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 0)
        return bool(ready)

    def wait(self) -> int:
        """Wait for the command that was begun; its exit code, less than 0 for a signal."""
        return int(self._line())

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the forking process ended: {self._process.wait()}")
        return line


@contextmanager
def forker(folder: Path, extra: Mapping[str, str]) -> Iterator[Forker]:
    """A process that forks, with a working directory and environment variables of its own."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tests.support.forked"]
    with subprocess.Popen(command, cwd=folder, env=environment(extra), stdin=pipe, stdout=pipe, bufsize=0) as process:
        try:
            yield Forker(process)
        finally:
            process.terminate()


def _serve() -> None:
    """Fork for every line of standard input."""
    from evals.config.telemetry import silence

    silence(hub=False)
    for module in SLOW:
        import_module(module)
    from evals.run.command import main

    gc.freeze()  # so that collecting garbage copies no pages
    for line in sys.stdin:
        child = os.fork()
        if not child:
            with Path(SAY).open("a") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            os._exit(main(json.loads(line)))
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
