"""What all parts of the report's schema are made of."""

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the report. A field that it does not know is kept, so that a later version may add some."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)


class IntervalEntry(Section):
    """A 95% interval."""

    low: float | None = Field(description="its lower end; null when it cannot be computed")
    high: float | None = Field(description="its upper end; null when it cannot be computed")
    note: str = Field(description="why it cannot be computed; empty when it can")


class MetricEntry(Section):
    """A metric over the run, or over a configuration of a grid."""

    value: float | None = Field(description="mean or other statistic over the scored; null when there is none")
    ci_low: float | None = Field(description="lower end of the 95% interval; null when it cannot be computed")
    ci_high: float | None = Field(description="upper end of the 95% interval; null when it cannot be computed")
    n: int = Field(ge=0, description="how many values it is over")
    n_unscored: int = Field(ge=0, description="how many queries could not be scored")
    n_failed: int = Field(ge=0, description="how many scores failed")
    n_missing: int = Field(0, ge=0, description="how many of the unscored were not obtained, as when a budget is spent")
    bound_low: float | None = Field(description="the value if all that failed or is missing had scored 0; else null")
    bound_high: float | None = Field(description="the value if all that failed or is missing had scored 1; else null")
    note: str = Field(description="why there is no value or no interval, what it is over, or that it is approximate")
