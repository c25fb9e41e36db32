"""The flow of one experiment, from its configuration to a report, files and a run in MLflow."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from evals.cases.reading import GoldenSet
from evals.collect.pool import Find
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError, TrackingError
from evals.experiment import ragas_check
from evals.experiment.baseline import against_baseline
from evals.experiment.bench import open_bench
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.facts import checked_at_end, gather
from evals.experiment.inputs import Inputs, load_inputs, with_objective
from evals.experiment.outputs import Outputs, check_outputs, export, run_names, save_data, save_page, with_report
from evals.experiment.plan import describe_plan
from evals.experiment.saved import finders, save, started_from
from evals.grid.heldout import with_held_out
from evals.grid.measure import Measured, measure_pool
from evals.metrics.declaration import Collaborators
from evals.report.build import build_report
from evals.report.head import decided
from evals.report.model import Facts
from retrievers.errors import ConfigError
from retrievers.retriever.protocol import Retriever
from retrievers.terminal.command import progress_bar

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
    measured: Callable[[Evaluation], None] | None = None,
) -> Evaluation:
    """Run an experiment from its configuration to saved files and a run in MLflow.

    Args:
        config: The experiment.
        wanted: The files to write.
        env: The environment that holds API keys.
        shown: True to draw progress on a terminal.
        golden: Golden queries in place of those that the experiment names; its split, ids and limit choose from them.
        retriever: An open retriever in place of the one that the experiment names. It is left open.
        from_retrieval: File of a saved retrieval to start from; no store is then opened, and nothing embedded.
        measured: Called once everything is measured and the report is saved or cannot be, before page and MLflow.

    Raises:
        RetrievalError: A fault of the settings or the golden data, before anything is retrieved; or a search, the
            judge or a file failed. A failure of MLflow is in the result.
    """
    inputs = load_inputs(config, golden)
    check_outputs(wanted, config.tracking)
    if from_retrieval:
        inputs = started_from(from_retrieval, inputs)
    if (exported := wanted.export or wanted.refit) and inputs.config.retriever.python != config.retriever.python:
        # It may have been an object; and a file from somebody else is to name no code that is run later.
        raise ExperimentError(f"{exported}: only the saved retrieval names the retriever; leave the export out")
    with ExitStack() as opened:
        with progress_bar(shown=shown) as progress:
            inputs, bench = opened.enter_context(open_bench(inputs, env, progress, retriever))
            searches = finders(inputs, bench)
            result, facts = _measured(inputs, bench, searches)
        run, stem = run_names(result.config, inputs.sweep, datetime.fromisoformat(facts.started_at))
        report = build_report(result, facts, run=run, ragas_check=ragas_check.pending(result))
        report = against_baseline(report, inputs.baseline, config.baseline)
        outputs = with_report(wanted, config.tracking, stem)
        evaluation = (Sweep if result.swept else Evaluation)(report=report, result=result, outputs=outputs)
        try:
            save_data(report, outputs)
        finally:  # what was paid for is shown, where it cannot be saved, too
            if measured:
                measured(evaluation)
        if outputs.retrieval:
            save(outputs.retrieval, result.results.lists.pool, searches[1:], facts, bench.retrievers)
        return _published(evaluation, bench, shown=shown)


def plan_experiment(
    config: ExperimentConfig, env: Mapping[str, str], *, shown: bool, width: int, from_retrieval: Path | None
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
    inputs = load_inputs(config)
    if from_retrieval:
        inputs = started_from(from_retrieval, inputs)
    with progress_bar(shown=shown) as progress, open_bench(inputs, env, progress) as (settled, bench):
        return describe_plan(settled, bench, width=width)


def _measured(inputs: Inputs, bench: Collaborators, searches: Sequence[Find]) -> tuple[Measured, Facts]:
    """Measure the experiment, and gather the facts that make it comparable."""
    saved, started = inputs.saved, time.time()
    inputs = with_objective(inputs, listed=bool(saved.origin.collection if saved else bench.retriever.info))
    config, sweep, (search, *held_out) = inputs.config, inputs.sweep, searches
    facts = gather(config, inputs.golden, bench, saved)
    result = measure_pool(config, search(range(len(inputs.settings))), bench, sweep)
    if sweep and held_out:
        result = with_held_out(config, result, held_out[0], bench)
    if saved is None:
        result, facts = checked_at_end(result, facts, bench.retriever)
    result = replace(result, splits=() if saved else inputs.golden.splits)
    return result, facts.model_copy(update={"duration_s": round(time.time() - started, 3)})


def _published(evaluation: Evaluation, bench: Collaborators, *, shown: bool) -> Evaluation:
    """Let ragas check the figures, then write settings, page and MLflow, each if it is wanted."""
    report, result, outputs = evaluation.report, evaluation.result, evaluation.outputs
    with progress_bar(shown=shown) as progress:
        if report.ragas_check:
            check = ragas_check.checked(result, bench.judge, progress)
            report = decided(report.model_copy(update={"ragas_check": check}))
        if (file := outputs.export or (outputs.refit if report.passed else None)) and evaluation.recommended:
            export(evaluation.recommended, report, file)
        text, config = save_data(report, outputs), result.config.tracking
        if outputs.html:
            save_page(report, outputs.html)
        evaluation = replace(evaluation, report=report)
        if not config.enabled or outputs.report is None:
            return evaluation
        # MLflow costs seconds to import.
        from evals.tracking.runs import late_command, write_run

        progress("MLflow", 0, 1)
        try:
            return replace(evaluation, address=write_run(report, text, config, progress).address)
        except (TrackingError, ConfigError) as error:
            log.info("MLflow failed", exc_info=True)
            return replace(evaluation, untracked=str(error))
        except KeyboardInterrupt:
            later = late_command(outputs.report, config)
            raise KeyboardInterrupt(f"{outputs.report} is saved; {later} writes its run") from None
