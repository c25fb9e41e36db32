"""Candidates of many queries as matrices; those of one query are hits, which become objects when they are looked at."""

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
    """Chunks by number; two numbers may stand for chunks of one id."""

    def __len__(self) -> int: ...

    def __getitem__(self, code: int) -> Chunk: ...

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk."""


class ChunkList(list[Chunk]):
    """Chunks that came without a store to read them from; one that is equal, `extra` included, is kept once."""

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[tuple[Chunk, str], int] = {}

    def chunk_id(self, code: int) -> str:
        """Return the id of a chunk."""
        return self[code].chunk_id

    def code(self, chunk: Chunk) -> int:
        """Number a chunk; a known one keeps its number."""
        # A retriever may put what it says of a query into the metadata, such as the score of a reranker.
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
        no_cosine: Reason why the candidates carry no cosine; empty where they do.
        incomplete: Reason why a search to the same depth may find more; empty where it cannot.
        query_weight: Sum of the weights of the query's words, synonyms included; None where they were not searched for.
        known_words: Share of these words that some chunk has; None where that was not looked up.
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
    """Candidates of queries in the total order (score descending, then chunk id); iterated, the hits of each query.

    Attributes:
        codes: The chunk at each place by its number in `chunks`, −1 beyond the last; shape (queries, depth).
        columns: Scores by name, NaN where a candidate has none; shape as `codes`. `score` is the final one,
            `original_rank` and `original_score` are those before reranking, the others are its components.
        chunks: The chunks, shared by all that a run finds.
        facts: What else is known of each search.
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
        """Return scores by name, all NaN where there are none of that name; shape (queries, depth)."""
        return self.columns[name] if name in self.columns else np.full(self.codes.shape, np.nan)

    def at(self, places: Integers) -> "Candidates":
        """Return the candidates at some places of each query, −1 for none; shape (queries, any depth)."""

        def taken(values: NDArray[Any], beyond: float) -> NDArray[Any]:
            return np.where(places < 0, beyond, np.take_along_axis(values, np.maximum(places, 0), axis=1))

        columns = {name: taken(values, np.nan) for name, values in self.columns.items()}
        return replace(self, codes=taken(self.codes, -1), columns=columns)


class Hits(Sequence[RetrievedChunk]):
    """Candidates of one query, ranked from 1.

    Attributes:
        found: The candidates of all queries.
        row: The row of the query.
        places: The places of these in the row, from 0, in rank order.
        codes: The chunks by number, in rank order.
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
        return tuple(map(self.found.chunks.chunk_id, self.codes.tolist()))

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks without their scores, in rank order."""
        return tuple(self.found.chunks[code] for code in self.codes.tolist())

    def column(self, name: str) -> Floats:
        """Return the scores of a name, in rank order; NaN where a candidate has none."""
        scores: Floats = self.found.column(name)[self.row, self.places]
        return scores

    def at(self, ranks: Sequence[int]) -> "Hits":
        """Return those at some places of these, from 0, ranked from 1."""
        return Hits(self.found, self.row, self.places[np.asarray(ranks, dtype=np.int64)])


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Return the queries of some candidates, whose chunks are the same, one after the other."""
    names = dict.fromkeys(name for part in parts for name in part.columns)
    return Candidates(
        codes=stacked([part.codes for part in parts], -1),
        columns={name: stacked([part.column(name) for part in parts], np.nan) for name in names},
        chunks=parts[0].chunks,
        facts=tuple(chain.from_iterable(part.facts for part in parts)),
    )


def stacked(matrices: Sequence[NDArray[Any]], beyond: float, *, least: int = 0) -> NDArray[Any]:
    """Stack matrices of several widths below one another, filled up with `beyond` to the widest, or to `least`."""
    width = max(least, *(matrix.shape[1] for matrix in matrices))
    padded = [np.pad(m, ((0, 0), (0, width - m.shape[1])), constant_values=beyond) for m in matrices]
    return np.concatenate(padded)


def laid_out(rows: Sequence[Sequence[float] | NDArray[Any]], beyond: float) -> NDArray[Any]:
    """Return rows of several lengths as a matrix of the kind of `beyond`, with which it is filled up."""
    matrix = np.full((len(rows), max(map(len, rows), default=0)), beyond)
    for row, values in zip(matrix, rows, strict=True):
        row[: len(values)] = values
    return matrix
