"""Candidates of many queries as columns, and views of them: a candidate becomes an object when it is looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import isnan
from typing import Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from retrievers.records import Chunk, Distance, RetrievedChunk, ScoreScale, StageTimings, oriented
from retrievers.search.spooled import release
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
        ann_recall: Number of nearest vectors to the share of them that its search found; empty where that is not known.
        distance: The scale of the component `semantic` of its candidates.
    """

    text: str
    timings: StageTimings
    vector: NDArray[np.float32] | None = None
    no_cosine: str = ""
    incomplete: str = ""
    cache: Mapping[str, str] = field(default_factory=dict)
    retrieved_at: datetime | None = None
    ann_recall: Mapping[int, float] = field(default_factory=dict)
    distance: Distance = "cosine"


@dataclass(frozen=True, kw_only=True)
class CandidateTable(Sequence["Candidates"]):
    """Candidates of many queries in the total order; as a sequence, the candidates by query.

    Scores are oriented: the higher, the better (see `records.oriented`). A candidate that is an object has them as
    Qdrant reports them.

    Attributes:
        rows: The queries.
        offsets: The first candidate of each query, and the end of the last one's; shape (queries + 1,).
        codes: The chunk of each candidate by its number in `chunks`; shape (candidates,).
        scores: The final score of each candidate, NaN where the retriever gives none.
        columns: Component scores by name, NaN where a candidate has none (see `RetrievedChunk.scores`), and its rank
            and score before reranking, the latter as it is shown.
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
    def __getitem__(self, index: int) -> "Candidates": ...

    @overload
    def __getitem__(self, index: slice) -> "list[Candidates]": ...

    def __getitem__(self, index: int | slice) -> "Candidates | list[Candidates]":
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected a query from 0 to {len(self) - 1}, got {index!r}")
        return Candidates(self, index % len(self))

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

    def release(self) -> None:
        """Drop what was read of columns in files from memory; it is read again where it is asked for."""
        release(self.codes)
        for column in (self.scores, *self.columns.values()):
            release(column)

    def hit(self, row: int, place: int, rank: int) -> RetrievedChunk:
        """Return a candidate as an object.

        Args:
            row: The query.
            place: Its place among the candidates of the query, from 0.
            rank: Its rank in the result, from 1.
        """
        at = int(self.offsets[row]) + place
        chunk = self.chunks[int(self.codes[at])]
        query = self.rows[row]
        return hit_of(self.scores, self.columns, at, self.scales[row], query.distance, chunk, rank, query.retrieved_at)


def hit_of(
    scores: Floats,
    columns: Mapping[str, Floats],
    at: int,
    scale: ScoreScale,
    distance: Distance,
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
        distance: The scale of the component `semantic`.
        chunk: Its chunk.
        rank: Its rank in the result, from 1.
        retrieved_at: Time of the search.
    """
    score = oriented(float(scores[at]), scale)
    values = {name: float(column[at]) for name, column in columns.items()}
    if "semantic" in values:
        values["semantic"] = oriented(values["semantic"], distance)
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
        distance=distance,
    )


class Candidates(Sequence[RetrievedChunk]):
    """The candidates of one query in the total order (score descending, chunk id ascending), or some of them.

    A view of a row of a table: a candidate becomes an object when it is looked at.

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
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected a candidate from 0 to {len(self) - 1}, got {index!r}")
        at = index % len(self)
        return self.table.hit(self.row, at if self.places is None else int(self.places[at]), at + 1)

    def __iter__(self) -> Iterator[RetrievedChunk]:
        return (self[at] for at in range(len(self)))

    # Equal to a tuple of the same candidates, which is hashed otherwise.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Candidates | tuple) else NotImplemented

    def __repr__(self) -> str:
        return f"Candidates({list(self)!r})"

    @property
    def query(self) -> SearchedQuery:
        """The query as it was searched for."""
        return self.table.rows[self.row]

    def at(self, places: Places) -> "Candidates":
        """Return the candidates at some places of these, ranked from 1."""
        chosen = places if self.places is None else [int(self.places[place]) for place in places]
        return Candidates(self.table, self.row, chosen)

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
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks without their scores, in rank order."""
        return tuple(self.table.chunks[code] for code in self.codes.tolist())

    def column(self, name: str) -> Floats:
        """Return the final scores (`score`) or a component, in rank order; NaN where a candidate has none."""
        values = self.table.column(name)[self.table.span(self.row)]
        return values if self.places is None else values[np.asarray(self.places, dtype=np.intp)]
