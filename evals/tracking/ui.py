"""`retrieval-evals ui`: MLflow's user interface on the runs."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from subprocess import DEVNULL

from evals.errors import TrackingError
from evals.tracking.store import QUIET, existing_uri
from retrievers.terminal.command import Parser, print_out, run, whole_number
from retrievers.text.shown import redacted

PORT = 5000


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals ui") -> int:
    """Start the server and wait for its end; return the exit code."""
    return run(_main, parser(prog).parse_args(arguments))


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's flags."""
    about = "Serve the runs in MLflow's user interface, until Ctrl-C; of a server's runs, print the page."
    command = Parser(prog=prog, description=about)
    command.add_argument("--tracking.uri", metavar="URI", help="where the runs are (default: ./mlruns)")
    command.add_argument("--port", type=whole_number(1), default=PORT, metavar="N", help=f"port (default: {PORT})")
    return command


def _main(namespace: argparse.Namespace) -> int:
    uri, port = existing_uri(vars(namespace)["tracking.uri"], "no runs to show"), namespace.port
    if uri.startswith(("http://", "https://")):
        print_out(f"Runs: {redacted(uri).rstrip('/')}/#/experiments")
        return 0
    print_out(f"Runs: http://127.0.0.1:{port}/#/experiments in a few seconds (Ctrl-C ends it)")
    with _start(port, uri) as server:
        try:
            if server.wait() == 0:
                return 0
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()
    raise TrackingError(
        f"MLflow's server ended; where port {port} is taken, name another one with --port; "
        f"`mlflow server --port {port} --backend-store-uri {redacted(uri)}` says more"
    )


def _start(port: int, uri: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | QUIET | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return subprocess.Popen([*command, "--backend-store-uri", uri], env=env, stdout=DEVNULL, stderr=DEVNULL)
