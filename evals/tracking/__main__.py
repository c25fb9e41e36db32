"""`python -m evals.tracking REPORT`: the run of a saved report, written to MLflow."""

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
    progress_bar,
    run,
    set_up_logging,
)


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.tracking") -> int:
    """Write the run; return the exit code."""
    return run(_main, parser(prog).parse_args(arguments))


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's flags."""
    command = Parser(
        prog=prog,
        description="Write the run of a saved report to MLflow, as the run itself does. One that MLflow has is left as "
        "it is; one that it has in part is written anew.",
        epilog="Exit codes: 0 MLflow has the run, 2 user error, 3 MLflow failed, 130 interrupted.",
    )
    command.add_argument("report", type=path_argument, metavar="REPORT", help="the report's file")
    command.add_argument("--tracking.uri", metavar="URI", help="where MLflow is (default: the database under ./mlruns)")
    command.add_argument("--tracking.experiment", metavar="NAME", help="experiment (default: that of the report)")
    add_logging_flags(command)
    return command


def _main(namespace: argparse.Namespace) -> int:
    from evals.config.experiment import TrackingConfig
    from evals.tracking.runs import write_run
    from evals.tracking.store import read_report, ui_command

    set_up_logging(verbose=namespace.verbose, quiet=namespace.quiet)
    environment(os.environ)  # from here on its secrets are hidden
    report, text = read_report(namespace.report)
    # The address never from the report, which may be somebody else's.
    given = vars(namespace)["tracking.experiment"] or report.config.get("tracking", {}).get("experiment")
    config = TrackingConfig(uri=vars(namespace)["tracking.uri"], **({"experiment": str(given)} if given else {}))
    try:
        with progress_bar(shown=not namespace.quiet) as progress:
            done = write_run(report, text, config, progress)
    except TrackingError as error:
        print_error(f"incomplete: {error} (the report is kept at {namespace.report})")
        return EXIT_INCOMPLETE
    if not namespace.quiet:
        said = "was written" if done.is_new else "is there already; nothing was written"
        print_out(f"MLflow: run {done.run_id} {said} ({done.address or ui_command(config.uri)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
