"""The settings of a grid: what it runs over, and what its best cell is best at."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal

from pydantic import Field, field_validator

from evals.config.conditions import by_metric, checked_conditions
from evals.config.number_lists import integers, numbers
from retrievers.config import TABLE, Fusion, Mode, Rerank, Settings


class SweepConfig(Settings):
    """What a grid runs over: for each setting of the retriever the values it takes; those left out stay as they are."""

    top_k: tuple[int, ...] = Field((), description="chunks to return: 1:20, or a list")
    threshold: tuple[float, ...] | Literal["exact"] = Field(
        (), description="thresholds: 0:0.95:0.05, a list, or exact for every observed score"
    )
    mode: tuple[Mode, ...] = Field((), description="semantic, keyword, hybrid")
    fusion: tuple[Fusion, ...] = Field((), description="weighted, rrf, dbsf; of hybrid alone")
    rerank: tuple[Rerank, ...] = Field((), description="none, mmr, cross-encoder, rrf")
    candidates: tuple[int, ...] = Field((), description="candidate depths")
    term_counts: tuple[bool, ...] = Field((), description="true, false: whether keywords repeated in a query count")
    semantic_weight: tuple[float, ...] = Field((), description="shares of the semantic side in hybrid: 0.5:0.9:0.1")
    rrf_constant: tuple[float, ...] = Field((), description="constants of reciprocal rank fusion")
    mmr_lambda: tuple[float, ...] = Field((), description="trade-offs of mmr: 0.3:0.9:0.2")

    @field_validator("top_k", "candidates", mode="before")
    @classmethod
    def _whole_numbers(cls, written: Any) -> tuple[int, ...]:
        found = integers(written) if written not in ((), []) else ()
        if any(value < 1 for value in found):
            raise ValueError("expected whole numbers from 1")
        return found

    @field_validator("semantic_weight", "rrf_constant", "mmr_lambda", mode="before")
    @classmethod
    def _numbers(cls, written: Any) -> tuple[float, ...]:
        return numbers(written) if written not in ((), []) else ()

    @field_validator("threshold", mode="before")
    @classmethod
    def _thresholds(cls, written: Any) -> tuple[float, ...] | str:
        if written in ("exact", ["exact"]):
            return "exact"
        found = cls._numbers(written)
        if any(not 0 <= value <= 1 for value in found):
            raise ValueError("expected thresholds from 0 to 1, or exact")
        return found

    @field_validator("mode", "fusion", "rerank", "term_counts", mode="before")
    @classmethod
    def _choices(cls, written: Any) -> Any:
        names = [written] if isinstance(written, bool) else written
        names = [part.strip() for part in written.split(",")] if isinstance(written, str) else names
        return tuple(dict.fromkeys(names)) if isinstance(names, list | tuple) else names

    @property
    def axes(self) -> Mapping[str, tuple[Any, ...] | str]:
        """The settings that take several values, or one of their own, with these."""
        return {name: values for name, values in self if values}


class ObjectiveConfig(Settings):
    """What the best cell of a grid is best at."""

    metrics: Mapping[str, float] = Field(
        default_factory=lambda: {"ranking/ndcg_at_10": 1.0},
        min_length=1,
        description="the metric to raise, or several with their weights; one to lower has a negative weight",
        json_schema_extra=TABLE,
    )
    constraints: Mapping[str, str] = Field(
        default_factory=dict,
        description="what a cell must meet, e.g. 'scope/false_answer <= 0.1' (several: a list, or commas)",
        json_schema_extra=TABLE,
    )
    margin: float = Field(0.02, ge=0, description="how much worse than the best a cheaper cell may be")

    held_out: str | None = Field(
        None, description="split on which the chosen cell is measured again; test if the grid is over dev"
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_or_several(cls, written: Any) -> Any:
        return {written: 1.0} if isinstance(written, str) else written

    @field_validator("metrics")
    @classmethod
    def _weighed(cls, metrics: Mapping[str, float]) -> Mapping[str, float]:
        for name, weight in metrics.items():
            if not isfinite(weight) or weight == 0:
                raise ValueError(f"{name}: expected a weight above or below 0")
        return metrics

    @field_validator("constraints", mode="before")
    @classmethod
    def _as_written(cls, written: Any) -> Any:
        return by_metric(written)

    @field_validator("constraints")
    @classmethod
    def _conditions(cls, constraints: Mapping[str, str]) -> Mapping[str, str]:
        return checked_conditions(constraints)
