"""Builds tables of candidates: batch by batch from columns, or from candidates that are objects."""

from collections.abc import Mapping, Sequence

import numpy as np

from retrievers.records import RetrievedChunk, ScoreScale, oriented
from retrievers.search.candidate_table import BEFORE, Candidates, CandidateTable, Chunks, Floats, SearchedQuery
from retrievers.search.chunk_list import ChunkList
from retrievers.search.spooled import SpooledColumn
from retrievers.store.chunk_table import Codes


class TableBuilder:
    """Joins candidates, batch by batch, to one table. Past a limit the columns are in files that end with it."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._rows: list[SearchedQuery] = []
        self._scales: list[ScoreScale] = []
        self._lengths: list[int] = []
        self._codes: SpooledColumn[np.int32] = SpooledColumn(np.int32)
        self._columns: dict[str, SpooledColumn[np.float64]] = {"score": SpooledColumn(np.float64)}

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, row: SearchedQuery, scale: ScoreScale, codes: Codes, scores: Floats, columns: Mapping[str, Floats]
    ) -> None:
        """Add the candidates of one query.

        Args:
            row: The query.
            scale: The scale of the final scores.
            codes: The chunks, in the total order.
            scores: Their final scores, oriented as those in the columns are.
            columns: Component scores by name, each aligned to `codes`.
        """
        count = len(self._codes)
        self._rows.append(row)
        self._scales.append(scale)
        self._lengths.append(len(codes))
        for name in [name for name in columns if name not in self._columns]:
            self._columns[name] = SpooledColumn(np.float64)
            self._columns[name].append(np.full(count, np.nan))
        self._codes.append(codes)
        for name, column in self._columns.items():
            values = scores if name == "score" else columns.get(name)
            column.append(np.full(len(codes), np.nan) if values is None else values)

    def extend(self, table: CandidateTable) -> None:
        """Add a table of the same chunks."""
        count = len(self._codes)
        self._rows += table.rows
        self._scales += table.scales
        self._lengths += table.lengths.tolist()
        for name in [name for name in table.columns if name not in self._columns]:
            self._columns[name] = SpooledColumn(np.float64)
            self._columns[name].append(np.full(count, np.nan))
        self._codes.append(table.codes)
        for name, column in self._columns.items():
            column.append(table.column(name))

    def table(self) -> CandidateTable:
        """Return what was added."""
        columns = {name: column.array() for name, column in self._columns.items()}
        return CandidateTable(
            rows=tuple(self._rows),
            offsets=np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64),
            codes=self._codes.array(),
            scores=columns.pop("score"),
            columns=columns,
            scales=tuple(self._scales),
            chunks=self._chunks,
        )


def table_of(lists: Sequence[Candidates]) -> CandidateTable:
    """Return the table whose rows some candidates are, or join those of several tables."""
    if lists and len(lists[0].table) == len(lists) and _are_rows(lists, lists[0].table):
        return lists[0].table
    chunks = ChunkList()
    builder = TableBuilder(chunks)
    for candidates in lists:
        add_hits(builder, chunks, candidates.query, candidates)
    return builder.table()


def add_hits(builder: TableBuilder, chunks: ChunkList, query: SearchedQuery, hits: Sequence[RetrievedChunk]) -> None:
    """Add the candidates of one query that are objects.

    Args:
        builder: The table to be.
        chunks: Its chunks.
        query: The query.
        hits: Its candidates, in rank order.
    """
    names = dict.fromkeys(name for hit in hits for name in hit.scores)
    columns = {name: np.asarray([hit.scores.get(name, np.nan) for hit in hits]) for name in names}
    if "semantic" in columns:
        columns["semantic"] = oriented(columns["semantic"], query.distance)
    for name in BEFORE if any(hit.original_rank is not None for hit in hits) else ():
        values = [getattr(hit, name) for hit in hits]
        columns[name] = np.asarray([np.nan if value is None else float(value) for value in values])
    scale = hits[0].score_scale if hits else query.distance
    scores = np.asarray([np.nan if hit.score is None else hit.score for hit in hits], dtype=np.float64)
    builder.add(
        query,
        scale,
        np.asarray([chunks.code(hit.chunk) for hit in hits], dtype=np.int32),
        oriented(scores, scale),
        columns,
    )


def table_of_hits(query: SearchedQuery, hits: Sequence[RetrievedChunk]) -> CandidateTable:
    """Return the table of one query, whose candidates are objects, in rank order."""
    chunks = ChunkList()
    builder = TableBuilder(chunks)
    add_hits(builder, chunks, query, hits)
    return builder.table()


def _are_rows(lists: Sequence[Candidates], table: CandidateTable) -> bool:
    """Return True if the candidates are the rows of a table, whole and in their order."""
    return all(each.table is table and each.row == row and each.places is None for row, each in enumerate(lists))
