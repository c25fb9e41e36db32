"""The settings of a grid: its axes, how each is declared and written, and its objective."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A declaration of an axis, as an annotation of its field in `SweepConfig`.

    Attributes:
        setting: Dotted name of the retriever's setting that the axis changes; empty where that is the field's own name.
        cuts: The axis cuts the candidates that were found; all others decide which are found.
        applies: Says whether the setting decides what a retriever with these settings finds.
        in_force: The value in force, where that is not simply the setting's.
        in_every_name: True if every variant's name shows the value; else only where several are swept.
        in_faults: True if the message on an impossible combination shows the value.
    """

    setting: str = ""
    cuts: bool = False
    applies: Callable[[RetrieverConfig], bool] = lambda settings: True
    in_force: Callable[[RetrieverConfig], Any] | None = None
    in_every_name: bool = False
    in_faults: bool = False

    @property
    def is_foreign(self) -> bool:
        """True if the setting can be set for a retriever of the user's own."""
        return self.setting in FOREIGN_SETTINGS

    def raw(self, settings: RetrieverConfig) -> Any:
        """Return the setting as it was given."""
        return attrgetter(self.setting)(settings)

    def value(self, settings: RetrieverConfig) -> Any:
        """Return the value in force."""
        return self.in_force(settings) if self.in_force else self.raw(settings)


def _whole_numbers(written: Any) -> tuple[int, ...]:
    values = integers(written) if written not in ((), []) else ()
    if any(value < 1 for value in values):
        raise ValueError("expected whole numbers from 1")
    return values


def _numbers(written: Any) -> tuple[float, ...]:
    return numbers(written) if written not in ((), []) else ()


def _thresholds(written: Any) -> tuple[float, ...]:
    values = _numbers(written)
    if not all(map(isfinite, values)):
        raise ValueError("expected finite thresholds")
    return values


def _choices(written: Any) -> Any:
    names = [written] if isinstance(written, bool) else written
    names = [part.strip() for part in written.split(",")] if isinstance(written, str) else names
    return tuple(dict.fromkeys(names)) if isinstance(names, list | tuple) else names


# From 1: a list, or `1:20`.
WHOLE_NUMBERS = BeforeValidator(_whole_numbers)
# A list, or `0:0.95:0.05`.
NUMBERS = BeforeValidator(_numbers)
# Numbers; which of them can be thresholds depends on the distance.
THRESHOLDS = BeforeValidator(_thresholds)
# Names, or true and false: a list, or a text with commas.
CHOICES = BeforeValidator(_choices)


def _hybrid_by(settings: RetrieverConfig, *fusions: Fusion) -> bool:
    return settings.mode == "hybrid" and settings.used_fusion in fusions


def _order_is_made_of_all(settings: RetrieverConfig) -> bool:
    """Return whether chunks deep in the list decide what comes first; otherwise the answer is its beginning."""
    plain = settings.mode == "semantic" and not settings.reranker.make and settings.group_by is None
    return settings.python is not None or not plain


class SweepConfig(Settings):
    """Axes of a grid: for each setting of the retriever its values; settings left out stay as they are.

    A field is the whole declaration of an axis. Variants come in the order of the fields, the last changing fastest.
    """

    top_k: Annotated[tuple[int, ...], WHOLE_NUMBERS, Axis(cuts=True)] = Field(
        (), description="chunks to return: 1:20, or a list"
    )
    threshold: Annotated[tuple[float, ...], THRESHOLDS, Axis(cuts=True)] = Field(
        (), description="thresholds: 0:0.95:0.05, or a list"
    )
    mode: Annotated[tuple[Mode, ...], CHOICES, Axis(in_every_name=True, in_faults=True)] = Field(
        (), description="semantic, keyword, hybrid"
    )
    fusion: Annotated[
        tuple[Fusion, ...],
        CHOICES,
        Axis(
            applies=lambda settings: settings.mode == "hybrid",
            in_force=lambda settings: settings.used_fusion,
            in_every_name=True,
            in_faults=True,
        ),
    ] = Field((), description="weighted, rrf, dbsf; of hybrid alone")
    rerank: Annotated[
        tuple[RerankerName, ...],
        CHOICES,
        Axis(
            in_force=lambda settings: settings.rerank if settings.reranker.make else "none",
            in_every_name=True,
            in_faults=True,
        ),
    ] = Field((), description=", ".join(RERANKERS))
    semantic_weight: Annotated[
        tuple[float, ...],
        NUMBERS,
        Axis(applies=lambda settings: _hybrid_by(settings, "weighted", "rrf")),
    ] = Field((), description="shares of the semantic side in hybrid: 0.5:0.9:0.1")
    mmr_lambda: Annotated[
        tuple[float, ...], NUMBERS, Axis(applies=lambda settings: "mmr_lambda" in settings.reranker.settings)
    ] = Field((), description="trade-offs of mmr: 0.3:0.9:0.2")
    candidates: Annotated[tuple[int, ...], WHOLE_NUMBERS, Axis(applies=_order_is_made_of_all, in_faults=True)] = Field(
        (), description="candidate depths"
    )
    threshold_on: Annotated[
        tuple[ThresholdOn, ...],
        CHOICES,
        Axis(applies=lambda settings: settings.used_threshold is not None),
    ] = Field((), description="each, best, final: the score that the threshold reads")

    @property
    def axes(self) -> Mapping[str, tuple[Any, ...]]:
        """The settings that take several values, or one of their own, with these."""
        return {name: values for name, values in self if values}


def _axis(name: str, metadata: Sequence[object]) -> Axis:
    (axis,) = [entry for entry in metadata if isinstance(entry, Axis)]
    return replace(axis, setting=axis.setting or name)


# The axes by the names of their fields.
AXES: Mapping[str, Axis] = {name: _axis(name, info.metadata) for name, info in SweepConfig.model_fields.items()}


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
        for name, weight in metrics.items():
            if not isfinite(weight):
                raise ValueError(f"{name}: expected a weight above or below 0")
        if not any(metrics.values()):
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
