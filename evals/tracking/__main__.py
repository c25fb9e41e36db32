"""Commands of MLflow: `python -m evals.tracking REPORT` writes the run of a saved report, `evals ui` shows the runs."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from subprocess import DEVNULL

from evals.errors import TrackingError
from evals.tracking.store import QUIET, existing_uri, read_report, ui_command
from retrievers.config.files import user_path
from retrievers.config.layers import environment
from retrievers.terminal.command import (
    EXIT_INCOMPLETE,
    Parser,
    add_logging_flags,
    print_error,
    print_out,
    progress_bar,
    run,
    set_up_logging,
    whole_number,
)
from retrievers.text.shown import redacted

PORT = 5000


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.tracking") -> int:
    """Write the run of a saved report; return the exit code."""
    return run(_main, parser(prog).parse_args(arguments))


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the flags of the command that writes a run."""
    command = Parser(
        prog=prog,
        description="Write the run of a saved report to MLflow, as the run itself does. One that MLflow has is left as "
        "it is; one that it has in part is written anew.",
        epilog="Exit codes: 0 MLflow has the run, 2 user error, 3 MLflow failed, 130 interrupted.",
    )
    command.add_argument("report", type=user_path, metavar="REPORT", help="the report's file")
    command.add_argument("--tracking.uri", metavar="URI", help="where MLflow is (default: the database under ./mlruns)")
    command.add_argument("--tracking.experiment", metavar="NAME", help="experiment (default: that of the report)")
    add_logging_flags(command)
    return command


def _main(namespace: argparse.Namespace) -> int:
    from evals.config.experiment import TrackingConfig
    from evals.tracking.runs import write_run

    set_up_logging(verbose=namespace.verbose, quiet=namespace.quiet)
    environment(os.environ)  # from now on its secrets are hidden
    report, text = read_report(namespace.report)
    # The address is not taken from the report, which may be somebody else's.
    name = vars(namespace)["tracking.experiment"] or report.config.get("tracking", {}).get("experiment")
    config = TrackingConfig(uri=vars(namespace)["tracking.uri"], **({"experiment": str(name)} if name else {}))
    try:
        with progress_bar(shown=not namespace.quiet) as progress:
            written = write_run(report, text, config, progress)
    except TrackingError as error:
        print_error(f"incomplete: {error} (the report is kept at {namespace.report})")
        return EXIT_INCOMPLETE
    if not namespace.quiet:
        outcome = "was written" if written.is_new else "is there already; nothing was written"
        print_out(f"MLflow: run {written.run_id} {outcome} ({written.address or ui_command(config.uri)})")
    return 0


# The user interface


def show(arguments: Sequence[str] | None = None, prog: str = "python -m evals ui") -> int:
    """Start MLflow's server on the runs, and wait for its end; return the exit code."""
    about = "Serve the runs in MLflow's user interface, until Ctrl-C; of a server's runs, print the page."
    command = Parser(prog=prog, description=about)
    command.add_argument("--tracking.uri", metavar="URI", help="where the runs are (default: ./mlruns)")
    command.add_argument("--port", type=whole_number(1), default=PORT, metavar="N", help=f"port (default: {PORT})")
    return run(_show, command.parse_args(arguments))


def _show(namespace: argparse.Namespace) -> int:
    uri, port = existing_uri(vars(namespace)["tracking.uri"], "no runs to show"), namespace.port
    if uri.startswith(("http://", "https://")):
        print_out(f"Runs: {redacted(uri).rstrip('/')}/#/experiments")
        return 0
    print_out(f"Runs: http://127.0.0.1:{port}/#/experiments in a few seconds (Ctrl-C ends it)")
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | QUIET | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with subprocess.Popen([*command, "--backend-store-uri", uri], env=env, stdout=DEVNULL, stderr=DEVNULL) as server:
        try:
            server.wait()  # it ends with 0 where the port is taken, too
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()
    raise TrackingError(
        f"MLflow's server ended; where port {port} is taken, name another one with --port; "
        f"`mlflow server --port {port} --backend-store-uri {redacted(uri)}` says more"
    )


if __name__ == "__main__":
    sys.exit(main())
