"""The settings of a grid: its axes, how each is written, and its objective."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from evals.config.values import by_metric, checked_conditions, integers, numbers
from retrievers.config import (
    FOREIGN_SETTINGS,
    RERANKERS,
    TABLE,
    Fusion,
    Mode,
    RerankerName,
    RetrieverConfig,
    Settings,
    ThresholdOn,
)


def _whole_numbers(written: Any) -> tuple[int, ...]:
    values = integers(written) if written not in ((), []) else ()
    if any(value < 1 for value in values):
        raise ValueError("expected whole numbers from 1")
    return values


def _choices(written: Any) -> Any:
    names = [part.strip() for part in written.split(",")] if isinstance(written, str) else written
    return tuple(dict.fromkeys(names)) if isinstance(names, list | tuple) else names


# From 1: a list, or `1:20`.
WHOLE_NUMBERS = BeforeValidator(_whole_numbers)
# A list, or `0:0.95:0.05`.
NUMBERS = BeforeValidator(lambda written: numbers(written) if written not in ((), []) else ())
# Names: a list, or a text with commas.
CHOICES = BeforeValidator(_choices)


class SweepConfig(Settings):
    """Axes of a grid: for each setting of the retriever its values; settings left out stay as they are.

    Variants come in the order of the fields, the last changing fastest.
    """

    top_k: Annotated[tuple[int, ...], WHOLE_NUMBERS] = Field((), description="chunks to return: 1:20, or a list")
    threshold: Annotated[tuple[float, ...], NUMBERS] = Field((), description="thresholds: 0:0.95:0.05, or a list")
    mode: Annotated[tuple[Mode, ...], CHOICES] = Field((), description="semantic, keyword, hybrid")
    fusion: Annotated[tuple[Fusion, ...], CHOICES] = Field((), description="weighted, rrf, dbsf; of hybrid alone")
    rerank: Annotated[tuple[RerankerName, ...], CHOICES] = Field((), description=", ".join(RERANKERS))
    semantic_weight: Annotated[tuple[float, ...], NUMBERS] = Field(
        (), description="shares of the semantic side in hybrid: 0.5:0.9:0.1"
    )
    mmr_lambda: Annotated[tuple[float, ...], NUMBERS] = Field((), description="trade-offs of mmr: 0.3:0.9:0.2")
    candidates: Annotated[tuple[int, ...], WHOLE_NUMBERS] = Field((), description="candidate depths")
    threshold_on: Annotated[tuple[ThresholdOn, ...], CHOICES] = Field(
        (), description="each, best, final: the score that the threshold reads"
    )

    @property
    def axes(self) -> Mapping[str, tuple[Any, ...]]:
        """The settings that take several values, or one of their own, with these."""
        return {name: values for name, values in self if values}


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """An axis of a grid.

    Attributes:
        setting: Name of the retriever's setting that it changes.
        cuts: The axis cuts the candidates that were found; all others decide which are found.
        in_every_name: True if every variant's name shows the value; else only where several are swept.
        in_faults: True if the message on an impossible combination shows the value.
    """

    setting: str
    cuts: bool = False
    in_every_name: bool = False
    in_faults: bool = False

    @property
    def is_foreign(self) -> bool:
        """True if the setting can be set for a retriever of the user's own."""
        return self.setting in FOREIGN_SETTINGS

    def raw(self, settings: RetrieverConfig) -> Any:
        """Return the setting as it was given."""
        return getattr(settings, self.setting)

    def value(self, settings: RetrieverConfig) -> Any:
        """Return the value in force; None where the setting means nothing beside the others."""
        return in_force(settings)[self.setting]

    def applies(self, settings: RetrieverConfig) -> bool:
        """Return True if the setting decides what a retriever with these settings finds."""
        return self.value(settings) is not None


AXES: Mapping[str, Axis] = {
    name: Axis(
        setting=name,
        cuts=name in ("top_k", "threshold"),
        in_every_name=name in ("mode", "fusion", "rerank"),
        in_faults=name in ("mode", "fusion", "rerank", "candidates"),
    )
    for name in SweepConfig.model_fields
}


def in_force(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings of a sweep that decide which candidates are found; None for one that means nothing here."""
    is_hybrid, reranks = settings.mode == "hybrid", settings.rerank != "none"
    # Chunks deep in the list decide what comes first; otherwise the answer is its beginning.
    is_deep = settings.python is not None or settings.mode != "semantic" or reranks or settings.group_by is not None
    return {
        "mode": settings.mode,
        "fusion": settings.fusion if is_hybrid else None,
        "rerank": settings.rerank if reranks else "none",
        "semantic_weight": settings.semantic_weight if is_hybrid and settings.fusion != "dbsf" else None,
        "mmr_lambda": settings.mmr_lambda if settings.rerank == "mmr" else None,
        "candidates": settings.candidates if is_deep else None,
        "threshold_on": settings.threshold_on if settings.threshold is not None else None,
    }


class ObjectiveConfig(Settings):
    """Objective of the choice of a cell."""

    metrics: Mapping[str, float] = Field(
        default_factory=lambda: {"ranking/ndcg_at_10": 1.0},
        min_length=1,
        description="the metric to raise, several (commas), or with their weights; one to lower has a negative weight",
        json_schema_extra=TABLE,
    )
    constraints: Mapping[str, str] = Field(
        default_factory=dict,
        description="conditions on a cell, e.g. 'scope/false_answer <= 0.1' (several: a list, or commas)",
        json_schema_extra=TABLE,
    )
    margin: float = Field(0.02, ge=0, description="largest loss against the best that a cheaper cell may have")
    out_of_scope: float = Field(
        0.2, ge=0, le=1, description="weight of out-of-scope queries that get nothing, where thresholds are swept"
    )
    wrong_answers: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], NUMBERS] = Field(
        (0.5, 0.25, 0.1), description="shares of out-of-scope queries answered; the best cell within each is shown"
    )
    held_out: str | None = Field(
        None, description="split on which the chosen cell is measured again; test if the grid is over dev"
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_or_several(cls, written: Any) -> Any:
        names = [name.strip() for name in written.split(",")] if isinstance(written, str) else written
        return dict.fromkeys(names, 1.0) if isinstance(names, list | tuple) else written

    @field_validator("metrics")
    @classmethod
    def _weighed(cls, metrics: Mapping[str, float]) -> Mapping[str, float]:
        if not any(metrics.values()) or not all(map(isfinite, metrics.values())):
            raise ValueError(f"{', '.join(metrics)}: expected a weight above or below 0")
        return metrics

    @field_validator("constraints", mode="before")
    @classmethod
    def _as_written(cls, written: Any) -> Any:
        return by_metric(written)

    @field_validator("constraints")
    @classmethod
    def _conditions(cls, constraints: Mapping[str, str]) -> Mapping[str, str]:
        return checked_conditions(constraints)
