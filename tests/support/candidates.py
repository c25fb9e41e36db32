"""Candidates of one query from chunks put together by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrievers.records import RetrievedChunk, StageTimings
from retrievers.search.candidates import Candidates, table_of_hits

TIMINGS = StageTimings(total_ms=1.0)
OF_ONE = {"vector": "vectors", "cache": "caches", "distance": "distances"}
"""Facts of a query to the columns of a table that hold them, where these have other names."""


def candidates_of(hits: Sequence[RetrievedChunk], text: str = "query", **values: Any) -> Candidates:
    """Return candidates of a query that took 1 ms, with further facts of it (`no_cosine`, `vector`, ...)."""
    facts: dict[str, Any] = {OF_ONE.get(name, name): (value,) for name, value in values.items()}
    made = replace(table_of_hits(hits, values.get("distance", "cosine")), texts=(text,), timings=(TIMINGS,))
    return replace(made, **facts)[0]
