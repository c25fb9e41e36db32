"""Candidates of many queries as matrices. Those of one query are hits, which become objects when they are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import isnan
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from retrievers.records import Chunk, RetrievedChunk, ScoreScale, StageTimings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Chunks(Protocol):
    """Chunks by number. Two chunks may have the same id."""

    def __len__(self) -> int: ...

    def __getitem__(self, code: int) -> Chunk: ...


class ChunkList(list[Chunk]):
    """Chunks that came without a store to read them from. Equal chunks with equal `extra` are kept once."""

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[tuple[Chunk, str], int] = {}

    def code(self, chunk: Chunk) -> int:
        """Number a chunk. A known chunk keeps its number."""
        # A retriever may write facts of the query into the metadata, such as the score of a reranker.
        code = self._codes.setdefault((chunk, repr(chunk.extra)), len(self))
        if code == len(self):
            self.append(chunk)
        return code


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchFacts:
    """Facts of one search beside its candidates.

    Attributes:
        text: The query.
        scale: The scale of the final scores.
        timings: Times of the stages.
        no_cosine: Reason why the candidates have no cosine; empty if they have one.
        incomplete: Reason why a search to the same depth may find more; empty if it cannot.
        query_weight: Sum of the weights of the query's words, synonyms included; None if words were not searched for.
        known_words: Share of these words that some chunk has; None if that was not looked up.
    """

    text: str = ""
    scale: ScoreScale = "cosine"
    timings: StageTimings = field(default_factory=StageTimings)
    no_cosine: str = ""
    incomplete: str = ""
    query_weight: float | None = None
    known_words: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Candidates of queries in the total order: score descending, then chunk id. Iterate to get the hits by query.

    Attributes:
        codes: Number of the chunk at each place, −1 beyond the last; shape (queries, depth).
        columns: Scores by name, NaN for a candidate without one; shape as `codes`. `score` is the final score.
            `original_rank` and `original_score` are those before reranking. All others are components of `score`.
        chunks: The chunks by number. All candidates of a run share them.
        facts: Facts of the search for each query.
    """

    codes: Integers
    columns: Mapping[str, Floats]
    chunks: Chunks
    facts: Sequence[SearchFacts]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> "Hits":
        return Hits(self, row, np.arange(self.lengths[row]))

    def __iter__(self) -> "Iterator[Hits]":
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def lengths(self) -> Integers:
        """The number of candidates of each query; shape (queries,)."""
        return np.asarray((self.codes >= 0).sum(axis=1), dtype=np.int64)

    def column(self, name: str) -> Floats:
        """Return the scores of a name, all NaN if there are none; shape (queries, depth)."""
        return self.columns[name] if name in self.columns else np.full(self.codes.shape, np.nan)

    def at(self, places: Integers) -> "Candidates":
        """Return the candidates at the given places of each query. −1 stands for none; shape (queries, any depth)."""

        def taken(values: NDArray[Any], beyond: float) -> NDArray[Any]:
            return np.where(places < 0, beyond, np.take_along_axis(values, np.maximum(places, 0), axis=1))

        columns = {name: taken(values, np.nan) for name, values in self.columns.items()}
        return replace(self, codes=taken(self.codes, -1), columns=columns)


class Hits(Sequence[RetrievedChunk]):
    """Candidates of one query, ranked from 1.

    Attributes:
        found: The candidates of all queries.
        row: The row of the query.
        places: Places of the hits in the row, from 0, in rank order.
        codes: Numbers of the chunks, in rank order.
        facts: The facts of the search.
    """

    def __init__(self, found: Candidates, row: int, places: Integers) -> None:
        self.found, self.row, self.places = found, row, places
        self.codes: Integers = found.codes[row, places]
        self.facts = found.facts[row]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> RetrievedChunk: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RetrievedChunk, ...]: ...

    def __getitem__(self, index: int | slice) -> RetrievedChunk | tuple[RetrievedChunk, ...]:
        ranks = range(len(self))[index]
        return tuple(map(self._hit, ranks)) if isinstance(ranks, range) else self._hit(ranks)

    def _hit(self, rank: int) -> RetrievedChunk:
        columns = {name: float(column[self.row, self.places[rank]]) for name, column in self.found.columns.items()}
        scores = {name: value for name, value in columns.items() if not isnan(value)}
        score, was_rank, was_score = (scores.pop(name, None) for name in ("score", "original_rank", "original_score"))
        return RetrievedChunk(
            rank=rank + 1,
            score=score,
            score_scale=self.facts.scale,
            scores=scores,
            chunk=self.found.chunks[int(self.codes[rank])],
            original_rank=None if was_rank is None else int(was_rank),
            original_score=was_score,
        )

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """The ids of the chunks, in rank order."""
        return tuple(chunk.chunk_id for chunk in self.chunks)

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks, in rank order."""
        return tuple(self.found.chunks[code] for code in self.codes.tolist())

    def column(self, name: str) -> Floats:
        """Return the scores of a name, in rank order, NaN for a candidate without one."""
        scores: Floats = self.found.column(name)[self.row, self.places]
        return scores

    def at(self, ranks: Sequence[int]) -> "Hits":
        """Return the hits at the given places, which count from 0. Their ranks count from 1 again."""
        return Hits(self.found, self.row, self.places[np.asarray(ranks, dtype=np.int64)])


def joined(tables: Sequence[Candidates]) -> Candidates:
    """Return the candidates of several searches in one table. The searches share their chunks."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    return Candidates(
        codes=laid_out([row for table in tables for row in table.codes], -1),
        columns={name: laid_out([row for table in tables for row in table.column(name)], np.nan) for name in names},
        chunks=tables[0].chunks,
        facts=tuple(chain.from_iterable(table.facts for table in tables)),
    )


def laid_out(rows: Sequence[Sequence[float] | NDArray[Any]], beyond: float, *, least: int = 0) -> NDArray[Any]:
    """Return rows of several lengths as a matrix, at least `least` wide. `beyond` fills it up and gives its type."""
    matrix = np.full((len(rows), max([least, *map(len, rows)])), beyond)
    for row, values in zip(matrix, rows, strict=True):
        row[: len(values)] = values
    return matrix
