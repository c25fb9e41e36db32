"""The flow of one experiment: open its retriever and judge, measure, save, show, publish."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from evals.collect.pool import Grounds, ground
from evals.config.experiment import ExperimentConfig
from evals.experiment import provenance
from evals.experiment.baseline import against_baseline
from evals.experiment.collaborators import open_collaborators, with_its_distance
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.loading import Inputs, load_inputs
from evals.experiment.output_files import Outputs, run_name, settle
from evals.experiment.plan import describe_plan
from evals.experiment.provenance import checked_at_end
from evals.experiment.publishing import TrackingRun, publish
from evals.experiment.reference import beside_reference
from evals.experiment.report_files import export, save_data
from evals.golden.loading import GoldenSet
from evals.grid.heldout import with_held_out
from evals.grid.measure import Measured, measure
from evals.metrics.collaborators import Collaborators
from evals.report.building import build_report
from evals.report.building.run import slices
from evals.report.model import Facts, Report
from retrievers.retriever.protocol import Retriever
from retrievers.terminal.command import progress_bar


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
        from_retrieval: Folder of a saved retrieval to start from; no store is then opened, and nothing embedded.
        measured: Called once everything is measured and the report is saved, before page, figures and MLflow.

    Raises:
        RetrievalError: A fault of the settings or the golden data, before anything is retrieved; or a search, the
            judge or a file failed. A failure of MLflow is in the result.
    """
    inputs = load_inputs(config, golden)
    if retriever is None:
        inputs = with_its_distance(inputs, env, from_retrieval)
        config = inputs.config
    # UTC, so that names of runs sort alike on every machine.
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    name = config.tracking.run_name or run_name(config, inputs.sweep, stamp)
    stem = config.tracking.run_name or f"{config.name}-{stamp}"
    with settle(wanted, config.tracking, stem) as outputs, ExitStack() as bar:
        progress = bar.enter_context(progress_bar(shown=shown))
        retrievers = [retriever] if retriever else _saved(from_retrieval, inputs)
        with open_collaborators(inputs, env, progress, retrievers=retrievers) as collaborators:
            grounds = [
                ground(split, collaborators.retriever, collaborators.sources)
                for split in (inputs.golden, *([inputs.held_out] if inputs.held_out else []))
            ]
            run = TrackingRun(config, name, collaborators.retriever.label)
            result, facts = _measured(inputs, grounds, collaborators)
            report = build_report(result, facts).model_copy(update={"run": name, "slices": slices(result)})
            report = beside_reference(report, inputs, collaborators)
            if inputs.baseline:
                report = against_baseline(report, inputs.baseline)
            evaluation = _evaluation(result, report, outputs)
            text = save_data(evaluation, outputs)
            bar.close()
            if measured:
                measured(evaluation)
            if outputs.retrieval:
                from evals.experiment.saved_retrieval import save_retrieval

                save_retrieval(outputs.retrieval, inputs, result, facts, collaborators)
            export(evaluation, config.retriever)
            with progress_bar(shown=shown) as progress:
                return publish(evaluation, text, inputs.golden, run, progress)


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
    inputs = with_its_distance(load_inputs(config), env, from_retrieval)
    retrievers = _saved(from_retrieval, inputs)
    with (
        progress_bar(shown=shown) as progress,
        open_collaborators(inputs, env, progress, retrievers=retrievers) as collaborators,
    ):
        return describe_plan(inputs, collaborators, width=width)


def _saved(folder: Path | None, inputs: Inputs) -> Sequence[Retriever]:
    """Return retrievers that answer from a saved retrieval; none where no folder is given."""
    if folder is None:
        return ()
    from evals.experiment.saved_retrieval import open_saved

    return open_saved(folder, inputs)


def _measured(inputs: Inputs, grounds: Sequence[Grounds], collaborators: Collaborators) -> tuple[Measured, Facts]:
    """Measure the experiment, and gather the facts that make it comparable.

    Args:
        inputs: The experiment.
        grounds: Relevant chunks of its golden queries, then of the held-out ones where there are any.
        collaborators: Retrievers, source pages and judge.
    """
    retriever, judge = collaborators.retriever, collaborators.judge
    chats = [tier.chat for tier in judge.tiers] if judge else []
    facts = provenance.gather(inputs.config, inputs.golden, retriever, chats)
    started = time.time()
    result, facts = checked_at_end(_result(inputs, grounds, collaborators), facts, retriever)
    return result, facts.model_copy(update={"duration_s": round(time.time() - started, 3)})


def _evaluation(result: Measured, report: Report, outputs: Outputs) -> Evaluation:
    if result.swept:
        return Sweep(report=report, result=result, outputs=outputs)
    return Evaluation(report=report, result=result, outputs=outputs)


def _result(inputs: Inputs, grounds: Sequence[Grounds], collaborators: Collaborators) -> Measured:
    """Measure a run, or a grid where the experiment has a sweep."""
    config, sweep = inputs.config, inputs.sweep
    result = measure(config, inputs.golden, grounds[0], collaborators, sweep)
    if sweep and inputs.held_out:
        return with_held_out(config, sweep, result, inputs.held_out, grounds[1], collaborators)
    return result
