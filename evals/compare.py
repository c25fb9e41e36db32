"""`python -m evals.compare`: compare runs with a baseline, metric by metric and query by query.

The functions import what they call, so that Ctrl-C ends the command with a line even during these imports.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrievers.terminal import start

if TYPE_CHECKING:
    from evals.comparison.sections import Comparison

FILES = {"output": "JSON", "html": "one HTML page", "markdown": "Markdown, for a pull request's comment"}
QUERIES = 5


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.compare") -> int:
    """Parse the flags and compare; return the exit code. Usage and errors call the command `prog`."""
    from retrievers.terminal.command import run

    return run(_main, parser(prog).parse_args(arguments))


def parser(prog: str = "python -m evals.compare") -> argparse.ArgumentParser:
    """Return the command's flags."""
    from retrievers.config.files import user_path
    from retrievers.terminal.command import Parser, add_logging_flags, whole_number

    command = Parser(
        prog=prog,
        description="Compare runs with a baseline. A RUN is a report's file, or an MLflow run's id or name. "
        "grid.json#k8-t0.3 is a cell of a grid's report.",
        epilog="Exit codes: 0 no regression, 1 a drop beyond its tolerance, 2 user error, 130 interrupted.",
    )
    add = command.add_argument
    add("runs", nargs="+", metavar="RUN", help="the first is the baseline, with which the others are compared")
    add("--common", action="store_true", help="compare on the queries that are the same in both runs")
    add("--metrics", default="", metavar="A,B", help="names or patterns such as ranking/* (--verbose: all)")
    about = "exit with 1 if the metric is worse by more than this; repeatable"
    add("--fail-on-regression", action="append", default=[], metavar="METRIC:TOLERANCE", help=about)
    about = f"of those that moved show N (default: {QUERIES})"
    add("--queries", type=whole_number(0), default=QUERIES, metavar="N", help=about)
    add("--json", action="store_true", help="print the comparison as JSON")
    for file, form in FILES.items():
        add(f"--{file}", type=user_path, metavar="FILE", help=f"write the comparison as {form}")
    add("--track", action="store_true", help="write it to the runs in MLflow (compare/BASELINE/…)")
    add("--tracking.uri", metavar="URI", help="where MLflow is (default: the database under ./mlruns)")
    about = "where names are looked for (default: retrieval-evals)"
    add("--tracking.experiment", default="retrieval-evals", metavar="NAME", help=about)
    add_logging_flags(command)
    return command


def _main(namespace: argparse.Namespace) -> int:
    from evals.config.files import check_apart
    from retrievers.terminal.command import EXIT_FAILED, set_up_logging

    set_up_logging(verbose=namespace.verbose)
    read = [*namespace.runs, *(run.partition("#")[0] for run in namespace.runs)]
    check_apart([vars(namespace)[name] for name in FILES], map(Path, read))
    from evals.api import compare_runs
    from evals.comparison.comparing import parse

    uri, experiment = (vars(namespace)[f"tracking.{name}"] for name in ("uri", "experiment"))
    comparisons = compare_runs(
        *namespace.runs,
        metrics=namespace.metrics or ("*" if namespace.verbose else ()),
        tolerances=parse(namespace.fail_on_regression),
        common=namespace.common,
        tracking_uri=uri,
        tracking_experiment=experiment,
    )
    _show(namespace, comparisons)
    if namespace.track:
        from evals.config.experiment import TrackingConfig
        from evals.tracking.runs import log_comparisons

        log_comparisons(comparisons, TrackingConfig(uri=uri, experiment=experiment))
    return EXIT_FAILED if any(not regression.passed for c in comparisons for regression in c.regressions) else 0


def _show(namespace: argparse.Namespace, comparisons: Sequence["Comparison"]) -> None:
    from evals.comparison.page import render_markdown, render_page
    from evals.comparison.sections import document, render
    from evals.config.files import write
    from retrievers.terminal.command import look, print_rendered
    from retrievers.text.shown import json_text

    def as_json(comparisons: Sequence["Comparison"]) -> str:
        return json_text(document(comparisons), indent=2)

    for name, renderer in (("output", as_json), ("html", render_page), ("markdown", render_markdown)):
        if file := vars(namespace)[name]:
            write(file, renderer(comparisons))
    if namespace.quiet:
        return
    text = as_json(comparisons) if namespace.json else render(comparisons, queries=namespace.queries, **look()).rstrip()
    print_rendered(text)


if __name__ == "__main__":
    start("evals.compare:main")
