"""The public functions: evaluate a retriever, sweep a grid, compare runs. The commands are shells over them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from evals.config.experiment import ExperimentConfig as Experiment
from evals.config.telemetry import silence
from evals.errors import ExperimentError, ReportError
from evals.experiment.output_files import Outputs
from evals.golden.in_memory import golden_set
from evals.golden.loading import GoldenSet as Golden
from retrievers.config import RetrieverConfig
from retrievers.config.layers import environment
from retrievers.errors import ConfigError
from retrievers.retriever.protocol import Retriever

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_qdrant import QdrantVectorStore
    from pandas import DataFrame

    from evals.collect.observations import Summary
    from evals.experiment.finished import Outcome
    from evals.golden.in_memory import GoldenData
    from evals.report.comparison.records import Comparison

    Documents: TypeAlias = Sequence[Document | str]
    Function: TypeAlias = Callable[[str], Documents] | Callable[[str], Awaitable[Documents]]
    AnyRetriever: TypeAlias = BaseRetriever | QdrantVectorStore | Retriever | Function

__all__ = ["Evaluation", "Experiment", "Golden", "Sweep", "compare_runs", "evaluate", "sweep"]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Evaluation:
    """A finished run.

    Attributes:
        outcome: The run with all that it was measured from.
    """

    outcome: "Outcome"

    @property
    def metrics(self) -> "Mapping[str, Summary]":
        """Metric to value, 95% interval, n, and the numbers of unscored and failed queries."""
        return {summary.metric: summary for summary in self.outcome.result.summaries}

    @property
    def passed(self) -> bool:
        """True if every criterion is met and nothing is missing."""
        return not self.outcome.incomplete and all(gate.passed for gate in self.outcome.result.gates)

    @cached_property
    def report(self) -> dict[str, Any]:
        """The run as JSON values, as `docs/report.md` describes them."""
        from evals.experiment.report_files import whole_document

        return whole_document(self.outcome)

    def to_pandas(self) -> "DataFrame":
        """Return a row a query: query, verdict, reasons, ids of the returned chunks, and a column a metric.

        A score that could not be computed is NaN; `report` says why.
        """
        import pandas as pd

        fields = ("query", "in_scope", "query_type", "outcome", "reasons", "top_score")
        rows = [
            {"id": row["id"]}
            | {name: row[name] for name in fields}
            | {"retrieved": [hit["chunk_id"] for hit in row["retrieved"]]}
            | {name: score if isinstance(score, int | float) else None for name, score in row["scores"].items()}
            for row in self.report["queries"]
        ]
        return pd.DataFrame(rows).set_index("id")

    def worst(self, n: int = 5) -> "DataFrame":
        """Return the `n` worst of the queries that failed, as rows of `to_pandas`, the worst first."""
        from evals.report.worst import in_order

        ids = [verdict.query_id for _, verdict in in_order(self.outcome.result) if verdict.outcome != "SUCCESS"]
        return self.to_pandas().loc[ids[:n]]

    def save(self, path: str | Path) -> Path:
        """Write the run.

        Args:
            path: A `.json` file for the report, `.html` for the page, `.xml` for JUnit; or a folder for `report.json`
                and `report.html`.

        Returns:
            The path.

        Raises:
            ConfigError: It cannot be written.
        """
        from evals.experiment.report_files import save_data, save_page

        target = Path(path)
        kind = {".json": "report", ".html": "html", ".xml": "junit"}.get(target.suffix)
        files = {kind: target} if kind else {"report": target / "report.json", "html": target / "report.html"}
        outputs = Outputs(**files)
        if outputs.report or outputs.junit:
            save_data(self.outcome, outputs)
        if outputs.html:
            save_page(self.outcome, outputs.html)
        return target


@dataclass(frozen=True)
class Sweep(Evaluation):
    """A finished grid. As an evaluation it is that of the recommended cell."""

    @property
    def recommended(self) -> RetrieverConfig | None:
        """Settings of the recommended cell; None where the cells cannot be ranked."""
        grid = self.outcome.grid
        return None if grid is None or grid.chosen is None else grid.settings

    @property
    def reason(self) -> str:
        """Reason for the recommendation, or why there is none."""
        grid = self.outcome.grid
        if grid is None:
            return ""
        return grid.choice.reason if grid.choice else grid.ranking.reason

    @cached_property
    def cells(self) -> "DataFrame":
        """A row a cell: its settings, the mean of every metric, `recommended`, and `in_set` for the confidence set."""
        import pandas as pd

        from evals.grid.children import table

        grid = self.outcome.grid
        if grid is None:
            return pd.DataFrame()
        frame = pd.DataFrame(table(grid.grid))
        standings = grid.choice.standings if grid.choice else ()
        best = {cell for standing in standings if standing.in_set for cell in standing.members}
        return frame.assign(
            recommended=[index == grid.chosen for index in range(len(frame))],
            in_set=[index in best for index in range(len(frame))],
        )


def evaluate(  # noqa: PLR0913 the public entry: all but the first two have names and defaults
    retriever: "AnyRetriever | None" = None,
    golden: "GoldenData | None" = None,
    *,
    metrics: Sequence[str] | None = None,
    top_k: int | None = None,
    experiment: Experiment | None = None,
    outputs: Outputs | None = None,
    env: Mapping[str, str] | None = None,
    track: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Run golden queries through a retriever and score what comes back.

    Nothing is printed or written, but for what the experiment asks for (a collection of its own, MLflow with `track`).

    Args:
        retriever: A LangChain retriever, a `QdrantVectorStore`, a `QdrantRetriever`, or a function, async or not, from
            a query to documents or texts. It is left open. The retriever that the experiment names when left out.
        golden: A path, dictionaries, a DataFrame or a Hugging Face dataset, with the fields of docs/golden.md; a quote
            needs no `source_url`. The experiment's dataset when left out.
        metrics: Names or patterns such as `ranking/*`; those of the experiment (by default all) when left out.
        top_k: Number of results that count; that of the retriever or the experiment when left out.
        experiment: All other settings, such as criteria, judge and source pages.
        outputs: Files to write at once; `Evaluation.save` writes them later.
        env: Environment that holds API keys; the process environment and `.env` when left out.
        track: Log to MLflow.
        progress: Draw a progress bar on standard error, if it is a terminal.

    Raises:
        RetrievalError: Typed: a setting, the golden data or the retriever is at fault, with what to do.
    """
    config = _settled(experiment, metrics=metrics, track=track)
    if config.sweep.axes:
        raise ExperimentError("the experiment has a sweep; expected a single run: call evals.sweep, or leave sweep out")
    return Evaluation(_ran(config, retriever, golden, top_k, outputs, env, progress))


def sweep(
    experiment: Experiment,
    golden: "GoldenData | None" = None,
    *,
    outputs: Outputs | None = None,
    env: Mapping[str, str] | None = None,
    track: bool = False,
    progress: bool = False,
) -> Sweep:
    """Measure every cell of the experiment's grid and recommend one.

    Args:
        experiment: An experiment with a `sweep`.
        golden: As for `evaluate`.
        outputs: As for `evaluate`.
        env: As for `evaluate`.
        track: Log to MLflow.
        progress: Draw a progress bar on standard error, if it is a terminal.

    Raises:
        RetrievalError: As for `evaluate`; and no cell meets the constraints.
    """
    config = _settled(experiment, track=track)
    if not config.sweep.axes:
        raise ExperimentError("the experiment has no sweep; expected at least one axis, such as sweep: {top_k: 1:10}")
    return Sweep(_ran(config, None, golden, None, outputs, env, progress))


def compare_runs(
    baseline: "Evaluation | str | Path",
    *others: "Evaluation | str | Path",
    metrics: Sequence[str] = (),
    by: Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    common: bool = False,
    tracking_uri: str | None = None,
    tracking_experiment: str = "retrieval-evals",
) -> "list[Comparison]":
    """Compare runs with a baseline, paired by query; p values are adjusted over all of them.

    Args:
        baseline: A result, a report's file, or an MLflow run's id, name or `tag:KEY=VALUE`.
        others: Likewise.
        metrics: Names or patterns; the headline metrics when left out.
        by: Metrics that order the queries that moved.
        tolerances: Metric to the largest drop that is no regression.
        common: Compare runs of different golden data on the queries that are the same in both.
        tracking_uri: Address of MLflow; the database under ./mlruns when left out.
        tracking_experiment: MLflow experiment in which names and tags are looked up.

    Raises:
        ReportError: A run does not exist or cannot be read, is given twice, or must not be compared with the baseline.
        TrackingError: MLflow has no such run.
    """
    from evals.report.comparison.comparing import Wanted, compare
    from evals.report.comparison.regressions import tolerated
    from evals.tracking.references import open_run, refuse_repeated, run_of

    silence(hub=False)
    if not others:
        raise ReportError(f"expected a baseline and at least one run to compare, got {str(baseline)!r} alone")
    allowed = tolerated(tolerances or {})
    runs = [
        run_of(run.report) if isinstance(run, Evaluation) else open_run(str(run), tracking_uri, tracking_experiment)
        for run in (baseline, *others)
    ]
    refuse_repeated(runs)
    return compare(runs[0], runs[1:], Wanted(metrics=tuple(metrics), by=tuple(by), tolerances=allowed, common=common))


def _settled(experiment: Experiment | None, *, metrics: Sequence[str] | None = None, track: bool) -> Experiment:
    config = experiment or Experiment()
    changed: dict[str, Any] = {"tracking": config.tracking.model_copy(update={"enabled": track})}
    return config.model_copy(update=changed | ({"metrics": tuple(metrics)} if metrics else {}))


def _ran(
    config: Experiment,
    retriever: "AnyRetriever | None",
    golden: "GoldenData | None",
    top_k: int | None,
    outputs: Outputs | None,
    env: Mapping[str, str] | None,
    progress: bool,
) -> "Outcome":
    """Run the experiment, in a thread of its own where this one has an event loop running, as in a notebook."""
    silence(hub=bool(config.dataset.hub))
    from evals.experiment.flow import run_experiment

    keys = environment(os.environ) if env is None else env
    cases = None if golden is None else golden_set(golden, config.dataset)
    adopted, settings = _adopted(retriever, config.retriever, top_k, keys)
    whole = config.model_copy(update={"retriever": settings})

    def run() -> "Outcome":
        try:
            return run_experiment(whole, outputs or Outputs(), keys, shown=progress, golden=cases, retriever=adopted)
        finally:
            if adopted is not None and adopted is not retriever:
                adopted.close()

    return _outside_of_loops(run)


def _adopted(
    retriever: "AnyRetriever | None", settings: RetrieverConfig, top_k: int | None, env: Mapping[str, str]
) -> tuple[Retriever | None, RetrieverConfig]:
    """Return a given retriever behind the calls of an evaluation, with the settings that are in force."""
    changed: dict[str, Any] = {} if top_k is None else {"top_k": top_k}
    if retriever is None:
        return None, RetrieverConfig.model_validate(settings.model_dump(exclude_unset=True) | changed)
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore

    from retrievers.foreign.functions import FunctionRetriever
    from retrievers.foreign.opening import adopt
    from retrievers.retriever.qdrant import QdrantRetriever

    if isinstance(retriever, QdrantRetriever):
        if changed or settings.model_fields_set:
            raise ConfigError("a QdrantRetriever has its own settings; leave top_k and the experiment's retriever out")
        return retriever, retriever.settings
    made: Any = retriever
    if callable(retriever) and not isinstance(retriever, BaseRetriever | VectorStore | type):
        made = FunctionRetriever(function=retriever)
    kind = retriever if hasattr(retriever, "__qualname__") else type(retriever)
    label = f"{kind.__module__}:{kind.__qualname__}"
    named = settings.model_dump(exclude_unset=True) | changed | {"python": label}
    named["metadata"] = {"required": ()} | named.get("metadata", {})  # no one promised any
    own = RetrieverConfig.model_validate(named)
    return adopt(made, own, env), own


def _outside_of_loops(run: Callable[[], Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()
