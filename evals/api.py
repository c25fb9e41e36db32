"""The public functions: evaluate a retriever, sweep a grid, compare runs. The commands call them as well."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from ctypes import c_ulong, py_object, pythonapi
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from evals.cases.reading import GoldenSet as Golden
from evals.cases.reading import golden_set
from evals.config.experiment import ExperimentConfig as Experiment
from evals.config.telemetry import SILENCED
from evals.errors import ExperimentError, ReportError
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.outputs import Outputs
from evals.metrics import adopt
from evals.metrics.declaration import metric
from retrievers.config.layers import environment, given_settings
from retrievers.retriever.protocol import Retriever

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.runnables import Runnable
    from langchain_qdrant import QdrantVectorStore

    from evals.cases.reading import GoldenData
    from evals.comparison.sections import Comparison
    from evals.metrics.declaration import Own, QueryMetric

    Documents: TypeAlias = Sequence[Document | str | tuple[Document | str, float]]
    Function: TypeAlias = Callable[[str], Documents] | Callable[[str], Awaitable[Documents]]
    Metric: TypeAlias = str | QueryMetric | Own
    AnyRetriever: TypeAlias = Runnable[str, Documents] | QdrantVectorStore | Retriever | Function

AnyExperiment: TypeAlias = Experiment | Mapping[str, Any] | str | Path

__all__ = ["Evaluation", "Experiment", "Golden", "Outputs", "Sweep", "compare_runs", "evaluate", "metric", "sweep"]


def evaluate(  # noqa: PLR0913 the public entry: all but the first two have names and defaults
    retriever: "AnyRetriever | None" = None,
    golden: "GoldenData | None" = None,
    *,
    metrics: "str | Sequence[Metric] | None" = None,
    top_k: int | None = None,
    experiment: AnyExperiment | None = None,
    from_retrieval: str | Path | None = None,
    outputs: Outputs | None = None,
    track: bool = False,
    progress: bool = False,
    measured: Callable[[Evaluation], None] | None = None,
) -> Evaluation:
    """Run golden queries through a retriever and score its results.

    Nothing is printed. Nothing is written but what is asked for: outputs, a collection of the experiment, and MLflow.

    Args:
        retriever: A LangChain retriever, a `QdrantVectorStore`, a `QdrantRetriever`; or a function, async or not, or a
            runnable (`@chain`), that takes a query and returns documents or texts. It is left open. If left out, the
            experiment's retriever is opened.
        golden: A path, dictionaries, a DataFrame or a Hugging Face dataset, with the fields of docs/golden.md. A quote
            needs no `source_url`. If left out, the dataset of the experiment is read.
        metrics: Names or patterns such as `ranking/*`, and functions declared by `evals.metric`; or a text that
            separates names by commas. If left out, the metrics of the experiment (by default all) are taken.
        top_k: Number of results that count. If left out, that of the retriever or the experiment.
        experiment: All other settings, such as criteria, judge, source pages and a baseline, also nested as in YAML;
            or the YAML file of an experiment. If other golden data are given than the experiment's own, its baseline is
            left out, which is noted.
        from_retrieval: File of a saved retrieval (`Outputs.retrieval`) to start from, in place of a retriever. No store
            is then opened, nothing is embedded, and latency and determinism are not measured. If the experiment names
            no retriever, the saved settings are taken.
        outputs: Files to write at once. `Evaluation.save` writes files later.
        track: True to log the run to MLflow.
        progress: True to draw a progress bar on standard error, if this is a terminal.
        measured: Called with the result when everything is measured, before page and MLflow are written.

    Raises:
        RetrievalError: A setting, the golden data or the retriever is at fault. The class of the error says which, and
            its message what to do.
    """
    config = _settings(experiment, metrics, track=track)
    if config.sweep.axes:
        raise ExperimentError("the experiment has a sweep; expected a single run: call evals.sweep, or leave sweep out")
    further = {"shown": progress, "from_retrieval": from_retrieval and Path(from_retrieval), "measured": measured}
    return _run(config, retriever, golden, top_k, outputs or Outputs(), **further)


def sweep(  # noqa: PLR0913 the public entry: all but the first two have names and defaults
    given: "AnyExperiment | AnyRetriever | None" = None,
    golden: "GoldenData | None" = None,
    *,
    top_k: Iterable[int] | str | None = None,
    threshold: Iterable[float] | str | None = None,
    metrics: "str | Sequence[Metric] | None" = None,
    experiment: AnyExperiment | None = None,
    from_retrieval: str | Path | None = None,
    outputs: Outputs | None = None,
    track: bool = False,
    progress: bool = False,
    measured: Callable[[Evaluation], None] | None = None,
) -> Sweep:
    """Measure every cell of the experiment's grid and recommend one.

    Args:
        given: An experiment with a `sweep`; or a retriever, both as for `evaluate`. A `QdrantVectorStore` is searched
            for every axis. The results of any other retriever are cut by top_k and threshold. If a threshold is swept,
            a function must return pairs of a document or text and its similarity.
        top_k: Cuts, such as `1:20` or `range(1, 21)`. If left out, those of the experiment's sweep.
        threshold: Thresholds, such as `0:0.6:0.05`. If left out, those of the experiment's sweep.
        metrics: As for `evaluate`.
        experiment: All other settings, if `given` is a retriever or left out.
        golden: As for `evaluate`.
        from_retrieval: As for `evaluate`.
        outputs: As for `evaluate`.
        track: True to log the run to MLflow.
        progress: True to draw a progress bar on standard error, if this is a terminal.
        measured: As for `evaluate`.

    Raises:
        RetrievalError: As for `evaluate`; or no cell meets the constraints.
    """
    if isinstance(given, Experiment | Mapping | str | Path):
        if experiment is not None:
            raise ExperimentError("sweep: got two experiments, as the first argument and by name; give one of them")
        given, experiment = None, given
    config = _settings(experiment, metrics, track=track)
    axes = {name: values for name, values in (("top_k", top_k), ("threshold", threshold)) if values is not None}
    swept = given_settings(config.sweep, axes)
    if not swept.axes:
        raise ExperimentError("the experiment has no sweep; expected at least one axis, such as sweep: {top_k: 1:10}")
    config = given_settings(config, {"sweep": swept.model_dump(exclude_unset=True)})
    further = {"shown": progress, "from_retrieval": from_retrieval and Path(from_retrieval), "measured": measured}
    return cast(Sweep, _run(config, given, golden, None, outputs or Outputs(), **further))


def compare_runs(
    baseline: "Evaluation | str | Path",
    *others: "Evaluation | str | Path",
    metrics: str | Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    common: bool = False,
    tracking_uri: str | None = None,
    tracking_experiment: str = "retrieval-evals",
) -> "list[Comparison]":
    """Compare runs with a baseline, paired by query. p values are adjusted over all metrics of all runs.

    Args:
        baseline: An evaluation, the file of a report, or the id or name of a run in MLflow.
        others: Runs to compare with the baseline, each given like the baseline.
        metrics: Names or patterns, or a text as for `evaluate`. If left out, the headline metrics.
        tolerances: Metric to its largest drop that is no regression.
        common: True to compare runs of different golden data on the queries that are the same in both.
        tracking_uri: Address of MLflow. If left out, the database under ./mlruns.
        tracking_experiment: Experiment of MLflow in which names are looked up.

    Raises:
        ReportError: A run does not exist, cannot be read, or must not be compared with the baseline.
        TrackingError: MLflow has no such run.
    """
    from evals.comparison.comparing import compare
    from evals.comparison.records import Run
    from evals.tracking.store import open_run

    # In the process of a script or a notebook, what the user has set goes before.
    os.environ.update(SILENCED | os.environ)
    if not others:
        alone = baseline.report.run if isinstance(baseline, Evaluation) else str(baseline)
        raise ReportError(f"expected a baseline and at least one run to compare, got {alone!r} alone")
    runs = [
        Run.of(run.report) if isinstance(run, Evaluation) else open_run(str(run), tracking_uri, tracking_experiment)
        for run in (baseline, *others)
    ]
    several = [name.strip() for name in metrics.split(",")] if isinstance(metrics, str) else metrics
    return compare(runs[0], runs[1:], metrics=several, tolerances=tolerances, common=common)


def _settings(experiment: AnyExperiment | None, metrics: "str | Sequence[Metric] | None", *, track: bool) -> Experiment:
    config = Experiment.load(experiment) if isinstance(experiment, str | Path) else experiment or Experiment()
    config = given_settings(Experiment(), config) if isinstance(config, Mapping) else config
    changed: dict[str, Any] = {"tracking": config.tracking.model_copy(update={"enabled": track})}
    if metrics:
        given = [name.strip() for name in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
        named = zip(given, adopt(given), strict=True)
        changed["metrics"] = tuple(metric if isinstance(metric, str) else name for metric, name in named)
    return config.model_copy(update=changed)


def _run(
    config: Experiment,
    retriever: "AnyRetriever | None",
    golden: "GoldenData | None",
    top_k: int | None,
    outputs: Outputs,
    **further: Any,
) -> Evaluation:
    """Run the experiment. If this thread has a running event loop, as in a notebook, another thread does."""
    if further["from_retrieval"] and (retriever is not None or outputs.retrieval):
        raise ExperimentError("from_retrieval takes the place of a retriever and has nothing to save; give one of them")
    file = Path(golden) if isinstance(golden, str | Path) else None
    cases = None if file or golden is None else golden_set(golden)
    if golden is not None:
        config = given_settings(config, {"dataset": {"path": file, "hub": None}}, on_top=True)
    os.environ.update(SILENCED | os.environ)
    from evals.experiment.flow import run_experiment

    own, cuts = config.retriever, () if retriever is None else config.sweep.threshold
    if config.threshold.false_answer is not None:
        cuts = (own.threshold or 0.0,)
    if cuts and not isinstance(retriever, Retriever):  # under a threshold a function must return scores
        own = own.model_copy(update={"threshold": min(cuts)})
    env = environment(os.environ)
    with ExitStack() as stack:
        if retriever is None:
            adopted = None
            settings = given_settings(own, {} if top_k is None else {"top_k": top_k})
        else:
            from retrievers.retriever.opened import adopt_given

            adopted, settings = adopt_given(retriever, own, top_k, env)
            if adopted is not retriever:
                stack.enter_context(adopted)
                if outputs.export:
                    raise ExperimentError(
                        f"outputs.export: {settings.python} was given as an object, which no file opens again; "
                        "name its factory in the experiment (retriever.python), or leave export out"
                    )
        config = config.model_copy(update={"retriever": settings})
        run = partial(run_experiment, config, outputs, env, golden=cases, retriever=adopted, **further)
        if asyncio._get_running_loop() is None:
            return run()
        pool = stack.enter_context(ThreadPoolExecutor(1))
        thread, ran = c_ulong(pool.submit(get_ident).result()), pool.submit(copy_context().run, run)
        # The pool waits for the run: what interrupts this thread is to end that, too.
        stack.callback(lambda: ran.done() or pythonapi.PyThreadState_SetAsyncExc(thread, py_object(KeyboardInterrupt)))
        return ran.result()
