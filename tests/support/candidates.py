"""Candidates of one query from chunks put together by hand."""

from collections.abc import Sequence
from typing import Any

from retrievers.records import RetrievedChunk, StageTimings
from retrievers.search.candidate_table import Candidates, SearchedQuery
from retrievers.search.chunk_list import ChunkList
from retrievers.search.table_builder import TableBuilder, add_hits


def candidates_of(hits: Sequence[RetrievedChunk], text: str = "query", **values: Any) -> Candidates:
    """Return candidates of a query that took 1 ms, with further facts of it (`no_cosine`, `vector`, ...)."""
    chunks = ChunkList()
    builder = TableBuilder(chunks)
    add_hits(builder, chunks, SearchedQuery(text=text, **{"timings": StageTimings(total_ms=1.0)} | values), hits)
    return builder.table()[0]
