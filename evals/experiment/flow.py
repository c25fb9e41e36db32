"""The flow of an experiment: from its configuration to a report, files and a run in MLflow."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evals.cases.reading import GoldenSet
from evals.collect.passes import Progress
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError, TrackingError
from evals.experiment import ragas_check
from evals.experiment.baseline import against_baseline
from evals.experiment.bench import open_bench
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.facts import checked_at_end, gather
from evals.experiment.inputs import Inputs, load_inputs, with_objective
from evals.experiment.outputs import Outputs, check_outputs, export, run_names, save_report, save_views, with_report
from evals.experiment.plan import describe_plan
from evals.experiment.saved import make_finders, save, started_from
from evals.grid.heldout import with_held_out
from evals.grid.measure import Measured, measure_pool
from evals.metrics.declaration import Collaborators
from evals.report.build import build_report
from evals.report.head import decided
from evals.report.model import Facts
from evals.tracking.runs import late_command, write_run
from retrievers.errors import CollectionChangedError, ConfigError
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
        env: The environment, which holds API keys.
        shown: True to draw progress on a terminal.
        golden: Golden queries in place of those that the experiment names. Its split, ids and limit choose among them.
        retriever: An open retriever in place of the one that the experiment names. It is left open.
        from_retrieval: File of a saved retrieval to start from. No store is then opened, and nothing is embedded.
        measured: Called when everything is measured, after the report is saved and before page and MLflow are written.
            It is called as well if the report cannot be saved.

    Raises:
        RetrievalError: Settings or golden data have a fault, which is found before anything is retrieved; or a search,
            the judge or a file failed. A failure of MLflow does not raise: the evaluation tells it (`untracked`).
    """
    inputs = load_inputs(config, golden)
    check_outputs(wanted, config.tracking, (config.dataset.path, config.baseline, from_retrieval))
    if from_retrieval:
        inputs = started_from(from_retrieval, inputs)
    if (exported := wanted.export or wanted.refit) and _acting(inputs.config) != _acting(config):
        # The retriever may have been an object. And a saved retrieval of somebody else must not name code to run later.
        names = "the retriever, or code, address or options of its models"
        raise ExperimentError(f"{exported}: only the saved retrieval names {names}; name them, or leave the export out")
    with ExitStack() as stack:
        # The bench stays open until the run is published; this progress bar ends before the result is shown.
        with progress_bar(shown=shown) as progress:
            inputs, bench = stack.enter_context(open_bench(inputs, env, progress, retriever))
            result, facts = _measure(inputs, bench, wanted.retrieval)
        run, stem = run_names(result.config, inputs.sweep, datetime.fromisoformat(facts.started_at))
        report = build_report(result, facts, run=run, ragas_check=ragas_check.pending(result))
        report = against_baseline(report, inputs.baseline, config)
        outputs = with_report(wanted, config.tracking, stem)
        saved = (Sweep if result.swept else Evaluation)(report=report, result=result, outputs=outputs)
        evaluation = replace(saved, outputs=Outputs())
        try:
            save_report(report, outputs.report)
            evaluation = saved
        except ConfigError:
            if outputs.report and not wanted.report:  # the empty file that has kept the name
                outputs.report.unlink(missing_ok=True)
            raise
        finally:  # if the report cannot be saved, its user sees at least what was paid for
            if measured:
                measured(evaluation)
        if outputs.retrieval and (changed := facts.collection_changed):
            fault = f"--save-retrieval {outputs.retrieval}: not saved, for the collection changed during the run"
            raise CollectionChangedError(f"{fault}: {changed}; run again while nobody writes to it")
        try:
            return _publish(evaluation, bench, shown=shown)
        except KeyboardInterrupt:
            file, tracking = evaluation.outputs.report, config.tracking
            if file is None:
                raise
            late = f"; {late_command(file, tracking)} writes its run" if tracking.enabled else ""
            raise KeyboardInterrupt(f"{file} is saved{late}") from None


def plan_experiment(
    config: ExperimentConfig, env: Mapping[str, str], *, shown: bool, width: int, from_retrieval: Path | None
) -> str:
    """Return as text what an experiment would call, and what that would cost.

    Args:
        config: The experiment.
        env: The environment, which holds API keys.
        shown: True to draw progress on a terminal.
        width: Width of the terminal, in columns.
        from_retrieval: File of a saved retrieval to start from.

    Raises:
        RetrievalError: Settings or golden data have a fault, or a search failed.
    """
    inputs = load_inputs(config)
    if from_retrieval:
        inputs = started_from(from_retrieval, inputs)
    with progress_bar(shown=shown) as progress, open_bench(inputs, env, progress) as (settled, bench):
        return describe_plan(settled, bench, width=width)


def _acting(config: ExperimentConfig) -> tuple[Any, ...]:
    """Return what of a retriever's settings names code or addresses, or reaches a provider's library as it is."""
    retriever = config.retriever
    models = (retriever.embedding, retriever.cross_encoder)
    code = [retriever.python, *(model.model for model in models if model.provider == "python")]
    return code, [model.base_url for model in models], retriever.embedding.options


def _measure(inputs: Inputs, bench: Collaborators, file: Path | None) -> tuple[Measured, Facts]:
    """Measure the experiment, and gather the facts that make it comparable. The candidates are saved to `file`."""
    finders = make_finders(inputs, bench)
    started = time.time()
    saved = inputs.saved
    inputs = with_objective(inputs, listed=bool(saved.origin.collection if saved else bench.retriever.info))
    config, sweep = inputs.config, inputs.sweep
    facts = gather(inputs.golden, bench, saved)
    of_all = range(len(inputs.settings))
    if file:  # at once, since a reranker may have been paid for them
        pools = [find(of_all) for find in finders]
        save(file, pools, facts, bench.retrievers)
        finders = [pool.under for pool in pools]
    find, *held_out = finders
    result = measure_pool(config, find(of_all), bench, sweep)
    if sweep and held_out:
        result = with_held_out(config, result, held_out[0], bench)
    if saved is None:
        result, facts = checked_at_end(result, facts, bench.retriever)
        if file and facts.collection_changed:
            file.unlink()
    has_other_splits = saved is None or len(saved.rows) > len(inputs.golden.cases)
    result = replace(result, splits=inputs.golden.splits if has_other_splits else ())
    return result, facts.model_copy(update={"duration_s": round(time.time() - started, 3)})


def _publish(evaluation: Evaluation, bench: Collaborators, *, shown: bool) -> Evaluation:
    """Let ragas check the figures. Then write the settings, the page and the run in MLflow, each if it is wanted."""
    report, result, outputs = evaluation.report, evaluation.result, evaluation.outputs
    with progress_bar(shown=shown) as progress:
        if report.ragas_check:
            check = ragas_check.compare(result, bench.judge, progress)
            report = decided(report.model_copy(update={"ragas_check": check}))
        if (file := outputs.export or (outputs.refit if report.passed else None)) and evaluation.recommended:
            export(evaluation.recommended, report, file)
        text, fault = save_report(report, outputs.report), ""
        evaluation = replace(evaluation, report=report)
        try:
            save_views(report, outputs)
        except ConfigError as error:  # raised at the end, so that the run gets into MLflow
            fault = str(error)
        if result.config.tracking.enabled and outputs.report:
            evaluation = _track(evaluation, text, progress)
    if fault:
        raise ConfigError("; ".join(filter(None, (fault, evaluation.untracked))))
    return evaluation


def _track(evaluation: Evaluation, text: str, progress: Progress) -> Evaluation:
    """Write the run to MLflow. If that fails, the evaluation says why."""
    config = evaluation.result.config.tracking
    progress("MLflow", 0, 1)
    try:
        return replace(evaluation, address=write_run(evaluation.report, text, config, progress).address)
    except (TrackingError, ConfigError) as error:
        log.info("MLflow failed", exc_info=True)
        return replace(evaluation, untracked=str(error))
