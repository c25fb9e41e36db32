"""The public functions: evaluate a retriever, sweep a grid, compare runs. The commands are shells over them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ctypes import c_ulong, py_object, pythonapi
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from evals.cases.reading import GoldenSet as Golden
from evals.cases.reading import golden_set
from evals.config.experiment import ExperimentConfig as Experiment
from evals.config.telemetry import silence
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
    from evals.metrics.declaration import QueryMetric

    Documents: TypeAlias = Sequence[Document | str | tuple[Document | str, float]]
    Function: TypeAlias = Callable[[str], Documents] | Callable[[str], Awaitable[Documents]]
    Metric: TypeAlias = str | QueryMetric | Callable[..., float | bool | None]
    AnyRetriever: TypeAlias = Runnable[str, Documents] | QdrantVectorStore | Retriever | Function

__all__ = ["Evaluation", "Experiment", "Golden", "Outputs", "Sweep", "compare_runs", "evaluate", "metric", "sweep"]


def evaluate(  # noqa: PLR0913 the public entry: all but the first two have names and defaults
    retriever: "AnyRetriever | None" = None,
    golden: "GoldenData | None" = None,
    *,
    metrics: "str | Sequence[Metric] | None" = None,
    top_k: int | None = None,
    experiment: Experiment | None = None,
    from_retrieval: str | Path | None = None,
    outputs: Outputs | None = None,
    track: bool = False,
    progress: bool = False,
    measured: Callable[[Evaluation], None] | None = None,
) -> Evaluation:
    """Run golden queries through a retriever and score what comes back.

    Nothing is printed or written, but for what the experiment asks for (a collection of its own, MLflow with `track`).

    Args:
        retriever: A LangChain retriever, a `QdrantVectorStore`, a `QdrantRetriever`, or a function, async or not, or a
            runnable (`@chain`), from a query to documents or texts. It is left open. The retriever that the experiment
            names when left out.
        golden: A path, dictionaries, a DataFrame or a Hugging Face dataset, with the fields of docs/golden.md; a quote
            needs no `source_url`. The experiment's dataset when left out.
        metrics: Names or patterns such as `ranking/*`, and functions declared by `evals.metric`; or a text, in which
            commas separate them. Those of the experiment (by default all) when left out.
        top_k: Number of results that count; that of the retriever or the experiment when left out.
        experiment: All other settings, such as criteria, judge and source pages, and a baseline; that of an
            experiment with a dataset of its own is left out where other golden data are given.
        from_retrieval: File of a saved retrieval (`Outputs.retrieval`) to start from, in place of a retriever, which
            is the saved one where the experiment names none; no store is then opened, nothing is embedded, and latency
            and determinism are not measured.
        outputs: Files to write at once; `Evaluation.save` writes them later.
        track: Log to MLflow.
        progress: Draw a progress bar on standard error, if it is a terminal.
        measured: Called with the result once everything is measured, before page, figures and MLflow are written.

    Raises:
        RetrievalError: Typed: a setting, the golden data or the retriever is at fault, with what to do.
    """
    config = _settled(experiment, metrics, track=track)
    if config.sweep.axes:
        raise ExperimentError("the experiment has a sweep; expected a single run: call evals.sweep, or leave sweep out")
    further = {"shown": progress, "from_retrieval": from_retrieval and Path(from_retrieval), "measured": measured}
    return _ran(config, retriever, golden, top_k, outputs or Outputs(), **further)


def sweep(  # noqa: PLR0913 the public entry: all but the first two have names and defaults
    given: "Experiment | AnyRetriever | None" = None,
    golden: "GoldenData | None" = None,
    *,
    top_k: Iterable[int] | str | None = None,
    threshold: Iterable[float] | str | None = None,
    metrics: "str | Sequence[Metric] | None" = None,
    experiment: Experiment | None = None,
    from_retrieval: str | Path | None = None,
    outputs: Outputs | None = None,
    track: bool = False,
    progress: bool = False,
    measured: Callable[[Evaluation], None] | None = None,
) -> Sweep:
    """Measure every cell of the experiment's grid and recommend one.

    Args:
        given: An experiment with a `sweep`; or a retriever, as for `evaluate`. A `QdrantVectorStore` is searched for
            every axis, of any other top_k and threshold cut the results. Where a threshold is swept, a function returns
            pairs of a document or text and its similarity.
        top_k: Cuts, such as `1:20` or `range(1, 21)`; those of the experiment's sweep when left out.
        threshold: Thresholds, such as `0:0.6:0.05`, likewise.
        metrics: As for `evaluate`.
        experiment: All other settings, where a retriever or nothing is given.
        golden: As for `evaluate`.
        from_retrieval: As for `evaluate`.
        outputs: As for `evaluate`.
        track: Log to MLflow.
        progress: Draw a progress bar on standard error, if it is a terminal.
        measured: As for `evaluate`.

    Raises:
        RetrievalError: As for `evaluate`; and no cell meets the constraints.
    """
    retriever = None if isinstance(given, Experiment) else given
    config = _settled(given if isinstance(given, Experiment) else experiment, metrics, track=track)
    axes = {name: values for name, values in (("top_k", top_k), ("threshold", threshold)) if values is not None}
    swept = given_settings(config.sweep, axes)
    if not swept.axes:
        raise ExperimentError("the experiment has no sweep; expected at least one axis, such as sweep: {top_k: 1:10}")
    config = given_settings(config, {"sweep": swept.model_dump(exclude_unset=True)})
    if retriever is not None and swept.threshold:
        changed = config.retriever.model_copy(update={"threshold": min(swept.threshold)})
        config = config.model_copy(update={"retriever": changed})
    further = {"shown": progress, "from_retrieval": from_retrieval and Path(from_retrieval), "measured": measured}
    return cast(Sweep, _ran(config, retriever, golden, None, outputs or Outputs(), **further))


def compare_runs(
    baseline: "Evaluation | str | Path",
    *others: "Evaluation | str | Path",
    metrics: str | Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    common: bool = False,
    tracking_uri: str | None = None,
    tracking_experiment: str = "retrieval-evals",
) -> "list[Comparison]":
    """Compare runs with a baseline, paired by query; p values are adjusted over all of them.

    Args:
        baseline: A result, a report's file, or an MLflow run's id or name.
        others: Runs to compare, each as for `baseline`.
        metrics: Names or patterns, or a text as for `evaluate`; the headline metrics when left out.
        tolerances: Metric to the largest drop that is no regression.
        common: Compare runs of different golden data on the queries that are the same in both.
        tracking_uri: Address of MLflow; the database under ./mlruns when left out.
        tracking_experiment: MLflow experiment in which names and tags are looked up.

    Raises:
        ReportError: A run does not exist or cannot be read, or must not be compared with the baseline.
        TrackingError: MLflow has no such run.
    """
    from evals.comparison.comparing import compare
    from evals.comparison.records import Run
    from evals.tracking.store import open_run

    silence(hub=False)
    if not others:
        raise ReportError(f"expected a baseline and at least one run to compare, got {str(baseline)!r} alone")
    runs = [
        Run.of(run.report) if isinstance(run, Evaluation) else open_run(str(run), tracking_uri, tracking_experiment)
        for run in (baseline, *others)
    ]
    several = [each.strip() for each in metrics.split(",")] if isinstance(metrics, str) else metrics
    return compare(runs[0], runs[1:], metrics=several, tolerances=tolerances, common=common)


def _settled(experiment: Experiment | None, metrics: "str | Sequence[Metric] | None", *, track: bool) -> Experiment:
    config = experiment or Experiment()
    changed: dict[str, Any] = {"tracking": config.tracking.model_copy(update={"enabled": track})}
    if config.threshold.false_answer is not None:  # a function is asked for scores where a threshold reads them
        changed["retriever"] = config.retriever.model_copy(update={"threshold": config.retriever.threshold or 0.0})
    if metrics:
        several = [each.strip() for each in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
        named = zip(several, adopt(several), strict=True)
        changed["metrics"] = tuple(each if isinstance(each, str) else name for each, name in named)
    return config.model_copy(update=changed)


def _ran(
    config: Experiment,
    retriever: "AnyRetriever | None",
    golden: "GoldenData | None",
    top_k: int | None,
    outputs: Outputs,
    **further: Any,
) -> Evaluation:
    """Run the experiment, in another thread where this one has a running event loop, as in a notebook."""
    if further["from_retrieval"] and (retriever is not None or outputs.retrieval):
        raise ExperimentError("from_retrieval takes the place of a retriever and has nothing to save; give one of them")
    file = Path(golden) if isinstance(golden, str | Path) else None
    cases = None if file or golden is None else golden_set(golden)
    if golden is not None:
        dataset = config.dataset.model_copy(update={"path": file, "hub": None})
        # Of other golden data than its own the experiment has no baseline.
        baseline = None if config.dataset.path or config.dataset.hub else config.baseline
        config = config.model_copy(update={"dataset": dataset, "baseline": baseline})
    silence(hub=bool(config.dataset.hub))
    from evals.experiment.flow import run_experiment

    env = environment(os.environ)
    with ExitStack() as stack:
        if retriever is None:
            adopted = None
            settings = given_settings(config.retriever, {} if top_k is None else {"top_k": top_k})
        else:
            from retrievers.retriever.opened import adopt_given

            adopted, settings = adopt_given(retriever, config.retriever, top_k, env)
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
        thread, ran = c_ulong(pool.submit(get_ident).result()), pool.submit(run)
        # The pool waits for the run: what interrupts this thread is to end that, too.
        stack.callback(lambda: ran.done() or pythonapi.PyThreadState_SetAsyncExc(thread, py_object(KeyboardInterrupt)))
        return ran.result()
