"""`retrieval-evals ui`: MLflow's user interface, opened on the runs."""

import argparse
import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from evals.errors import TrackingError
from evals.tracking.addresses import PORT, runs_page
from evals.tracking.store import FOLDER, local_uri
from retrievers.terminal.browser import has_display
from retrievers.terminal.command import Parser, print_out, run, whole_number

EXPERIMENT = "retrieval-evals"
# Longest time until the server answers, in seconds; it imports a lot.
SECONDS = 120
WAIT_S = 0.25


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals ui") -> int:
    """Start the server and wait for its end; return the exit code."""
    namespace = parser(prog).parse_args(arguments)
    return run(lambda: _main(namespace))


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's flags."""
    command = Parser(prog=prog, description="Show the runs under ./mlruns in MLflow's user interface, until Ctrl-C.")
    command.add_argument("--port", type=whole_number(1), default=PORT, metavar="N", help=f"port (default: {PORT})")
    command.add_argument("--no-browser", action="store_true", help="open no browser")
    command.add_argument(
        "--tracking.experiment", default=EXPERIMENT, metavar="NAME", help=f"experiment to open (default: {EXPERIMENT})"
    )
    return command


def _main(namespace: argparse.Namespace) -> int:
    if not (FOLDER / "mlflow.db").is_file():
        raise TrackingError(f"no runs to show: {FOLDER / 'mlflow.db'} does not exist; go where evals.run was started")
    server = f"http://127.0.0.1:{namespace.port}"
    _check_free(namespace.port)
    with TemporaryFile() as said, contextlib.suppress(KeyboardInterrupt):
        process = _start(namespace.port, said.fileno())
        try:
            if not _answers(server, process):
                said.seek(0)
                last = said.read().decode(errors="replace").strip().splitlines()[-1:]
                raise TrackingError(f"MLflow's server did not start: {' '.join(last) or 'it says nothing'}")
            page = runs_page(server, _experiment_id(vars(namespace)["tracking.experiment"]))
            print_out(f"Runs: {page} (Ctrl-C ends it)")
            if not namespace.no_browser and has_display(os.environ, sys.platform):
                webbrowser.open(page)
            return process.wait()
        finally:
            process.terminate()
            process.wait()
    return 0


def _check_free(port: int) -> None:
    try:
        with socket.create_server(("127.0.0.1", port)):
            pass
    except (OSError, OverflowError) as error:
        raise TrackingError(f"port {port} cannot be used ({error}); name another one with --port") from error


def _start(port: int, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.Popen(
        [*command, "--backend-store-uri", local_uri(FOLDER)], env=os.environ | quiet, stdout=output, stderr=output
    )


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


def _experiment_id(name: str) -> str | None:
    file = Path(local_uri(FOLDER).removeprefix("sqlite:///"))
    query = "SELECT experiment_id FROM experiments WHERE name = ? AND lifecycle_stage = 'active'"
    with contextlib.closing(sqlite3.connect(file)) as database:
        row = database.execute(query, (name,)).fetchone()
    return str(row[0]) if row else None
