"""`retrieval-evals ui`: MLflow's user interface, opened on the runs."""

import argparse
import contextlib
import os
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Sequence
from subprocess import DEVNULL

from evals.errors import TrackingError
from evals.tracking.store import QUIET, existing_uri
from retrievers.terminal.command import Parser, has_display, print_out, run, whole_number
from retrievers.text.shown import redacted

PORT = 5000


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals ui") -> int:
    """Start the server and wait for its end; return the exit code."""
    return run(_main, parser(prog).parse_args(arguments))


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's flags."""
    command = Parser(
        prog=prog, description="Show the runs in MLflow's user interface, until Ctrl-C; those of a server on its page."
    )
    command.add_argument("--tracking.uri", metavar="URI", help="where the runs are (default: ./mlruns)")
    command.add_argument("--port", type=whole_number(1), default=PORT, metavar="N", help=f"port (default: {PORT})")
    command.add_argument("--no-browser", action="store_true", help="open no browser")
    return command


def _main(namespace: argparse.Namespace) -> int:
    uri, port = vars(namespace)["tracking.uri"], namespace.port
    if uri and uri.startswith(("http://", "https://")):
        _show(redacted(uri).rstrip("/"), namespace)
        return 0
    uri, server = existing_uri(uri, "no runs to show"), f"http://127.0.0.1:{port}"
    process = _start(port, uri)
    try:
        if _answers(server, process):
            _show(server, namespace, " (Ctrl-C ends it)")
            return process.wait()
        raise TrackingError(
            f"MLflow's server did not start; where port {port} is taken, name another one with --port; "
            f"`mlflow server --port {port} --backend-store-uri {redacted(uri)}` says more"
        )
    except KeyboardInterrupt:
        return 0
    finally:
        process.terminate()
        process.wait()


def _show(server: str, namespace: argparse.Namespace, note: str = "") -> None:
    page = f"{server}/#/experiments"
    print_out(f"Runs: {page}{note}")
    if not namespace.no_browser and has_display(os.environ, sys.platform):
        webbrowser.open(page)


def _start(port: int, uri: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | QUIET | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.Popen([*command, "--backend-store-uri", uri], env=env, stdout=DEVNULL, stderr=DEVNULL)


def _answers(server: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers; return False where it ends before."""
    # A proxy of the environment does not reach this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None:
        with contextlib.suppress(OSError), opener.open(f"{server}/health", timeout=2):
            return True
        time.sleep(0.25)
    return False
