"""The settings of a grid: its axes, and its objective."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, FiniteFloat, field_validator

from evals.config.values import Conditions, Numbers, WholeNumbers, numbers
from retrievers.config import RERANKERS, TABLE, Fusion, Mode, RerankerName, Settings, ThresholdOn


def _names(written: Any) -> Any:
    return [*dict.fromkeys(written.replace(" ", "").split(","))] if isinstance(written, str) else written


# A list, or a text with commas.
NAMES = BeforeValidator(_names)


class SweepConfig(Settings):
    """Axes of a grid: for each setting of the retriever its values; settings left out stay as they are.

    Variants come in the order of the fields, the last changing fastest.
    """

    top_k: WholeNumbers = Field((), description="chunks to return: 1:20, or a list")
    threshold: Numbers = Field((), description="thresholds: 0:0.95:0.05, or a list")
    mode: Annotated[tuple[Mode, ...], NAMES] = Field((), description="semantic, keyword, hybrid")
    fusion: Annotated[tuple[Fusion, ...], NAMES] = Field((), description="weighted, rrf, dbsf; of hybrid alone")
    rerank: Annotated[tuple[RerankerName, ...], NAMES] = Field((), description=", ".join(RERANKERS))
    candidates: WholeNumbers = Field((), description="candidate depths")
    threshold_on: Annotated[tuple[ThresholdOn, ...], NAMES] = Field(
        (), description="each, best, final: the score that the threshold reads"
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
        description="the metric to raise, several (commas), or with their weights; one to lower has a negative weight",
        json_schema_extra=TABLE,
    )
    constraints: Conditions = Field(
        default_factory=dict,
        description="conditions on a cell, e.g. 'scope/false_answer <= 0.1' (several: a list, or commas)",
        json_schema_extra=TABLE,
    )
    margin: float = Field(0.02, ge=0, description="largest loss against the best that a cheaper cell may have")
    out_of_scope: float = Field(
        0.2, ge=0, le=1, description="weight of out-of-scope queries that get nothing, where thresholds are swept"
    )
    wrong_answers: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], BeforeValidator(numbers)] = Field(
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
        if not any(metrics.values()):
            raise ValueError(f"{', '.join(metrics)}: expected a weight above or below 0")
        return metrics
