"""Candidates of one query from chunks put together by hand."""

from collections.abc import Sequence
from typing import Any

from retrievers.records import RetrievedChunk, StageTimings
from retrievers.search.candidate_table import Candidates, SearchedQuery
from retrievers.search.table_builder import table_of_hits


def candidates_of(hits: Sequence[RetrievedChunk], text: str = "query", **values: Any) -> Candidates:
    """Return candidates of a query that took 1 ms, with further facts of it (`no_cosine`, `vector`, ...)."""
    return table_of_hits(SearchedQuery(text=text, **{"timings": StageTimings(total_ms=1.0)} | values), hits)[0]
