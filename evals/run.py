"""`python -m evals.run`: one experiment from configuration to report, exit code and MLflow run."""

import argparse
import itertools
import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evals.bundled import check_bundled
from evals.config import ExperimentConfig
from evals.files import check_writable, write
from evals.quiet import silence
from retrievers.command import (
    EXIT_INCOMPLETE,
    Parser,
    Progress,
    add_logging_flags,
    print_error,
    print_out,
    progress_bar,
    run,
    set_up_logging,
    user_path,
)
from retrievers.config import RetrieverConfig, dump
from retrievers.settings import (
    Layer,
    add_flags,
    build,
    environment,
    environment_layer,
    file_layer,
    flag_layer,
)

if TYPE_CHECKING:
    from evals.dataset.load import GoldenSet
    from evals.grid.axes import Plan
    from evals.grid.pipeline import GridResult
    from evals.judge.judge import Judge
    from evals.records import RunResult
    from evals.tracking import Tracker
    from retrievers.protocol import Retriever

log = logging.getLogger("evals.run")  # not __main__, which no handler listens to
EXPERIMENTS = Path(__file__).parent / "experiments"
EXIT_FAILED = 1


@dataclass
class Outcome:
    """What is left to write and say: where reports go, why the run is incomplete, and the grid that it is a cell of."""

    report: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    incomplete: str = ""
    grid: "GridResult | None" = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    namespace = parser().parse_args(arguments)
    return run(lambda: _main(namespace), prefix="retriever.")


def parser() -> argparse.ArgumentParser:
    """The command's flags: the short ones, then one for every setting."""
    made = Parser(
        prog="python -m evals.run",
        description="Run golden queries through a retriever, score what comes back, log it to MLflow.",
        epilog="Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, 130 interrupted.",
    )
    made.add_argument(
        "--config", type=user_path, metavar="FILE", help="experiment file (default: the packaged default.yaml)"
    )
    made.add_argument("--limit", dest="dataset.limit", default=argparse.SUPPRESS, metavar="N", help="at most N cases")
    made.add_argument("--ids", dest="dataset.ids", default=argparse.SUPPRESS, metavar="A,B", help="only these cases")
    made.add_argument("--output", type=user_path, metavar="FILE", help="where to write the JSON report")
    made.add_argument(
        "--junit", type=user_path, metavar="FILE", help="where to write criteria and queries as JUnit XML"
    )
    made.add_argument("--html", type=user_path, metavar="FILE", help="where to write the report as one HTML page")
    made.add_argument(
        "--export", type=user_path, metavar="FILE", help="write the retriever's settings for an application"
    )
    made.add_argument("--plan", action="store_true", help="say what the run would call and cost, and stop")
    made.add_argument("--no-gate", action="store_true", help="exit with 0 although a criterion failed")
    made.add_argument("--list-metrics", action="store_true", help="list all metrics and stop")
    made.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    add_logging_flags(made)
    add_flags(made, ExperimentConfig)
    return made


def load_config(namespace: argparse.Namespace, env: Mapping[str, str]) -> ExperimentConfig:
    """The experiment out of flags, file and environment.

    Raises:
        ConfigError: With every fault.
    """
    layers: list[Layer] = [
        environment_layer(env, "retriever."),
        file_layer(namespace.config or EXPERIMENTS / "default.yaml", ExperimentConfig),
        flag_layer(namespace, ExperimentConfig),
    ]
    return build(ExperimentConfig, layers)


def _main(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    if namespace.list_metrics:
        return _list_metrics()
    env = environment(os.environ)
    config = load_config(namespace, env)
    if namespace.print_config:
        print_out(yaml.safe_dump(dump(config), sort_keys=False).rstrip())
        return 0
    silence(hub=bool(config.dataset.hub))
    if namespace.plan:
        return _plan(config, namespace, env)
    result, outcome = _run(config, namespace, env)
    if not namespace.quiet:
        _show(result, outcome, everything=namespace.verbose)
    if outcome.incomplete:
        kept = f" (the report is at {outcome.report})" if outcome.report else ""
        print_error(f"incomplete: {outcome.incomplete}{kept}")
        return EXIT_INCOMPLETE
    failed = any(not gate.passed for gate in result.gates)
    return EXIT_FAILED if failed and not namespace.no_gate else 0


def _run(
    config: ExperimentConfig, namespace: argparse.Namespace, env: Mapping[str, str]
) -> tuple["RunResult", Outcome]:
    from evals import facts, tracking
    from evals.dataset.load import load_golden
    from evals.errors import TrackingError
    from evals.grid.heldout import load_held_out, measure_held_out
    from evals.grid.pipeline import evaluate_grid, retrieve
    from evals.pipeline import evaluate, ground

    check_bundled(config)
    _check_metrics(config)
    planned = _sweep(config)
    golden = load_golden(config.dataset)
    unseen = load_held_out(config) if planned else None
    name = config.tracking.run_name or f"{config.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    outcome = Outcome(report=namespace.output, junit=namespace.junit, html=namespace.html)
    if config.tracking.enabled:
        if not config.tracking.uri:
            tracking.check_folder(tracking.FOLDER)
        outcome.report = outcome.report or _report_file(tracking.FOLDER / "reports", name)
    for file in (outcome.report, outcome.junit, outcome.html, namespace.export):
        check_writable(file)
    with progress_bar(shown=not namespace.quiet) as progress, _judge(config, env, progress) as judge:
        with _opened(config, planned, env, progress) as (retrievers, sources):
            grounds = ground(golden, retrievers[0], sources)
            tracker = None
            if config.tracking.enabled:
                try:
                    tracker = tracking.start(config.tracking, name, _parameters(config, retrievers[0]))
                except TrackingError as error:
                    log.debug("MLflow failed", exc_info=True)
                    outcome.incomplete = str(error)

            def work() -> "RunResult":
                known = facts.gather(config, golden, retrievers[0], judge.chat if judge else None)
                if planned is None:
                    return evaluate(config, golden, grounds, retrievers[0], sources, known, progress, judge)
                found = retrieve(config, planned, golden, grounds, retrievers, progress)
                grid = evaluate_grid(config, planned, found, grounds, sources, known, judge)
                held = (
                    measure_held_out(config, planned, grid, unseen, retrievers, sources, progress, judge)
                    if unseen
                    else None
                )
                outcome.grid = replace(grid, held_out=held)
                if grid.choice is None:
                    outcome.incomplete = outcome.incomplete or f"the cells are not ranked: {grid.ranking.reason}"
                return grid.run

            result = _evaluate(work, golden, tracker, outcome, progress)
    if namespace.export and (outcome.grid is None or outcome.grid.chosen is not None):
        settings = config.retriever if outcome.grid is None else outcome.grid.settings
        write(namespace.export, yaml.safe_dump(_portable(settings), sort_keys=False))
    return result, outcome


def _sweep(config: ExperimentConfig) -> "Plan | None":
    """The grid that the experiment asks for, checked; None for a single run."""
    if not config.sweep.axes:
        return None
    from evals.grid.axes import plan
    from evals.grid.pipeline import grid_metrics

    grid_metrics(config)
    return plan(config.retriever, config.sweep)


def _plan(config: ExperimentConfig, namespace: argparse.Namespace, env: Mapping[str, str]) -> int:
    from evals.dataset.load import load_golden
    from evals.planning import describe_plan

    check_bundled(config)
    _check_metrics(config)
    planned = _sweep(config)
    golden = load_golden(config.dataset)
    with progress_bar(shown=not namespace.quiet) as progress, _judge(config, env, progress) as judge:
        with _opened(config, planned, env, progress) as (retrievers, _):
            text = describe_plan(config, golden, retrievers, judge, progress, sweep=planned, width=_width())
    print_out(text.rstrip())
    return 0


def _check_metrics(config: ExperimentConfig) -> None:
    from evals import gates
    from evals.metrics import BY_NAME_ONLY, VERDICT_METRIC, choose

    judged = config.judge.model is not None
    choose(config.metrics, config.latency.concurrency, judged=judged)
    every = choose(["*", *BY_NAME_ONLY], config.latency.concurrency, judged=True)
    gates.check_names(config.criteria, [*every, VERDICT_METRIC])
    choose([*config.criteria], config.latency.concurrency, judged=judged)


def _width() -> int:
    return max(100, shutil.get_terminal_size((120, 40)).columns)


def _report_file(folder: Path, name: str) -> Path:
    """A file for the report of a run of that name which no earlier run has taken."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(file for file in (folder / f"{one}.json" for one in names) if not file.exists())


def _portable(retriever: RetrieverConfig) -> dict[str, Any]:
    """The retriever's settings for another folder: where the embedded store is goes without saying only in this one."""
    from retrievers.connection import DEFAULT_PATH

    settings = dump(retriever)
    store = retriever.store
    if "store" in settings and not store.url and not store.path:
        settings["store"]["path"] = str(DEFAULT_PATH.absolute())
    return settings


def _parameters(config: ExperimentConfig, retriever: "Retriever") -> dict[str, Any]:
    """The settings, with the class that retrieves."""
    settings = dump(config)
    return {**settings, "retriever": {**settings["retriever"], "class": retriever.label}}


@contextmanager
def _opened(
    config: ExperimentConfig, planned: "Plan | None", env: Mapping[str, str], progress: Progress
) -> Iterator[tuple[list["Retriever"], Any]]:
    """The retriever, or one for each variant of a sweep, and the source pages; closed at the end."""
    from evals.prepare import index_if_stale
    from evals.web_sources import open_sources
    from retrievers import factory
    from retrievers.embeddings import make_embeddings
    from retrievers.opening import open_retriever

    embeddings = None  # before anything is indexed, so that a missing key or factory leaves nothing behind
    if config.retriever.python is None:
        embeddings = make_embeddings(config.retriever.embedding, env)
    else:
        factory.find(config.retriever.python, "python")
    index_if_stale(config, env, progress)
    sources = open_sources(config.sources)
    wanted = [config.retriever] if planned is None else [variant.settings for variant in planned.variants]
    with ExitStack() as stack:
        opened = [stack.enter_context(open_retriever(one, env=env, embeddings=embeddings)) for one in wanted]
        yield opened, sources


@contextmanager
def _judge(config: ExperimentConfig, env: Mapping[str, str], progress: Progress) -> Iterator["Judge | None"]:
    """The judge that the experiment names, closed at the end; None when it names none."""
    if config.judge.model is None:
        yield None
        return
    from evals.judge.judge import Judge
    from evals.report.judging import spent

    judge = Judge.open(config.judge, env, lambda done, total, usage: progress("judging", done, total, spent(usage)))
    try:
        yield judge
    finally:
        judge.close()


def _evaluate(
    work: Callable[[], "RunResult"],
    golden: "GoldenSet",
    tracker: "Tracker | None",
    outcome: Outcome,
    progress: Progress,
) -> "RunResult":
    """Do the work, save what it came to, and end the MLflow run as it deserves."""
    from evals import facts
    from evals.errors import TrackingError

    status = "FAILED"
    started = time.time()
    try:
        result = facts.with_duration(work(), started)
        _save(result, golden, tracker, outcome, progress)
        status = "FINISHED"
    except TrackingError as error:
        log.debug("MLflow failed", exc_info=True)
        outcome.incomplete = str(error)
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        if tracker:
            tracker.end(status)
    judged = result.judging.incomplete if result.judging else ""
    outcome.incomplete = outcome.incomplete or judged or _too_many_failures(result)
    return result


def _save(
    result: "RunResult", golden: "GoldenSet", tracker: "Tracker | None", outcome: Outcome, progress: Progress
) -> None:
    from evals.grid.children import along_top_k, children, table
    from evals.report.document import document
    from evals.report.figures import draw
    from evals.report.grid_document import grid_document
    from evals.report.junit import junit
    from evals.report.page import render_page
    from evals.report.traces import traces

    whole = document(result) | ({"grid": grid_document(outcome.grid)} if outcome.grid else {})
    text = json.dumps(whole, indent=None if outcome.grid else 2, ensure_ascii=False, allow_nan=False)
    if outcome.report:
        write(outcome.report, text)
    if outcome.junit:
        write(outcome.junit, junit(result, _too_many_failures(result)))
    if not (outcome.html or tracker):
        return
    pictures = draw(result, outcome.grid)
    page = render_page(result, pictures, outcome.grid)
    if outcome.html:
        write(outcome.html, page)
    if tracker:
        settings = yaml.safe_dump(dict(result.config), sort_keys=False)
        files = {"report.json": text, "report.html": page, "experiment.yaml": settings}
        tracker.log(result, golden, files, {name: picture.figure for name, picture in pictures.items()})
        if outcome.grid:
            which = result.config["tracking"]["log_cells"]
            cells, along = children(outcome.grid, which), along_top_k(outcome.grid)
            tracker.log_grid(cells, table(outcome.grid.grid), along, progress)
        tracker.log_traces(traces(result, result.config["tracking"]["traces"]))


def _too_many_failures(result: "RunResult") -> str:
    for summary in result.summaries:
        if not summary.usable:
            return f"{summary.metric}: {summary.n_failed} of {summary.n + summary.n_failed} failed ({summary.note})"
    return ""


def _show(result: "RunResult", outcome: Outcome, *, everything: bool) -> None:
    from evals.report.grid_terminal import render_grid
    from evals.report.terminal import render

    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    if outcome.grid:
        print_out(render_grid(outcome.grid, width=_width(), color=color).rstrip() + "\n")
    print_out(render(result, width=_width(), color=color, everything=everything).rstrip())
    if outcome.report:
        print_out(f"Report: {outcome.report}")
    if outcome.html:
        print_out(f"Page: {outcome.html}")


def _list_metrics() -> int:
    from evals.metrics import METRICS, VERDICT_METRIC

    width = max(map(len, METRICS))
    print_out(f"{VERDICT_METRIC:<{width}}  queries whose verdict is SUCCESS")
    for name, metric in METRICS.items():
        print_out(f"{name:<{width}}  {metric.about}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
