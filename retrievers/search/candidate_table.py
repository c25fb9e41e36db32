"""Candidates of many queries as columns, and views of them: a hit is made an object when somebody looks at it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import isnan
from typing import Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from retrievers.records import Candidates, Chunk, RetrievedChunk, ScoreScale, StageTimings
from retrievers.search.spooled import SpooledColumn
from retrievers.store.chunk_table import Codes

Floats = NDArray[np.float64]
Item = TypeVar("Item", bound=np.generic)
Places = Sequence[int] | NDArray[np.integer]
"""Places of candidates in the list of their query, from 0."""
BEFORE = ("original_rank", "original_score")
"""Columns that are fields of a retrieved chunk; the others are its component scores."""


class Chunks(Protocol):
    """Chunks by number; two numbers may stand for chunks of one id."""

    def __len__(self) -> int: ...

    def __getitem__(self, code: int) -> Chunk: ...

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedQuery:
    """A query as it was searched for.

    Attributes:
        vector: Its vector, float32; None where the retriever does not show it.
        no_cosine: The reason why its candidates carry no cosine similarity; empty when they do.
        incomplete: The reason why a search to the same depth may find more than these; empty when it cannot.
    """

    query: str
    timings: StageTimings
    vector: NDArray[np.float32] | None = None
    no_cosine: str = ""
    incomplete: str = ""
    cache: Mapping[str, str] = field(default_factory=dict)
    retrieved_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class CandidateTable(Sequence[Candidates]):
    """Candidates of many queries in the total order; as a sequence, the candidates by query.

    Attributes:
        rows: The queries.
        offsets: The first candidate of each query, and the end of the last one's; shape (queries + 1,).
        codes: The chunk of each candidate by its number in `chunks`; shape (candidates,).
        scores: The final score of each candidate, NaN where the retriever gives none.
        columns: Component scores by name, NaN where a candidate has none (see `RetrievedChunk.scores`), and its rank
            and score before reranking.
        scales: The scale of the final scores, by query.
        chunks: The chunks, shared by all tables of a run.
    """

    rows: Sequence[SearchedQuery]
    offsets: NDArray[np.int64]
    codes: Codes
    scores: Floats
    columns: Mapping[str, Floats]
    scales: Sequence[ScoreScale]
    chunks: Chunks

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Candidates: ...

    @overload
    def __getitem__(self, index: slice) -> list[Candidates]: ...

    def __getitem__(self, index: int | slice) -> Candidates | list[Candidates]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected a query from 0 to {len(self) - 1}, got {index!r}")
        row = self.rows[index % len(self)]
        return Candidates(
            query=row.query,
            chunks=Hits(self, index % len(self)),
            timings=row.timings,
            vector=row.vector,
            no_cosine=row.no_cosine,
            incomplete=row.incomplete,
            cache=row.cache,
        )

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of candidates of each query; shape (queries,)."""
        return np.diff(self.offsets)

    @property
    def depth(self) -> int:
        """The number of candidates of the query that has most."""
        return int(self.lengths.max(initial=0))

    def column(self, name: str) -> Floats:
        """Return a column by name: `score`, or one of `columns`; all NaN where there is none of that name."""
        if name == "score":
            return self.scores
        return self.columns[name] if name in self.columns else np.full(len(self.codes), np.nan)

    def span(self, row: int) -> slice:
        """Return the candidates of a query as a slice of the columns."""
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))

    def matrix(self, values: NDArray[Item], beyond: float) -> NDArray[Item]:
        """Lay a column out by query and place; shape (queries, depth).

        Args:
            values: The column.
            beyond: Value beyond a query's last candidate.
        """
        laid = np.full((len(self), self.depth), beyond, dtype=values.dtype)
        laid[np.arange(self.depth) < self.lengths[:, None]] = values
        return laid

    def hit(self, row: int, place: int, rank: int) -> RetrievedChunk:
        """Return a candidate as an object.

        Args:
            row: The query.
            place: Its place among the candidates of the query, from 0.
            rank: Its rank in the result, from 1.
        """
        at = int(self.offsets[row]) + place
        chunk = self.chunks[int(self.codes[at])]
        return hit_of(self.scores, self.columns, at, self.scales[row], chunk, rank, self.rows[row].retrieved_at)


def hit_of(
    scores: Floats,
    columns: Mapping[str, Floats],
    at: int,
    scale: ScoreScale,
    chunk: Chunk,
    rank: int,
    retrieved_at: datetime | None,
) -> RetrievedChunk:
    """Return a candidate as an object.

    Args:
        scores: Final scores, NaN where there is none.
        columns: Component scores and what was before reranking, by name, NaN where there is none.
        at: Its place in these.
        scale: The scale of the final scores.
        chunk: Its chunk.
        rank: Its rank in the result, from 1.
        retrieved_at: Time of the search.
    """
    score = float(scores[at])
    values = {name: float(column[at]) for name, column in columns.items()}
    known = {name: value for name, value in values.items() if not isnan(value)}
    return RetrievedChunk(
        rank=rank,
        score=None if isnan(score) else score,
        score_scale=scale,
        scores={name: value for name, value in known.items() if name not in BEFORE},
        chunk=chunk,
        original_rank=int(known["original_rank"]) if "original_rank" in known else None,
        original_score=known.get("original_score"),
        retrieved_at=retrieved_at,
    )


class Hits(Sequence[RetrievedChunk]):
    """The candidates of one query, or those at some places of it, ranked from 1. Each is made when it is looked at."""

    __slots__ = ("places", "row", "table")

    def __init__(self, table: CandidateTable, row: int, places: Places | None = None) -> None:
        self.table, self.row, self.places = table, row, places

    def __len__(self) -> int:
        return int(self.table.lengths[self.row]) if self.places is None else len(self.places)

    @overload
    def __getitem__(self, index: int) -> RetrievedChunk: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RetrievedChunk, ...]: ...

    def __getitem__(self, index: int | slice) -> RetrievedChunk | tuple[RetrievedChunk, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected a hit from 0 to {len(self) - 1}, got {index!r}")
        at = index % len(self)
        return self.table.hit(self.row, at if self.places is None else int(self.places[at]), at + 1)

    def __iter__(self) -> Iterator[RetrievedChunk]:
        return (self[at] for at in range(len(self)))

    # Equal to a tuple of the same hits, which is hashed otherwise.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Hits | tuple) else NotImplemented

    def __repr__(self) -> str:
        return f"Hits({list(self)!r})"

    def at(self, places: Places) -> "Hits":
        """Return the hits at some places of these, ranked from 1."""
        chosen = places if self.places is None else [int(self.places[place]) for place in places]
        return Hits(self.table, self.row, chosen)

    @property
    def codes(self) -> Codes:
        """The chunks by number, in rank order."""
        codes = self.table.codes[self.table.span(self.row)]
        return codes if self.places is None else codes[np.asarray(self.places, dtype=np.intp)]

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """The ids of the chunks, in rank order."""
        return tuple(map(self.table.chunks.chunk_id, self.codes.tolist()))

    @property
    def only(self) -> tuple[Chunk, ...]:
        """The chunks without their scores, in rank order."""
        return tuple(self.table.chunks[code] for code in self.codes.tolist())

    def column(self, name: str) -> Floats:
        """Return the final scores (`score`) or a component, in rank order; NaN where a hit has none."""
        values = self.table.column(name)[self.table.span(self.row)]
        return values if self.places is None else values[np.asarray(self.places, dtype=np.intp)]


class ChunkList:
    """Chunks that came without a store to read them from; an equal one is kept once."""

    def __init__(self) -> None:
        self._codes: dict[Chunk, int] = {}
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, code: int) -> Chunk:
        return self._chunks[code]

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk."""
        return self._chunks[code].chunk_id

    def code(self, chunk: Chunk) -> int:
        """Number a chunk; a known one keeps its number."""
        code = self._codes.setdefault(chunk, len(self._chunks))
        if code == len(self._chunks):
            self._chunks.append(chunk)
        return code


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
            scores: Their final scores.
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


def table_of(candidates: Sequence[Candidates]) -> CandidateTable:
    """Return the table whose rows candidates are, or make one of candidates that are objects."""
    if isinstance(candidates, CandidateTable):
        return candidates
    first = candidates[0].chunks if candidates else ()
    if isinstance(first, Hits) and len(first.table) == len(candidates) and _are_rows(candidates, first.table):
        return first.table
    chunks = ChunkList()
    builder = TableBuilder(chunks)
    for found in candidates:
        add_hits(builder, chunks, found)
    return builder.table()


def add_hits(builder: TableBuilder, chunks: ChunkList, found: Candidates) -> None:
    """Add the candidates of one query that are objects."""
    hits = found.chunks
    names = dict.fromkeys(name for hit in hits for name in hit.scores)
    columns = {name: np.asarray([hit.scores.get(name, np.nan) for hit in hits]) for name in names}
    for name in BEFORE if any(hit.original_rank is not None for hit in hits) else ():
        values = [getattr(hit, name) for hit in hits]
        columns[name] = np.asarray([np.nan if value is None else float(value) for value in values])
    row = SearchedQuery(
        query=found.query,
        timings=found.timings,
        vector=None if found.vector is None else np.asarray(found.vector, dtype=np.float32),
        no_cosine=found.no_cosine,
        incomplete=found.incomplete,
        cache=found.cache,
        retrieved_at=hits[0].retrieved_at if hits else None,
    )
    builder.add(
        row,
        hits[0].score_scale if hits else "cosine",
        np.asarray([chunks.code(hit.chunk) for hit in hits], dtype=np.int32),
        np.asarray([np.nan if hit.score is None else hit.score for hit in hits], dtype=np.float64),
        columns,
    )


def _are_rows(candidates: Sequence[Candidates], table: CandidateTable) -> bool:
    """Return True if the candidates are the rows of a table, whole and in their order."""
    hits = [found.chunks for found in candidates]
    return all(
        isinstance(of_row, Hits) and of_row.table is table and of_row.row == row and of_row.places is None
        for row, of_row in enumerate(hits)
    )
