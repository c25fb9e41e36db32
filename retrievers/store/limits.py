"""The limits of a collection on one request: the strict mode of a server, which hosted clusters set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a collection on one request; None for one that it does not set.

    Attributes:
        results: Points that a query or a page of a scroll may ask for (`max_query_limit`).
        queries: Queries of a batch (`search_max_batchsize`, and no more than a minute's `read_rate_limit`).
        points: Points that are written at once (`upsert_max_batchsize`).
        values: Values of one condition of a filter (`condition_max_size`).
        hnsw_ef: Beam of a search (`search_max_hnsw_ef`).
        exact: True if exact search and exact counts are allowed (`search_allow_exact`).
        unindexed: True if filters may name keys without an index (`unindexed_filtering_retrieve`).
    """

    results: int | None = None
    queries: int | None = None
    points: int | None = None
    values: int | None = None
    hnsw_ef: int | None = None
    exact: bool = True
    unindexed: bool = True


NO_LIMITS = Limits()


def limits_of(config: Any) -> Limits:
    """Read the limits in a collection's configuration."""
    strict = getattr(config, "strict_mode_config", None)
    if strict is None or not strict.enabled:
        return NO_LIMITS
    queries = [limit for limit in (strict.search_max_batchsize, strict.read_rate_limit) if limit]
    return Limits(
        results=strict.max_query_limit,
        queries=min(queries, default=None),
        points=strict.upsert_max_batchsize,
        values=strict.condition_max_size,
        hnsw_ef=strict.search_max_hnsw_ef,
        exact=strict.search_allow_exact is not False,
        unindexed=strict.unindexed_filtering_retrieve is not False,
    )


def least(size: int, *limits: int | None) -> int:
    """Return a size, or the least of the set limits where that is less."""
    return min([size, *(limit for limit in limits if limit)])


def parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield items in their order, in batches of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
