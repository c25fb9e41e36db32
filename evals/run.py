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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evals.config import ExperimentConfig
from evals.files import check_writable, write
from evals.quiet import silence
from retrievers.command import (
    EXIT_INCOMPLETE,
    Parser,
    add_logging_flags,
    print_error,
    print_out,
    progress_bar,
    run,
    set_up_logging,
)
from retrievers.config import dump
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
    from evals.pipeline import Grounds
    from evals.records import RunResult
    from evals.tracking import Tracker
    from retrievers.retriever import QdrantRetriever

log = logging.getLogger("evals.run")  # not __main__, which no handler listens to
EXPERIMENTS = Path(__file__).parent / "experiments"
EXIT_FAILED = 1
MAX_FAILED_SHARE = 0.05
Progress = Callable[[str, int, int], None]


@dataclass
class Outcome:
    """What is left to say after a run: where its report is, why it is incomplete, and the grid if it is one of its cells."""

    report: Path | None = None
    incomplete: str = ""
    grid: "GridResult | None" = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    namespace = parser().parse_args(arguments)
    return run(lambda: _main(namespace))


def parser() -> argparse.ArgumentParser:
    """The command's flags: the short ones, then one for every setting."""
    made = Parser(
        prog="python -m evals.run",
        description="Run golden queries through a retriever, score what comes back, log it to MLflow.",
        epilog="Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, 130 interrupted.",
    )
    made.add_argument(
        "--config", type=Path, metavar="FILE", help="experiment file (default: the packaged default.yaml)"
    )
    made.add_argument("--limit", dest="dataset.limit", default=argparse.SUPPRESS, metavar="N", help="at most N cases")
    made.add_argument("--ids", dest="dataset.ids", default=argparse.SUPPRESS, metavar="A,B", help="only these cases")
    made.add_argument("--output", type=Path, metavar="FILE", help="where to write the JSON report")
    made.add_argument("--export", type=Path, metavar="FILE", help="write the retriever's settings for an application")
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
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file)
    if namespace.list_metrics:
        return _list_metrics()
    env = environment(os.environ)
    config = load_config(namespace, env)
    if namespace.print_config:
        print_out(yaml.safe_dump(dump(config), sort_keys=False).rstrip())
        return 0
    silence(hub=bool(config.dataset.hub))
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
    from evals import gates, tracking
    from evals.dataset.load import load_golden
    from evals.errors import TrackingError
    from evals.metrics import VERDICT_METRIC, choose
    from evals.pipeline import ground

    gates.check_names(config.criteria, [*choose(["*"], config.latency.concurrency), VERDICT_METRIC])
    choose(config.metrics, config.latency.concurrency)
    golden = load_golden(config.dataset)
    name = config.tracking.run_name or f"{config.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    outcome = Outcome(report=namespace.output)
    if config.tracking.enabled:
        if not config.tracking.uri:
            tracking.check_folder(tracking.FOLDER)
        outcome.report = outcome.report or _report_file(tracking.FOLDER / "reports", name)
    for file in (outcome.report, namespace.export):
        check_writable(file)
    with progress_bar(shown=not namespace.quiet) as progress:
        retriever, sources = _open(config, env, progress)
        with retriever:
            grounds = ground(golden, retriever)
            tracker = None
            if config.tracking.enabled:
                try:
                    tracker = tracking.start(config.tracking, name, dump(config))
                except TrackingError as error:
                    log.debug("MLflow failed", exc_info=True)
                    outcome.incomplete = str(error)
            result = _evaluate(config, golden, grounds, retriever, sources, progress, tracker, outcome)
    if namespace.export:
        write(namespace.export, yaml.safe_dump(_portable(config), sort_keys=False))
    return result, outcome


def _report_file(folder: Path, name: str) -> Path:
    """A file for the report of a run of that name which no earlier run has taken."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(file for file in (folder / f"{one}.json" for one in names) if not file.exists())


def _portable(config: ExperimentConfig) -> dict[str, Any]:
    """The retriever's settings for another folder: where the embedded store is goes without saying only in this one."""
    from retrievers.connection import DEFAULT_PATH

    settings = dump(config.retriever)
    store = config.retriever.store
    if not store.url and not store.path:
        settings["store"]["path"] = str(DEFAULT_PATH.absolute())
    return settings


def _open(config: ExperimentConfig, env: Mapping[str, str], progress: Progress) -> tuple["QdrantRetriever", Any]:
    from evals.prepare import index_if_stale
    from evals.web_sources import open_sources
    from retrievers.embeddings import make_embeddings
    from retrievers.retriever import QdrantRetriever

    embeddings = make_embeddings(config.retriever.embedding, env)  # first, so that a missing key leaves nothing behind
    index_if_stale(config, env, progress)
    sources = open_sources(config.sources)
    return QdrantRetriever.open(config.retriever, env=env, embeddings=embeddings), sources


def _evaluate(
    config: ExperimentConfig,
    golden: "GoldenSet",
    grounds: "Grounds",
    retriever: "QdrantRetriever",
    sources: Any,
    progress: Progress,
    tracker: "Tracker | None",
    outcome: Outcome,
) -> "RunResult":
    from evals import facts
    from evals.errors import TrackingError
    from evals.pipeline import evaluate

    status = "FAILED"
    started = time.time()
    try:
        known = facts.gather(config, golden, retriever)
        result = evaluate(config, golden, grounds, retriever, sources, known, progress)
        result = facts.with_duration(result, started)
        _save(result, golden, tracker, outcome)
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
    outcome.incomplete = outcome.incomplete or _too_many_failures(result)
    return result


def _save(result: "RunResult", golden: "GoldenSet", tracker: "Tracker | None", outcome: Outcome) -> None:
    from evals.report.document import document
    from evals.report.figures import draw

    text = json.dumps(document(result), indent=2, ensure_ascii=False, allow_nan=False)
    if outcome.report:
        write(outcome.report, text)
    if tracker:
        settings = yaml.safe_dump(dict(result.config), sort_keys=False)
        tracker.log(result, golden, {"report.json": text, "experiment.yaml": settings}, draw(result))


def _too_many_failures(result: "RunResult") -> str:
    for summary in result.summaries:
        if summary.n_failed > MAX_FAILED_SHARE * (summary.n + summary.n_failed):
            return f"{summary.metric}: {summary.n_failed} of {summary.n + summary.n_failed} failed ({summary.note})"
    return ""


def _show(result: "RunResult", outcome: Outcome, *, everything: bool) -> None:
    from evals.report.terminal import render

    width = max(100, shutil.get_terminal_size((120, 40)).columns)
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print_out(render(result, width=width, color=color, everything=everything).rstrip())
    if outcome.report:
        print_out(f"Report: {outcome.report}")


def _list_metrics() -> int:
    from evals.metrics import METRICS, VERDICT_METRIC

    width = max(map(len, METRICS))
    print_out(f"{VERDICT_METRIC:<{width}}  queries whose verdict is SUCCESS")
    for name, metric in METRICS.items():
        print_out(f"{name:<{width}}  {metric.about}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
