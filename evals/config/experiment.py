"""The settings of an experiment: frozen, checked in full before anything runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FiniteFloat,
    StringConstraints,
    field_serializer,
    field_validator,
    model_validator,
)

from evals.config.files import named_folders
from evals.config.judge import JudgeConfig
from evals.config.values import Conditions, Numbers, WholeNumbers, numbers
from retrievers.config import (
    TABLE,
    Fusion,
    IndexSettings,
    Mode,
    RerankerName,
    RetrieverConfig,
    Settings,
    ThresholdOn,
    field,
    host,
    page_base,
    section,
    table,
)
from retrievers.config.layers import Layer, build, environment, environment_layer, file_layer, flatten, nest, tables
from retrievers.text.shown import redacted


class DatasetConfig(Settings):
    """Which golden queries: a local file or folder, or a hub id with its revision; of them a split, ids, a number."""

    idle_beside: ClassVar = {"path": ("hub",), "hub": ("path",)}
    path: Path | None = field(None, "golden data: JSON Lines, CSV, Parquet, a folder of them, or BEIR's")
    hub: str | None = field(None, "Hugging Face hub id, in place of path")
    revision: str | None = field(None, "commit hash of the hub data set; required with hub")
    split: str | None = field(None, "only cases of this split")
    ids: tuple[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], ...] = field(
        (), "only these case ids (of any split)"
    )
    limit: int | None = field(None, "at most this many cases", ge=1)

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        if self.hub and self.path:
            raise ValueError("give either path or hub, not both")
        if self.hub and not self.revision:
            raise ValueError("hub needs a revision (a commit hash), or the data may change under the scores")
        return self


class SourcesConfig(Settings):
    """Source pages that metadata and content are checked against: a folder, or the hosts of a site."""

    dir: Path | None = field(None, "folder of the source pages")
    http: tuple[Annotated[str, AfterValidator(host)], ...] = field(
        (), "hosts to fetch source pages from, and no others"
    )
    base_url: Annotated[str, AfterValidator(page_base)] = field(
        "/docs", "start of page addresses, as at `index`; for http, base of relative ones"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.dir and self.http:
            raise ValueError("give either dir or http, not both")
        return self


class IndexConfig(IndexSettings):
    """Settings of indexing, and the collection that the evaluation builds from `sources.dir`, if any.

    A collection that is not the evaluation's own (as on a server) must have been indexed with the settings named here.
    """

    collection: str | None = field(None, "embedded collection to keep up to date with sources.dir")


class LatencyConfig(Settings):
    """Measurement of latency: single calls after warm-up, at each concurrency."""

    repeats: int = field(2, "calls of every query; of many queries, 500 are timed and repeated", ge=1, le=1000)
    concurrency: Annotated[
        tuple[Annotated[int, Field(ge=1, le=64)], ...], AfterValidator(lambda values: tuple(sorted({1, *values})))
    ] = field((1, 4), "calls at once; 1 is serial")


class ThresholdConfig(Settings):
    """A threshold that is fitted to the golden data, in place of `retriever.threshold`."""

    false_answer: float | None = field(
        None, "largest share of questions like the out-of-scope queries that may be answered (95%)", gt=0, le=1
    )


class TrackingConfig(Settings):
    """Store of runs."""

    enabled: bool = field(True, "log to MLflow")
    uri: str | None = field(None, "MLflow tracking URI; the database under ./mlruns when left out")
    experiment: str = field("retrieval-evals", "MLflow experiment", min_length=1, max_length=256)
    run_name: str | None = field(None, "name of the run; by default its settings, experiment and time")

    @field_serializer("uri")
    def _without_credentials(self, uri: str | None) -> str | None:
        """Address for terminal, reports and logs, without its password."""
        return redacted(uri) if uri else uri


def _names(written: Any) -> Any:
    return [*dict.fromkeys(filter(None, written.replace(" ", "").split(",")))] if isinstance(written, str) else written


# A list, or a text with commas.
NAMES = BeforeValidator(_names)


class SweepConfig(Settings):
    """Axes of a grid: for each setting of the retriever its values; settings left out stay as they are.

    Variants come in the order of the fields, the last changing fastest.
    """

    top_k: WholeNumbers = field((), "chunks to return: 1:20, or a list")
    threshold: Numbers = field((), "thresholds: 0:0.95:0.05, or a list")
    mode: Annotated[tuple[Mode, ...], NAMES] = field((), "semantic, keyword, hybrid")
    fusion: Annotated[tuple[Fusion, ...], NAMES] = field((), "weighted, rrf, dbsf; of hybrid alone")
    rerank: Annotated[tuple[RerankerName, ...], NAMES] = field((), ", ".join(get_args(RerankerName)))
    candidates: WholeNumbers = field((), "candidate depths")
    threshold_on: Annotated[tuple[ThresholdOn, ...], NAMES] = field(
        (), "each, best, final: the score that the threshold reads"
    )

    @property
    def axes(self) -> Mapping[str, tuple[Any, ...]]:
        """The settings with values to sweep, by name."""
        return {name: values for name, values in self if values}


class ObjectiveConfig(Settings):
    """Objective of the choice of a cell."""

    metrics: Mapping[str, FiniteFloat] = Field(
        default_factory=lambda: {"ranking/ndcg_at_10": 1.0},
        min_length=1,
        description="metric to raise (default ranking/ndcg_at_10), several, or weights by name (negative: to lower)",
        json_schema_extra=TABLE,
    )
    constraints: Conditions = table(
        "conditions on a cell, e.g. 'scope/false_answer <= 0.1' (several: a list, or commas)"
    )
    margin: float = field(0.02, "largest loss against the best that a cheaper cell may have", ge=0)
    out_of_scope: float = field(
        0.2, "weight of out-of-scope queries that get nothing, where thresholds are swept", ge=0, le=1
    )
    wrong_answers: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], BeforeValidator(numbers)] = field(
        (0.5, 0.25, 0.1), "shares of out-of-scope queries answered; the best cell within each is shown"
    )
    held_out: str | None = field(None, "split on which the chosen cell is measured again; test if the grid is over dev")

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_or_several(cls, written: Any) -> Any:
        names = [name.strip() for name in written.split(",")] if isinstance(written, str) else written
        return dict.fromkeys(names, 1.0) if isinstance(names, list | tuple) else written

    @field_validator("metrics")
    @classmethod
    def _weighed(cls, metrics: Mapping[str, float]) -> Mapping[str, float]:
        if not any(metrics.values()):
            raise ValueError(f"{', '.join(metrics)}: expected a weight above or below 0")
        return metrics


class ExperimentConfig(Settings):
    """A whole experiment."""

    # A setting with one value is not swept.
    idle_beside: ClassVar = {f"sweep.{axis}": (f"retriever.{axis}",) for axis in SweepConfig.model_fields}
    holds_for: ClassVar = {"baseline": ("dataset.path", "dataset.hub", "dataset.split")}
    name: str = field("experiment", "name of the experiment", min_length=1)
    dataset: DatasetConfig = section(DatasetConfig, "golden data")
    retriever: RetrieverConfig = section(RetrieverConfig, "the retriever to evaluate")
    threshold: ThresholdConfig = section(ThresholdConfig, "a threshold with a promise")
    sources: SourcesConfig = section(SourcesConfig, "pages")
    index: IndexConfig = section(IndexConfig, "indexing")
    metrics: Annotated[tuple[str, ...], NAMES] = field(("*",), "names or patterns: ranking/*", min_length=1)
    criteria: Conditions = Field(
        default_factory=dict, description="conditions on the run, e.g. {ranking/mrr_at_10: '>= 0.8'}"
    )
    baseline: Path | None = field(
        None, "report of an earlier run, against which no headline metric may be proved worse"
    )
    judge: JudgeConfig = section(JudgeConfig, "the judge")
    latency: LatencyConfig = section(LatencyConfig, "latency")
    sweep: SweepConfig = section(SweepConfig, "the grid")
    objective: ObjectiveConfig = section(ObjectiveConfig, "objective of the choice of a cell")
    tracking: TrackingConfig = section(TrackingConfig, "MLflow")
    seed: int = field(0, "seed of all resampling", ge=0)

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        if self.threshold.false_answer is not None and self.sweep.threshold:
            raise ValueError("threshold.false_answer fits the threshold; expected it or sweep.threshold, not both")
        return self

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the experiment of a file, changed by settings. The environment fills in what both leave out.

        Args:
            path: A YAML file; None for the settings alone.
            settings: Settings that take precedence over the file, nested (`{"retriever": {"top_k": 10}}`) or dotted
                (`{"retriever.top_k": 10}`).
            env: Environment variables; those of the process and of `.env` when left out.

        Raises:
            ConfigError: The settings have faults. The message names every one.
        """
        env = environment(os.environ) if env is None else env
        layers = [
            environment_layer(env, "retriever."),
            *([file_layer(Path(path), cls, named_folders(env))] if path else []),
            Layer(label="the arguments", values=nest(dict(flatten(settings or {}, unopened=tables(cls))))),
        ]
        return build(cls, layers)
