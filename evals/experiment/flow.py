"""The flow of one experiment: open its retriever and judge, measure, save, and end its run in MLflow."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from evals import tracking
from evals.config.experiment import ExperimentConfig
from evals.errors import TrackingError
from evals.experiment import provenance
from evals.experiment.collaborators import open_collaborators
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.loading import Inputs, load_inputs
from evals.experiment.output_files import Outputs, settle
from evals.experiment.plan import describe_plan
from evals.experiment.report_files import export, save
from evals.experiment.unchanged import checked_at_end
from evals.golden.loading import GoldenSet
from evals.grid.evaluation import GridResult, evaluate_grid, retrieve
from evals.grid.heldout import with_held_out
from evals.metrics.collaborators import Collaborators
from evals.metrics.evaluation import Grounds, evaluate, ground
from evals.metrics.run_result import RunResult
from evals.report.building import build_report
from evals.report.model import Report
from evals.tracking import Tracker
from retrievers.config import dump
from retrievers.retriever.protocol import Retriever

log = logging.getLogger(__name__)


def run_experiment(
    config: ExperimentConfig,
    wanted: Outputs,
    env: Mapping[str, str],
    *,
    shown: bool,
    golden: GoldenSet | None = None,
    retriever: Retriever | None = None,
    from_retrieval: Path | None = None,
) -> Evaluation:
    """Run an experiment from its configuration to saved files and a run in MLflow.

    Args:
        config: The experiment.
        wanted: The files to write.
        env: The environment that holds API keys.
        shown: True to draw progress on a terminal.
        golden: Golden queries in place of those that the experiment names.
        retriever: An open retriever in place of the one that the experiment names. It is left open.
        from_retrieval: Folder of a saved retrieval to start from; no store is then opened, and nothing embedded.

    Raises:
        RetrievalError: A fault of the settings or the golden data, before anything is retrieved; or a search, the
            judge or a file failed. A failure of MLflow is in the result.
    """
    inputs = load_inputs(config, golden)
    # UTC, so that names of runs sort alike on every machine.
    name = config.tracking.run_name or f"{config.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    with settle(wanted, config.tracking, name) as outputs:
        retrievers = [retriever] if retriever else _saved(from_retrieval, inputs)
        with open_collaborators(inputs, env, shown=shown, retrievers=retrievers) as collaborators:
            evaluation = _tracked(inputs, outputs, collaborators, name)
        export(evaluation, config.retriever)
    return evaluation


def plan_experiment(
    config: ExperimentConfig,
    env: Mapping[str, str],
    *,
    shown: bool,
    width: int,
    from_retrieval: Path | None = None,
) -> str:
    """Return what an experiment would call and cost, as text.

    Args:
        config: The experiment.
        env: The environment that holds API keys.
        shown: True to draw progress on a terminal.
        width: Width of the terminal, in columns.
        from_retrieval: Folder of a saved retrieval to start from.

    Raises:
        RetrievalError: A fault of the settings or the golden data, or a search failed.
    """
    inputs = load_inputs(config)
    retrievers = _saved(from_retrieval, inputs)
    with open_collaborators(inputs, env, shown=shown, retrievers=retrievers) as collaborators:
        return describe_plan(inputs, collaborators, width=width)


def _saved(folder: Path | None, inputs: Inputs) -> Sequence[Retriever]:
    """Return retrievers that answer from a saved retrieval; none where no folder is given."""
    if folder is None:
        return ()
    from evals.experiment.saved_retrieval import open_saved

    return open_saved(folder, inputs)


def _tracked(inputs: Inputs, outputs: Outputs, collaborators: Collaborators, name: str) -> Evaluation:
    """Measure and save within a run in MLflow; where that fails, the evaluation says so."""
    golden, held_out = inputs.golden, inputs.held_out
    retriever, judge = collaborators.retriever, collaborators.judge
    facts = provenance.gather(inputs.config, golden, retriever, judge.chat if judge else None)
    grounds = ground(golden, retriever, collaborators.sources)
    unseen = ground(held_out, retriever, collaborators.sources) if held_out else None
    # Begun before the work, so that a killed run is visible in MLflow.
    tracker, untracked = _begin(inputs.config, name, collaborators)
    started = time.time()
    try:
        with _ended(tracker):
            result = _measured(inputs, grounds, unseen, collaborators)
            result, facts = checked_at_end(result, facts, retriever)
            facts = facts.model_copy(update={"duration_s": round(time.time() - started, 3)})
            evaluation = _evaluation(result, build_report(result, facts), outputs, untracked)
            save(evaluation, golden, tracker, collaborators.progress)
    except TrackingError as error:
        log.debug("MLflow failed", exc_info=True)
        evaluation = replace(evaluation, untracked=str(error))
    if outputs.retrieval:
        from evals.experiment.saved_retrieval import save_retrieval

        save_retrieval(outputs.retrieval, inputs, result, facts, collaborators)
    return evaluation


def _evaluation(result: RunResult, report: Report, outputs: Outputs, untracked: str) -> Evaluation:
    if isinstance(result, GridResult):
        return Sweep(report=report, result=result, outputs=outputs, untracked=untracked)
    return Evaluation(report=report, result=result, outputs=outputs, untracked=untracked)


def _begin(config: ExperimentConfig, name: str, collaborators: Collaborators) -> tuple[Tracker | None, str]:
    """Begin a run in MLflow if the experiment is tracked, or return the reason why that failed."""
    if not config.tracking.enabled:
        return None, ""
    try:
        return tracking.start(config.tracking, name, dump(config), collaborators.retriever.label), ""
    except TrackingError as error:
        log.debug("MLflow failed", exc_info=True)
        return None, str(error)


@contextmanager
def _ended(tracker: Tracker | None) -> Iterator[None]:
    """End the run in MLflow with the block: finished, failed, or killed by an interrupt."""
    status = "FAILED"
    try:
        yield
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        if tracker:
            tracker.end(status)


def _measured(
    inputs: Inputs,
    grounds: Grounds,
    unseen: Grounds | None,
    collaborators: Collaborators,
) -> RunResult:
    """Measure the experiment: a run, or a grid where it has a sweep.

    Args:
        inputs: The experiment.
        grounds: Relevant chunks of its golden queries.
        unseen: Relevant chunks of the held-out ones, None without any.
        collaborators: Retrievers, source pages and judge.
    """
    config, golden, sweep = inputs.config, inputs.golden, inputs.sweep
    if sweep is None:
        return evaluate(config, golden, grounds, collaborators)
    retrieved = retrieve(config, sweep, golden, grounds, collaborators)
    grid = evaluate_grid(config, sweep, retrieved, grounds, collaborators)
    if inputs.held_out and unseen:
        grid = with_held_out(config, sweep, grid, inputs.held_out, unseen, collaborators)
    return grid
