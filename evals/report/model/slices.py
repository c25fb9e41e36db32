"""Metrics over a part of the queries, as a part of the report."""

from typing import Literal

from pydantic import Field

from evals.report.model.base import Section


class SliceMetric(Section):
    """A metric over the queries of a slice."""

    value: float = Field(description="mean over the scored queries")
    ci_low: float | None = Field(description="lower end of the 95% interval; null when it cannot be computed")
    ci_high: float | None = Field(description="upper end of the 95% interval; null when it cannot be computed")
    n: int = Field(ge=1, description="number of scored queries")
    n_failed: int = Field(0, ge=0, description="number of scores that failed")


class SliceEntry(Section):
    """The queries of one type, or with one tag."""

    by: Literal["query_type", "tag"] = Field(description="what the queries have in common")
    name: str = Field(description="the type or the tag")
    n: int = Field(ge=1, description="number of queries")
    metrics: dict[str, SliceMetric] = Field(description="every metric that scores any of them, by name")
