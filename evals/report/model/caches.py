"""Use of caches, as a part of the report."""

from pydantic import Field

from evals.report.model.base import Section


class CacheEntry(Section):
    """Look-ups of a cache during a run."""

    hits: int = Field(ge=0, description="look-ups that found what they looked for")
    lookups: int = Field(ge=0, description="all look-ups; 0 where the cache is off or is not asked")
    rate: float | None = Field(description="hits over look-ups; null without any")
