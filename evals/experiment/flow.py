"""The flow of one experiment: open its retriever and judge, measure, save, show, track."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evals.cases.reading import GoldenSet
from evals.collect.pool import Find
from evals.config.experiment import ExperimentConfig
from evals.experiment import provenance, ragas_check
from evals.experiment.baseline import against_baseline
from evals.experiment.collaborators import open_collaborators, with_its_distance
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.loading import Inputs, load_inputs, with_objective
from evals.experiment.output_files import Outputs, check_outputs, run_name, with_report
from evals.experiment.plan import describe_plan
from evals.experiment.provenance import checked_at_end
from evals.experiment.reference import beside_reference
from evals.experiment.report_files import export, save_data, save_page, track
from evals.experiment.retrieving import finders, fitting, save
from evals.grid.heldout import with_held_out
from evals.grid.measure import Measured, alone, measure_pool
from evals.metrics.collaborators import Collaborators
from evals.report.building import build_report
from evals.report.building.head import decided
from evals.report.building.run import slices
from evals.report.model import Facts, Report
from retrievers.retriever.protocol import Retriever
from retrievers.terminal.command import progress_bar

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool


def run_experiment(
    config: ExperimentConfig,
    wanted: Outputs,
    env: Mapping[str, str],
    *,
    shown: bool,
    golden: GoldenSet | None = None,
    retriever: Retriever | None = None,
    from_retrieval: Path | None = None,
    measured: Callable[[Evaluation], None] | None = None,
) -> Evaluation:
    """Run an experiment from its configuration to saved files and a run in MLflow.

    Args:
        config: The experiment.
        wanted: The files to write.
        env: The environment that holds API keys.
        shown: True to draw progress on a terminal.
        golden: Golden queries in place of those that the experiment names.
        retriever: An open retriever in place of the one that the experiment names. It is left open.
        from_retrieval: File of a saved retrieval to start from; no store is then opened, and nothing embedded.
        measured: Called once everything is measured and the report is saved, before page, figures and MLflow.

    Raises:
        RetrievalError: A fault of the settings or the golden data, before anything is retrieved; or a search, the
            judge or a file failed. A failure of MLflow is in the result.
    """
    inputs, saved = load_inputs(config, golden), None
    if retriever is None:
        inputs, saved = _settled(inputs, env, from_retrieval)
        config = inputs.config
    # UTC, so that names of runs sort alike on every machine.
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    name = config.tracking.run_name or run_name(config, inputs.sweep, stamp)
    stem = config.tracking.run_name or f"{config.name}-{stamp}"
    check_outputs(wanted, config.tracking)
    with ExitStack() as bar:
        progress = bar.enter_context(progress_bar(shown=shown))
        given = [retriever] if retriever else () if saved else None
        with open_collaborators(inputs, env, progress, retrievers=given) as collaborators:
            listed = saved.origin.collection is not None if saved else collaborators.retriever.info is not None
            inputs = with_objective(inputs, listed=listed)
            config = inputs.config
            find, *held_out = finders(inputs, collaborators, saved)
            result, facts = _measured(inputs, find, held_out, collaborators, saved)
            report = build_report(result, facts).model_copy(update={"run": name, "slices": slices(result)})
            report = beside_reference(report, inputs, collaborators)
            if inputs.baseline:
                report = against_baseline(report, inputs.baseline)
            if check := ragas_check.pending(result):
                report = report.model_copy(update={"ragas_check": check})
            outputs = with_report(wanted, config.tracking, stem)
            evaluation = _evaluation(result, report, outputs)
            text = save_data(evaluation, outputs)
            bar.close()
            if measured:
                measured(evaluation)
            if outputs.retrieval:
                save(outputs.retrieval, result.results.lists.pool, held_out, facts, collaborators)
            export(evaluation, config.retriever)
            with progress_bar(shown=shown) as progress:
                if report.ragas_check:
                    check = ragas_check.checked(report.ragas_check, result, collaborators.judge, progress)
                    report = decided(report.model_copy(update={"ragas_check": check}))
                    evaluation = replace(evaluation, report=report)
                    text = save_data(evaluation, outputs)
                if outputs.html:
                    save_page(evaluation, outputs.html)
                return track(evaluation, text, progress)


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
        from_retrieval: File of a saved retrieval to start from.

    Raises:
        RetrievalError: A fault of the settings or the golden data, or a search failed.
    """
    inputs, saved = _settled(load_inputs(config), env, from_retrieval)
    with (
        progress_bar(shown=shown) as progress,
        open_collaborators(inputs, env, progress, retrievers=() if saved else None) as collaborators,
    ):
        return describe_plan(inputs, collaborators, saved, width=width)


def _settled(inputs: Inputs, env: Mapping[str, str], file: Path | None) -> "tuple[Inputs, SavedPool | None]":
    """Return the experiment with the distance of its collection, and what it needs of a saved retrieval, if any."""
    if file is None:
        return with_its_distance(inputs, env), None
    from evals.collect.saved import read

    saved = read(file)
    inputs = with_its_distance(inputs, env, saved.origin.variants[0].settings)
    return inputs, fitting(file, saved, inputs)


def _measured(
    inputs: Inputs,
    find: Find,
    held_out: Sequence[Find],
    collaborators: Collaborators,
    saved: "SavedPool | None",
) -> tuple[Measured, Facts]:
    """Measure the experiment, and gather the facts that make it comparable.

    Args:
        inputs: The experiment.
        find: Finds its golden queries.
        held_out: Finds those that are held out, where there are any.
        collaborators: Retrievers, source pages and judge.
        saved: The saved retrieval that it starts from, None where it searches.
    """
    config, sweep, judge = inputs.config, inputs.sweep, collaborators.judge
    chats = [tier.chat for tier in judge.tiers] if judge else []
    retriever = None if saved else collaborators.retriever
    facts = provenance.gather(config, inputs.golden, retriever, chats, saved)
    started = time.time()
    pool = find(range(len((sweep or alone(config)).variants)))
    result = measure_pool(config, pool, collaborators, sweep)
    if sweep and held_out:
        result = with_held_out(config, sweep, result, held_out[0], collaborators)
    if retriever:
        result, facts = checked_at_end(result, facts, retriever)
    return result, facts.model_copy(update={"duration_s": round(time.time() - started, 3)})


def _evaluation(result: Measured, report: Report, outputs: Outputs) -> Evaluation:
    if result.swept:
        return Sweep(report=report, result=result, outputs=outputs)
    return Evaluation(report=report, result=result, outputs=outputs)
