"""`retrieval-evals ui`: MLflow's user interface, opened on the runs."""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Sequence
from tempfile import TemporaryFile

from evals.errors import TrackingError
from evals.tracking.store import PORT, QUIET, database_file, existing_uri, query, server_of
from retrievers.terminal.command import Parser, has_display, print_out, run, whole_number

# The experiment of the newest run.
NEWEST = "SELECT experiment_id FROM runs WHERE lifecycle_stage = 'active' ORDER BY start_time DESC LIMIT 1"
# Longest time until the server answers, in seconds; it imports a lot.
SECONDS = 120
WAIT_S = 0.25


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals ui") -> int:
    """Start the server and wait for its end; return the exit code."""
    namespace = parser(prog).parse_args(arguments)
    return run(lambda: _main(namespace))


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
        _show(f"{server_of(uri)}/#/experiments", namespace)
        return 0
    uri, server = existing_uri(uri, "no runs to show"), f"http://127.0.0.1:{port}"
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        raise TrackingError(f"port {port} cannot be used ({error}); name another one with --port") from error
    with TemporaryFile() as output, contextlib.suppress(KeyboardInterrupt):
        process = _start(port, uri, output.fileno())
        try:
            if _answers(server, process):
                newest = query(file, NEWEST) if (file := database_file(uri)) else []
                runs = "".join(f"/{number}/evaluation-runs" for (number,) in newest)
                _show(f"{server}/#/experiments{runs}", namespace, " (Ctrl-C ends it)")
                return process.wait()
            output.seek(0)
            last = output.read().decode(errors="replace").strip().splitlines()[-1:]
            raise TrackingError(f"MLflow's server did not start: {' '.join(last) or 'it says nothing'}")
        finally:
            process.terminate()
            process.wait()
    return 0


def _show(page: str, namespace: argparse.Namespace, note: str = "") -> None:
    print_out(f"Runs: {page}{note}")
    if not namespace.no_browser and has_display(os.environ, sys.platform):
        webbrowser.open(page)


def _start(port: int, uri: str, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | QUIET | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.Popen([*command, "--backend-store-uri", uri], env=env, stdout=output, stderr=output)


def _answers(server: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers; return False where it ends before, or takes too long."""
    end = time.monotonic() + SECONDS
    # A proxy of the environment does not reach this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), opener.open(f"{server}/health", timeout=2):
            return True
        time.sleep(WAIT_S)
    return False
