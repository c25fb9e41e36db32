"""Candidates of many queries as columns, and views of them: a candidate becomes an object when it is looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import isnan
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from retrievers.records import Chunk, Distance, RetrievedChunk, ScoreScale, StageTimings
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


BY_QUERY = (
    "scales",
    "distances",
    "texts",
    "timings",
    "vectors",
    "no_cosine",
    "incomplete",
    "caches",
    "retrieved_at",
    "ann_recall",
)
"""Fields of a table that hold a value for each query; `codes`, `scores` and `columns` hold one for each candidate."""


@dataclass(frozen=True, kw_only=True)
class CandidateTable(Sequence["Candidates"]):
    """Candidates of many queries in the total order; as a sequence, the candidates by query.

    Attributes:
        offsets: The first candidate of each query, and the end of the last one's; shape (queries + 1,).
        codes: The chunk of each candidate by its number in `chunks`; shape (candidates,).
        scores: The final score of each candidate, NaN where the retriever gives none.
        columns: Component scores by name, NaN where a candidate has none (see `RetrievedChunk.scores`), and its rank
            and score before reranking, the latter as it is shown.
        scales: The scale of the final scores, by query.
        distances: The scale of the component `semantic`, by query.
        chunks: The chunks, shared by all tables of a run.
        texts: The queries; empty within a search.
        timings: Times of the stages of each search.
        vectors: The vector of each query, float32; None where the retriever does not show it.
        no_cosine: The reason why a query's candidates carry no cosine similarity; empty when they do.
        incomplete: The reason why a search to the same depth may find more than these; empty when it cannot.
        caches: Source of the query vector (see `RetrievalSession.cache`).
        retrieved_at: Time of each search.
        ann_recall: Number of nearest vectors to the share of them that the search found; empty where not known.
    """

    offsets: NDArray[np.int64]
    codes: Codes
    scores: Floats
    columns: Mapping[str, Floats]
    scales: Sequence[ScoreScale]
    distances: Sequence[Distance]
    chunks: Chunks
    texts: Sequence[str]
    timings: Sequence[StageTimings]
    vectors: Sequence[NDArray[np.float32] | None]
    no_cosine: Sequence[str]
    incomplete: Sequence[str]
    caches: Sequence[Mapping[str, str]]
    retrieved_at: Sequence[datetime | None]
    ann_recall: Sequence[Mapping[int, float]]

    def __len__(self) -> int:
        return len(self.scales)

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

    def hit(self, row: int, place: int, rank: int) -> RetrievedChunk:
        """Return a candidate as an object.

        Args:
            row: The query.
            place: Its place among the candidates of the query, from 0.
            rank: Its rank in the result, from 1.
        """
        at, scale, distance = int(self.offsets[row]) + place, self.scales[row], self.distances[row]
        score = float(self.scores[at])
        values = {name: float(column[at]) for name, column in self.columns.items()}
        scores = {name: value for name, value in values.items() if not isnan(value)}
        return RetrievedChunk(
            rank=rank,
            score=None if isnan(score) else score,
            score_scale=scale,
            scores={name: value for name, value in scores.items() if name not in BEFORE},
            chunk=self.chunks[int(self.codes[at])],
            original_rank=int(scores["original_rank"]) if "original_rank" in scores else None,
            original_score=scores.get("original_score"),
            retrieved_at=self.retrieved_at[row],
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
    def scale(self) -> ScoreScale:
        """The scale of the final scores."""
        return self.table.scales[self.row]

    @property
    def distance(self) -> Distance:
        """The scale of the component `semantic`."""
        return self.table.distances[self.row]

    @property
    def text(self) -> str:
        """The query."""
        return self.table.texts[self.row]

    @property
    def timings(self) -> StageTimings:
        """Times of the stages of the search."""
        return self.table.timings[self.row]

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """The vector of the query; None where the retriever does not show it."""
        return self.table.vectors[self.row]

    @property
    def no_cosine(self) -> str:
        """The reason why these carry no cosine similarity; empty when they do."""
        return self.table.no_cosine[self.row]

    @property
    def incomplete(self) -> str:
        """The reason why a search to the same depth may find more than these; empty when it cannot."""
        return self.table.incomplete[self.row]

    @property
    def cache(self) -> Mapping[str, str]:
        """Source of the query vector (see `RetrievalSession.cache`)."""
        return self.table.caches[self.row]

    @property
    def retrieved_at(self) -> datetime | None:
        """Time of the search."""
        return self.table.retrieved_at[self.row]

    @property
    def ann_recall(self) -> Mapping[int, float]:
        """Number of nearest vectors to the share of them that the search found; empty where not known."""
        return self.table.ann_recall[self.row]

    def at(self, places: Places) -> "Candidates":
        """Return the candidates at some places of these, ranked from 1."""
        if self.places is not None:
            places = np.asarray(self.places, dtype=np.intp)[np.asarray(places, dtype=np.intp)]
        return Candidates(self.table, self.row, places)

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

    def alone(self) -> CandidateTable:
        """Return these candidates as a table of one query, with the facts of it."""
        of_query: dict[str, Any] = {name: (getattr(self.table, name)[self.row],) for name in BY_QUERY}
        return CandidateTable(
            offsets=np.asarray([0, len(self)], dtype=np.int64),
            codes=self.codes,
            scores=self.column("score"),
            columns=self.columns,
            chunks=self.table.chunks,
            **of_query,
        )

    @property
    def scores(self) -> Floats:
        """The final scores in rank order."""
        return self.column("score")

    @property
    def columns(self) -> dict[str, Floats]:
        """The components by name, each in rank order."""
        return {name: self.column(name) for name in self.table.columns}
