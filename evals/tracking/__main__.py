"""`python -m evals.tracking REPORT`: the run of a kept report, completed in MLflow."""

import argparse
import os
import sys
from collections.abc import Sequence

from evals.errors import TrackingError
from retrievers.config.layers import environment
from retrievers.terminal.command import (
    EXIT_INCOMPLETE,
    Parser,
    add_logging_flags,
    path_argument,
    print_error,
    print_out,
    run,
    set_up_logging,
)


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.tracking") -> int:
    """Complete the run; return the exit code."""
    namespace = parser(prog).parse_args(arguments)
    return run(lambda: _main(namespace))


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's flags."""
    command = Parser(
        prog=prog,
        description="Complete the MLflow run of a report that was kept while MLflow could not be reached. A run that "
        "is complete is left as it is.",
        epilog="Exit codes: 0 the run is complete, 2 user error, 3 MLflow failed, 130 interrupted.",
    )
    command.add_argument("report", type=path_argument, metavar="REPORT", help="the report's file")
    command.add_argument(
        "--tracking.uri", metavar="URI", help="where MLflow is (default: MLFLOW_TRACKING_URI, or else ./mlruns)"
    )
    command.add_argument("--tracking.experiment", metavar="NAME", help="experiment (default: retrieval-evals)")
    add_logging_flags(command)
    return command


def _main(namespace: argparse.Namespace) -> int:
    from evals.config.experiment import TrackingConfig
    from evals.tracking.completing import complete

    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    environment(os.environ)  # from here on its secrets are hidden
    # Never from the report, which may be somebody else's, nor from a .env beside it.
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    flags = {"uri": vars(namespace)["tracking.uri"] or uri, "experiment": vars(namespace)["tracking.experiment"]}
    config = TrackingConfig.model_validate({name: value for name, value in flags.items() if value})
    try:
        done = complete(namespace.report, config)
    except TrackingError as error:
        print_error(f"incomplete: {error} (the report is kept at {namespace.report})")
        return EXIT_INCOMPLETE
    if not namespace.quiet:
        said = "was completed" if done.written else "is complete already; nothing was written"
        print_out(f"MLflow: run {done.run_id} {said} ({done.address or 'make ui, or retrieval-evals ui'})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
