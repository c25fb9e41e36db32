"""Base class of the report's sections, and the sections that several others hold."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from evals.collect.observations import MAX_FAILED_SHARE

Setting = str | bool | int | float | None


class Section(BaseModel):
    """A part of the report. An unknown field is kept, so that a later version may add some."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    @classmethod
    def of(cls, record: object) -> Self:
        """Return the section of a record that has its fields as attributes; sections within it likewise."""
        return cls.model_validate(record, strict=False, from_attributes=True)


class IntervalEntry(Section):
    """A 95% interval."""

    low: float | None = Field(description="lower end; null when it cannot be computed")
    high: float | None = Field(description="upper end; null when it cannot be computed")
    note: str = Field(description="reason why it cannot be computed; empty when it can")


class SampledEntry(Section):
    """Correction of a mean of which a sample of the queries was judged."""

    queries: int = Field(ge=1, description="number of queries that the mean stands for, judged or not")
    proxy: str = Field(description="what the mean is corrected by: a metric by a cheaper judge, or without a judge")
    weight: float = Field(ge=0, le=1, description="weight of the correction; 0: the judged queries alone")
    alone: float = Field(description="mean of the judged queries alone")
    alone_low: float | None = Field(description="lower end of its 95% interval; null when it cannot be computed")
    alone_high: float | None = Field(description="upper end of its 95% interval; null when it cannot be computed")


class MetricEntry(Section):
    """A metric over the run, or over a configuration of a grid."""

    value: float | None = Field(description="mean or other statistic over the scored; null when there is none")
    ci_low: float | None = Field(description="lower end of the 95% interval; null when it cannot be computed")
    ci_high: float | None = Field(description="upper end of the 95% interval; null when it cannot be computed")
    n: int = Field(ge=0, description="number of scored values")
    n_unscored: int = Field(ge=0, description="number of queries that could not be scored")
    n_failed: int = Field(ge=0, description="number of scores that failed")
    n_missing: int = Field(0, ge=0, description="number of the unscored that were not obtained (a spent budget)")
    bound_low: float | None = Field(description="value if all that failed or is missing had scored 0; else null")
    bound_high: float | None = Field(description="value if all that failed or is missing had scored 1; else null")
    note: str = Field(description="why there is no value or no interval, or that the value is an approximation")
    sampled: SampledEntry | None = Field(
        None,
        description="correction of the mean where judge.sample judged a sample of the queries; the bounds are then the "
        "95% bounds of what judging all would give; else null",
    )

    @property
    def usable(self) -> bool:
        """Whether few enough failed, at most 5%, for the value to stand for the run."""
        return self.n_failed <= MAX_FAILED_SHARE * (self.n + self.n_failed)
