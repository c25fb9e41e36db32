"""Candidates of many queries as columns, and views of one query's, which become objects when they are looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import isnan
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from retrievers.records import Chunk, Distance, RetrievedChunk, ScoreScale, StageTimings
from retrievers.store.chunks import Codes

Floats = NDArray[np.float64]
Item = TypeVar("Item", bound=np.generic)
Places = Sequence[int] | NDArray[np.integer]
"""Places of candidates in the list of their query, from 0."""
BEFORE = ("original_rank", "original_score")
"""Columns that are fields of a retrieved chunk; the others are its component scores."""
NOTHING: Mapping[Any, Any] = MappingProxyType({})
UNTOLD: Mapping[str, Any] = {
    "scales": "cosine", "distances": "cosine", "texts": "", "timings": StageTimings(), "vectors": None, "no_cosine": "",
    "incomplete": "", "caches": NOTHING, "retrieved_at": None,
}  # fmt: skip
"""Fields of a table that hold a value for each query, and their value where nobody tells."""
BY_QUERY = tuple(UNTOLD)


class Chunks(Protocol):
    """Chunks by number; two numbers may stand for chunks of one id."""

    def __len__(self) -> int: ...

    def __getitem__(self, code: int) -> Chunk: ...

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk."""


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


@dataclass(frozen=True, kw_only=True)
class CandidateTable:
    """Candidates of many queries in the total order; iterated, the candidates of each query.

    Attributes:
        offsets: The first candidate of each query, and the end of the last one's; shape (queries + 1,).
        codes: The chunk of each candidate by its number in `chunks`; shape (candidates,).
        scores: The final score of each candidate, NaN where the retriever gives none.
        columns: Component scores by name, NaN where a candidate has none (see `RetrievedChunk.scores`), and its rank
            and score before reranking, the latter as it is shown.
        chunks: The chunks, shared by all tables of a run.
        scales: The scale of the final scores, by query.
        distances: The scale of the component `semantic`, by query.
        texts: The queries; empty within a search.
        timings: Times of the stages of each search.
        vectors: The vector of each query, float32; None where the retriever does not show it.
        no_cosine: The reason why a query's candidates carry no cosine similarity; empty when they do.
        incomplete: The reason why a search to the same depth may find more than these; empty when it cannot.
        caches: Source of the query vector (see `RetrievalSession.cache`).
        retrieved_at: Time of each search.
    """

    offsets: NDArray[np.int64]
    codes: Codes
    scores: Floats
    columns: Mapping[str, Floats]
    chunks: Chunks
    scales: Sequence[ScoreScale]
    distances: Sequence[Distance]
    texts: Sequence[str]
    timings: Sequence[StageTimings]
    vectors: Sequence[NDArray[np.float32] | None]
    no_cosine: Sequence[str]
    incomplete: Sequence[str]
    caches: Sequence[Mapping[str, str]]
    retrieved_at: Sequence[datetime | None]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> "Candidates":
        return Candidates(self, range(len(self))[row])

    def __iter__(self) -> "Iterator[Candidates]":
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of candidates of each query; shape (queries,)."""
        return np.diff(self.offsets)

    @property
    def depth(self) -> int:
        """The number of candidates of the query that has most."""
        return int(self.lengths.max(initial=0))

    def matrix(self, values: NDArray[Item], beyond: float) -> NDArray[Item]:
        """Lay a column out by query and place, with `beyond` past a query's last candidate; shape (queries, depth)."""
        laid = np.full((len(self), self.depth), beyond, dtype=values.dtype)
        laid[np.arange(self.depth) < self.lengths[:, None]] = values
        return laid

    def column(self, name: str) -> Floats:
        """Return a column by name: `score`, or one of `columns`; all NaN where there is none of that name."""
        if name == "score":
            return self.scores
        return self.columns[name] if name in self.columns else np.full(len(self.codes), np.nan)


class Candidates(Sequence[RetrievedChunk]):
    """The candidates of one query in the total order (score descending, chunk id ascending), or some of them.

    Attributes:
        table: The table.
        row: The row of the query.
        places: The places in the row, from 0, in rank order; None for all.
    """

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
        places = range(len(self))[index]
        return tuple(map(self._hit, places)) if isinstance(places, range) else self._hit(places)

    def _hit(self, place: int) -> RetrievedChunk:
        """Return a candidate as an object, by its place among these."""
        table, at = self.table, int(self._at[place])
        values = {name: float(column[at]) for name, column in table.columns.items()}
        scores = {name: value for name, value in values.items() if not isnan(value)}
        rank, score, before = scores.get("original_rank"), float(table.scores[at]), scores.get("original_score")
        return RetrievedChunk(
            rank=place + 1,
            score=None if isnan(score) else score,
            score_scale=table.scales[self.row],
            scores={name: value for name, value in scores.items() if name not in BEFORE},
            chunk=table.chunks[int(table.codes[at])],
            original_rank=None if rank is None else int(rank),
            original_score=before,
            retrieved_at=table.retrieved_at[self.row],
            distance=self.distance,
        )

    # Equal to a tuple of the same candidates, which is hashed otherwise.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Candidates | tuple) else NotImplemented

    def __repr__(self) -> str:
        return f"Candidates({list(self)!r})"

    @property
    def _at(self) -> NDArray[np.integer]:
        """The places of these in the columns of the table."""
        start, end = self.table.offsets[self.row], self.table.offsets[self.row + 1]
        return np.arange(start, end) if self.places is None else start + np.asarray(self.places, dtype=np.int64)

    def at(self, places: Places) -> "Candidates":
        """Return the candidates at some places of these, ranked from 1."""
        return Candidates(self.table, self.row, (self._at - self.table.offsets[self.row])[np.asarray(places, np.intp)])

    def column(self, name: str) -> Floats:
        """Return the final scores (`score`) or a component, in rank order; NaN where a candidate has none."""
        values: Floats = self.table.column(name)[self._at]
        return values

    @property
    def scores(self) -> Floats:
        """The final scores in rank order."""
        return self.column("score")

    @property
    def codes(self) -> Codes:
        """The chunks by number, in rank order."""
        codes: Codes = self.table.codes[self._at]
        return codes

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """The ids of the chunks, in rank order."""
        return tuple(map(self.table.chunks.chunk_id, self.codes.tolist()))

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks without their scores, in rank order."""
        return tuple(self.table.chunks[code] for code in self.codes.tolist())

    @property
    def columns(self) -> dict[str, Floats]:
        """The components by name, each in rank order."""
        return {name: self.column(name) for name in self.table.columns}

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """The vector of the query; None where the retriever does not show it."""
        return self.table.vectors[self.row]

    @property
    def text(self) -> str:
        """The query."""
        return self.table.texts[self.row]

    @property
    def distance(self) -> Distance:
        """The scale of the component `semantic`."""
        return self.table.distances[self.row]

    @property
    def timings(self) -> StageTimings:
        """Times of the stages of the search."""
        return self.table.timings[self.row]

    @property
    def cache(self) -> Mapping[str, str]:
        """Source of the query vector (see `RetrievalSession.cache`)."""
        return self.table.caches[self.row]

    @property
    def no_cosine(self) -> str:
        """The reason why these carry no cosine similarity; empty when they do."""
        return self.table.no_cosine[self.row]

    def alone(self, chunks: ChunkList | None = None) -> CandidateTable:
        """Return these candidates as a table of one query, with the facts of it; `chunks` numbers theirs anew."""
        codes, home = self.codes, self.table.chunks if chunks is None else chunks
        if chunks is not None:
            codes = np.asarray([chunks.code(chunk) for chunk in self.chunks], dtype=np.int32)
        facts = {name: (getattr(self.table, name)[self.row],) for name in BY_QUERY}
        return make_table([len(self)], codes, self.scores, self.columns, home, **facts)


def make_table(
    lengths: Sequence[int] | NDArray[np.integer],
    codes: Codes,
    scores: Floats,
    columns: Mapping[str, Floats],
    chunks: Chunks,
    **facts: Sequence[Any],
) -> CandidateTable:
    """Return a table of candidates.

    Args:
        lengths: The number of candidates of each query.
        codes: Their chunks by number.
        scores: Their final scores.
        columns: Component scores by name.
        chunks: The chunks.
        facts: What else is known by query (`BY_QUERY`).
    """
    of_query: dict[str, Any] = {name: (value,) * len(lengths) for name, value in UNTOLD.items()} | facts
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return CandidateTable(offsets=offsets, codes=codes, scores=scores, columns=columns, chunks=chunks, **of_query)


class TableBuilder:
    """Joins candidates, batch by batch, to one table."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._tables: list[CandidateTable] = []

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def extend(self, table: CandidateTable) -> None:
        """Add a table of the same chunks."""
        self._tables.append(table)

    def table(self) -> CandidateTable:
        """Return what was added."""
        tables = self._tables
        names = dict.fromkeys(name for table in tables for name in table.columns)
        return make_table(
            np.concatenate([np.empty(0, dtype=np.int64), *(table.lengths for table in tables)]),
            np.concatenate([np.empty(0, dtype=np.int32), *(table.codes for table in tables)]),
            np.concatenate([np.empty(0), *(table.scores for table in tables)]),
            {name: np.concatenate([table.column(name) for table in tables]) for name in names},
            self._chunks,
            **{name: tuple(each for table in tables for each in getattr(table, name)) for name in BY_QUERY},
        )


def joined(tables: Sequence[CandidateTable], chunks: Chunks) -> CandidateTable:
    """Return tables of the same chunks as one."""
    builder = TableBuilder(chunks)
    for table in tables:
        builder.extend(table)
    return builder.table()


def table_of(lists: Sequence[Candidates]) -> CandidateTable:
    """Return the table whose rows some candidates are, or join those of several tables."""
    table = lists[0].table if lists else None
    if (
        table
        and len(table) == len(lists)
        and all(each.table is table and each.row == row and each.places is None for row, each in enumerate(lists))
    ):
        return table
    chunks = ChunkList()
    return joined([each.alone(chunks) for each in lists], chunks)


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
    values = [dict(hit.scores) for hit in hits]
    for hit, components in zip(hits, values, strict=True):
        components |= {name: value for name in BEFORE if (value := getattr(hit, name)) is not None}
    names = dict.fromkeys(name for components in values for name in components)
    return make_table(
        [len(hits)],
        np.asarray([chunks.code(hit.chunk) for hit in hits], dtype=np.int32),
        np.asarray([np.nan if hit.score is None else hit.score for hit in hits], dtype=np.float64),
        {name: np.asarray([each.get(name, np.nan) for each in values], dtype=np.float64) for name in names},
        chunks,
        scales=(hits[0].score_scale if hits else distance,),
        distances=(distance,),
    )
