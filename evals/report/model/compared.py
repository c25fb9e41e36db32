"""A comparison with another run, as a part of the report."""

from typing import Literal

from pydantic import Field

from evals.report.model.base import Section
from evals.report.model.queries import Hit


class DifferenceEntry(Section):
    """A metric of this run beside that of the other one, over the queries scored in both."""

    metric: str = Field(description="name of the metric")
    other: float | None = Field(description="mean of the other run, or its statistic of all queries")
    this: float | None = Field(description="mean of this run, or its statistic of all queries")
    difference: float | None = Field(description="this minus other")
    ci_low: float | None = Field(description="lower end of the difference's 95% interval; null: not computable")
    ci_high: float | None = Field(description="upper end of the difference's 95% interval; null: not computable")
    p_adjusted: float | None = Field(description="p value adjusted by Holm over all metrics; null: not paired by query")
    n: int = Field(ge=0, description="queries scored in both; 0 for a statistic of the whole run")
    wins: int = Field(ge=0, description="queries on which this run is better")
    ties: int = Field(ge=0, description="queries on which both are equal")
    losses: int = Field(ge=0, description="queries on which this run is worse")
    verdict: Literal["better", "worse", ""] = Field(description="this run, where the difference is proved; else empty")


class FlipEntry(Section):
    """A query whose score by a metric changed, with both results."""

    id: str = Field(description="id of the query")
    query: str = Field(description="the query")
    metric: str = Field(description="the metric")
    other: float = Field(description="its score in the other run")
    this: float = Field(description="its score in this run")
    other_retrieved: list[Hit] = Field(description="first chunks that the other run returned")
    this_retrieved: list[Hit] = Field(description="first chunks that this run returned")


class ComparedSection(Section):
    """This run beside another one of the same queries."""

    name: str = Field(description="name of the other run, or the file of its report")
    settings: str = Field(description="its most important settings, in a line")
    started_at: str = Field(description="when it was measured")
    commit: str = Field(description="commit that it was measured with")
    changed: list[str] = Field(description="settings that differ, from the other run to this one")
    differences: list[DifferenceEntry] = Field(description="every metric that both have")
    flipped: list[FlipEntry] = Field(
        description="queries that changed, those whose change is in the direction of the mean first; at most 20"
    )
