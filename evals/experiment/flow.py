"""The flow of one experiment: open what it names, measure, save, and end its run in MLflow as it deserves."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evals import tracking
from evals.config.experiment import ExperimentConfig
from evals.errors import TrackingError
from evals.experiment import provenance as facts
from evals.experiment.collaborators import open_collaborators
from evals.experiment.finished import Outcome
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
) -> Outcome:
    """Run an experiment from its configuration to saved files and a run in MLflow.

    Args:
        config: The experiment.
        wanted: The files to write.
        env: The environment that holds API keys.
        shown: Whether progress is drawn on a terminal.
        golden: Golden queries in place of those that the experiment names.
        retriever: An open retriever in place of the one that the experiment names. It is left open.

    Raises:
        RetrievalError: A fault of the settings or the golden data, before anything is retrieved; or a search, the
            judge or a file failed. What MLflow does is said in the outcome.
    """
    inputs = load_inputs(config, golden)
    name = config.tracking.run_name or f"{config.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    with settle(wanted, config.tracking, name) as outputs:
        with open_collaborators(inputs, env, shown=shown, retriever=retriever) as collaborators:
            outcome = _tracked(inputs, outputs, collaborators, name)
        export(outcome, config.retriever)
    return outcome


def plan_experiment(config: ExperimentConfig, env: Mapping[str, str], *, shown: bool, width: int) -> str:
    """What an experiment would call and cost, as text.

    Args:
        config: The experiment.
        env: The environment that holds API keys.
        shown: Whether progress is drawn on a terminal.
        width: Of the terminal.

    Raises:
        RetrievalError: A fault of the settings or the golden data, or a search failed.
    """
    inputs = load_inputs(config)
    with open_collaborators(inputs, env, shown=shown) as collaborators:
        return describe_plan(inputs, collaborators, width=width)


def _tracked(inputs: Inputs, outputs: Outputs, collaborators: Collaborators, name: str) -> Outcome:
    """Measure and save within a run in MLflow; where that fails, the outcome says so."""
    golden, held_out = inputs.golden, inputs.held_out
    retriever, judge = collaborators.retriever, collaborators.judge
    known = facts.gather(inputs.config, golden, retriever, judge.chat if judge else None)
    grounds = ground(golden, retriever, collaborators.sources)
    unseen = ground(held_out, retriever, collaborators.sources) if held_out else None
    tracker, untracked = _begin(inputs.config, name, collaborators)
    started = time.time()
    try:
        with _ended(tracker):
            result, grid = _measured(inputs, grounds, unseen, collaborators, known)
            result = facts.with_duration(checked_at_end(result, retriever), started)
            outcome = Outcome(result=result, grid=grid, outputs=outputs, untracked=untracked)
            save(outcome, golden, tracker, collaborators.progress)
    except TrackingError as error:
        log.debug("MLflow failed", exc_info=True)
        return replace(outcome, untracked=str(error))
    return outcome


def _begin(config: ExperimentConfig, name: str, collaborators: Collaborators) -> tuple[Tracker | None, str]:
    """A run in MLflow if one is wanted, or why it could not be begun."""
    if not config.tracking.enabled:
        return None, ""
    try:
        return tracking.start(config.tracking, name, _parameters(config, collaborators.retriever.label)), ""
    except TrackingError as error:
        log.debug("MLflow failed", exc_info=True)
        return None, str(error)


@contextmanager
def _ended(tracker: Tracker | None) -> Iterator[None]:
    """End the run in MLflow as what is done within deserves: finished, failed, or killed by whoever watched."""
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
    known: Mapping[str, Any],
) -> tuple[RunResult, GridResult | None]:
    """The run, and the grid of whose cells it is one where the experiment asks for a sweep.

    Args:
        inputs: The experiment.
        grounds: What is relevant to its golden queries.
        unseen: What is relevant to the held-out ones, None without any.
        collaborators: What it works with.
        known: The facts that are known before.
    """
    config, golden, sweep = inputs.config, inputs.golden, inputs.sweep
    if sweep is None:
        return evaluate(config, golden, grounds, collaborators, known), None
    found = retrieve(config, sweep, golden, grounds, collaborators)
    grid = evaluate_grid(config, sweep, found, grounds, collaborators, known)
    if inputs.held_out and unseen:
        grid = with_held_out(config, sweep, grid, inputs.held_out, unseen, collaborators)
    return grid.run, grid


def _parameters(config: ExperimentConfig, label: str) -> dict[str, Any]:
    """The settings, with the class that retrieves."""
    settings = dump(config)
    return {**settings, "retriever": {**settings["retriever"], "class": label}}
