"""Builds tables of candidates: batch by batch from columns, or from candidates that are objects."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from retrievers.records import Distance, RetrievedChunk, ScoreScale, StageTimings
from retrievers.search.candidate_table import BEFORE, BY_QUERY, Candidates, CandidateTable, Chunks, Floats
from retrievers.search.chunk_list import ChunkList
from retrievers.store.chunk_table import Codes

NO_TIMINGS = StageTimings()
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class TableBuilder:
    """Joins candidates, batch by batch, to one table."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._tables: list[CandidateTable] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, table: CandidateTable) -> None:
        """Add a table of the same chunks."""
        self._tables.append(table)
        self._count += len(table)

    def table(self) -> CandidateTable:
        """Return what was added."""
        tables = self._tables
        names = dict.fromkeys(name for table in tables for name in table.columns)
        lengths = np.concatenate([np.empty(0, dtype=np.int64), *(table.lengths for table in tables)])
        return CandidateTable(
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            codes=np.concatenate([np.empty(0, dtype=np.int32), *(table.codes for table in tables)]),
            scores=np.concatenate([np.empty(0), *(table.scores for table in tables)]),
            columns={name: np.concatenate([table.column(name) for table in tables]) for name in names},
            chunks=self._chunks,
            **{name: tuple(each for table in tables for each in getattr(table, name)) for name in BY_QUERY},
        )


def one_query(
    codes: Codes,
    scores: Floats,
    columns: Mapping[str, Floats],
    chunks: Chunks,
    *,
    scale: ScoreScale,
    distance: Distance = "cosine",
) -> CandidateTable:
    """Return the candidates of one query as a table, without the text, the times and the vector of the query.

    Args:
        codes: The chunks by number.
        scores: Their final scores.
        columns: Component scores by name, each aligned to `codes`.
        chunks: The chunks.
        scale: The scale of the final scores.
        distance: The scale of the component `semantic`.
    """
    return CandidateTable(
        offsets=np.asarray([0, len(codes)], dtype=np.int64),
        codes=codes,
        scores=scores,
        columns=columns,
        scales=(scale,),
        distances=(distance,),
        chunks=chunks,
        texts=("",),
        timings=(NO_TIMINGS,),
        vectors=(None,),
        no_cosine=("",),
        incomplete=("",),
        caches=(NOTHING,),
        retrieved_at=(None,),
        ann_recall=(NOTHING,),
    )


def joined(tables: Sequence[CandidateTable], chunks: Chunks) -> CandidateTable:
    """Return tables of the same chunks as one; a table alone as it is."""
    if len(tables) == 1:
        return tables[0]
    builder = TableBuilder(chunks)
    for table in tables:
        builder.extend(table)
    return builder.table()


def table_of(lists: Sequence[Candidates]) -> CandidateTable:
    """Return the table whose rows some candidates are, or join those of several tables."""
    if lists and len(lists[0].table) == len(lists) and _are_rows(lists, lists[0].table):
        return lists[0].table
    chunks = ChunkList()
    builder = TableBuilder(chunks)
    for candidates in lists:
        codes = np.asarray([chunks.code(chunk) for chunk in candidates.chunks], dtype=np.int32)
        builder.extend(replace(candidates.alone(), codes=codes))
    return builder.table()


def table_of_hits(
    hits: Sequence[RetrievedChunk], distance: Distance = "cosine", chunks: ChunkList | None = None
) -> CandidateTable:
    """Return the table of one query, whose candidates are objects.

    Args:
        hits: The candidates, in rank order.
        distance: The scale of their component `semantic`.
        chunks: The chunks of the table, to which theirs are added; of its own when left out.
    """
    chunks = ChunkList() if chunks is None else chunks
    names = dict.fromkeys(name for hit in hits for name in hit.scores)
    columns = {name: np.asarray([hit.scores.get(name, np.nan) for hit in hits]) for name in names}
    for name in BEFORE if any(hit.original_rank is not None for hit in hits) else ():
        values = [getattr(hit, name) for hit in hits]
        columns[name] = np.asarray([np.nan if value is None else float(value) for value in values])
    scale = hits[0].score_scale if hits else distance
    scores = np.asarray([np.nan if hit.score is None else hit.score for hit in hits], dtype=np.float64)
    codes = np.asarray([chunks.code(hit.chunk) for hit in hits], dtype=np.int32)
    return one_query(codes, scores, columns, chunks, scale=scale, distance=distance)


def _are_rows(lists: Sequence[Candidates], table: CandidateTable) -> bool:
    """Return True if the candidates are the rows of a table, whole and in their order."""
    return all(each.table is table and each.row == row and each.places is None for row, each in enumerate(lists))
