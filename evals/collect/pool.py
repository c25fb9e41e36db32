"""Candidates of golden queries under every variant as arrays, and the chunks that the golden data call relevant."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.cases.case import Case
from evals.cases.reading import GoldenSet
from evals.cases.relevance import (
    Relevance,
    evidence_urls,
    known_pages,
    labelled_ids,
    names_no_page,
    resolve,
    resolve_returned,
)
from evals.collect.observations import Observation
from evals.errors import DatasetError
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidates import Candidates, Chunks, laid_out
from retrievers.search.selection import decisive

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
T = TypeVar("T")
Find = Callable[[Sequence[int]], "Pool"]
"""From numbers of variants to what is found for some golden queries under them."""
# Items that one integer holds as bits.
BITS = 63


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Candidates of golden queries at full depth, from which every cell of every variant is scored.

    Attributes:
        cases: The golden queries.
        tables: Candidates by variant, rows as `cases`; all share their chunks.
        relevance: By variant, what is relevant to each query. It differs where chunks cannot be listed.
        texts: The texts of relevant chunks by chunk id; None where chunks cannot be listed, and what is relevant was
            looked for among those that were found.
        notes: By variant, what a reader of its results must know.
    """

    cases: tuple[Case, ...]
    tables: tuple[Candidates, ...]
    relevance: tuple[tuple[Relevance, ...], ...]
    texts: Mapping[str, str] | None = None
    notes: tuple[tuple[str, ...], ...] = ()
    _told: dict[str, dict[int, Any]] = field(default_factory=dict)

    @property
    def chunks(self) -> Chunks:
        """The chunks by their code."""
        return self.tables[0].chunks

    @cached_property
    def codes(self) -> list[int]:
        """The codes of the chunks that were found for any query, ascending."""
        codes = np.unique(np.concatenate([np.unique(table.codes) for table in self.tables]))
        return [*codes[codes >= 0].tolist()]

    @cached_property
    def codes_of(self) -> Mapping[str, list[int]]:
        """The codes of each chunk id: several, where points of a collection share an id."""
        codes: dict[str, list[int]] = {}
        for code in self.codes:
            codes.setdefault(self.chunks[code].chunk_id, []).append(code)
        return codes

    @cached_property
    def identity(self) -> Integers:
        """The first code with the same chunk id, by code; the last entry, −1, is that of no chunk."""
        identity = np.full(len(self.chunks) + 1, -1, dtype=np.int64)
        for codes in self.codes_of.values():
            identity[codes] = codes[0]
        return identity

    @property
    def found(self) -> Iterator[Chunk]:
        """The chunks that were found for any query, each once."""
        return (self.chunks[code] for code in self.codes)

    def carries(self, *fields: str) -> bool:
        """Return True if some found chunk has one of these fields, or nothing was found."""
        given = (getattr(chunk, name) for chunk in self.found for name in fields)
        return not self.codes or any(value not in (None, "", ()) for value in given)

    def tell(self, name: str, fact: Callable[[Chunk], Any], codes: Iterable[int]) -> Mapping[int, Any]:
        """Return a fact of each chunk by its code; compute each only once (cached by `name`).

        Args:
            name: Name of the fact.
            fact: Tells it.
            codes: The chunks.
        """
        told = self._told.setdefault(name, {})
        told.update((code, fact(self.chunks[code])) for code in codes if code not in told)
        return told

    def lists(self, variants: Sequence[int], start: int = 0, end: int | None = None) -> "Lists":
        """Return the candidates of some queries under some variants as arrays."""
        return Lists(self, tuple(variants), start, len(self.cases) if end is None else end)


class Lists:
    """Candidates of queries under variants: a list is one query under one variant, variant by variant.

    Attributes:
        pool: All candidates.
        variant: The variant of each list; shape (lists,).
        query: The query of each list among all; shape (lists,).
    """

    def __init__(self, pool: Pool, variants: tuple[int, ...], start: int, end: int) -> None:
        self.pool, self._variants, self._start, self._end = pool, variants, start, end
        self.variant = np.repeat(np.asarray(variants, dtype=np.int64), end - start)
        self.query = np.tile(np.arange(start, end), len(variants))

    def __len__(self) -> int:
        return len(self.query)

    def case(self, number: int) -> Case:
        """Return the golden query of a list."""
        return self.pool.cases[int(self.query[number])]

    @cached_property
    def relevance(self) -> list[Relevance]:
        """Relevance of each list's golden query."""
        return [each for variant in self._variants for each in self.pool.relevance[variant][self._start : self._end]]

    def by_case(self, tell: Callable[[Case], Any]) -> NDArray[Any]:
        """Return a fact of each list's golden query; shape (lists,)."""
        return np.asarray([tell(case) for case in self.pool.cases[self._start : self._end]] * len(self._variants))

    def of_table(self, name: str) -> list[Any]:
        """Return one of the facts of each search, such as `incomplete`, by list."""
        tables = [self.pool.tables[variant] for variant in self._variants]
        return [getattr(facts, name) for table in tables for facts in table.facts[self._start : self._end]]

    @cached_property
    def codes(self) -> Integers:
        """The chunk at each place by its code, −1 beyond the end; shape (lists, depth), of a depth of at least 1."""
        return self._stacked(lambda table: table.codes, -1)

    def column(self, name: str) -> Floats:
        """Return a component score at each place, NaN where there is none and beyond the end; shape (lists, depth)."""
        return self._stacked(lambda table: table.column(name), np.nan)

    def read_by_threshold(self, settings: RetrieverConfig) -> Floats:
        """Return each candidate's own score of the kind that a threshold reads, shape and gaps as of `column`."""
        return self._stacked(lambda table: decisive(table, settings), np.nan)

    def _stacked(self, matrix: Callable[[Candidates], NDArray[Any]], beyond: float) -> NDArray[Any]:
        of_variants = [matrix(self.pool.tables[variant])[self._start : self._end] for variant in self._variants]
        return laid_out([row for rows in of_variants for row in rows], beyond, least=1)

    @cached_property
    def grades(self) -> Integers:
        """The grade of the chunk at each place, 0 where it is not relevant and beyond the end."""
        return self.by_id([relevance.grades for relevance in self.relevance])

    @cached_property
    def relevant(self) -> Integers:
        """Number of relevant chunks, found or not, by list."""
        return np.asarray([len(relevance.grades) for relevance in self.relevance], dtype=np.int64)

    @cached_property
    def ideal(self) -> Integers:
        """The grades of all that is relevant, descending, 0 beyond the last; shape (lists, at least 3)."""
        rows = [sorted(relevance.grades.values(), reverse=True) for relevance in self.relevance]
        return laid_out(rows, 0, least=3)

    @cached_property
    def evidence(self) -> Integers:
        """The evidence items that the chunk at each place holds, as bits; shape (lists, depth, words)."""
        items = [relevance.items for relevance in self.relevance]
        words = -(-max(map(len, items), default=0) // BITS)
        return np.stack(
            [self.by_id([_bits(of_list, word * BITS) for of_list in items]) for word in range(max(1, words))], axis=2
        )

    def by_id(self, values: Sequence[Mapping[str, int]]) -> Integers:
        """Lay out what each list says of chunk ids, 0 where it says nothing; shape (lists, depth).

        A pair of list and chunk is one number, so that all candidates are looked up in a sorted array at once; no pair
        has that of a place beyond the end.
        """
        size, codes_of = len(self.pool.chunks) + 1, self.pool.codes_of
        pairs = [
            (row * size + code, value)
            for row, of_list in enumerate(values)
            for key, value in of_list.items()
            for code in codes_of.get(key, ())
        ]
        if not pairs:
            return np.zeros(self.codes.shape, dtype=np.int64)
        keys, held = np.asarray(sorted(pairs), dtype=np.int64).T
        asked = np.arange(len(self))[:, None] * size + self.codes
        at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where(keys[at] == asked, held[at], 0)

    @cached_property
    def repeat_ids(self) -> bool:
        """True if a list holds a chunk id twice."""
        ids = np.sort(self.pool.identity[self.codes], axis=1)
        return bool(((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any())

    def observation(self, number: int, places: Sequence[int]) -> Observation:
        """Return a list with the candidates at some places as its result."""
        candidates = self.pool.tables[self.variant[number]][int(self.query[number])]
        return Observation(
            case=self.case(number),
            relevance=self.relevance[number],
            candidates=candidates,
            selection=candidates.at(places),
        )


def _bits(items: Sequence[frozenset[str]], first: int) -> dict[str, int]:
    """Map chunk ids to the items that they hold, a bit each, of the items from one on."""
    held: dict[str, int] = {}
    for number, chunk_ids in enumerate(items[first : first + BITS]):
        for chunk_id in chunk_ids:
            held[chunk_id] = held.get(chunk_id, 0) | 1 << number
    return held


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """Relevant chunks of a collection: for each case, by its id; and the text of each by chunk id.

    Where the retriever's chunks cannot be listed, `texts` is None, and `relevance` empty, to be resolved in what it
    returns.
    """

    relevance: Mapping[str, Relevance]
    texts: Mapping[str, str] | None

    def among(self, cases: Sequence[Case], table: Candidates) -> Mapping[str, Relevance]:
        """Return the relevant chunks of each case, given its candidates.

        Raises:
            ExperimentError: Chunks that cannot be listed do not say where they are from.
        """
        if self.texts is not None:
            return self.relevance
        returned = {case.id: candidates.chunks for case, candidates in zip(cases, table, strict=True)}
        return resolve_returned(cases, returned)


def ground(golden: GoldenSet, retriever: Retriever) -> Grounds:
    """Find the chunks that golden queries call relevant. No query is embedded or searched for.

    Args:
        golden: Golden queries.
        retriever: Retriever whose chunks are listed.

    Raises:
        DatasetError: Evidence does not resolve; every fault is listed.
        StoreError: The collection cannot be read.
    """
    if retriever.info is None:
        return Grounds(relevance={}, texts=None)
    chunks = evidence_chunks(golden.cases, retriever)
    try:
        relevance = resolve(golden.cases, chunks, golden.places)
    except DatasetError as error:
        urls = evidence_urls(golden.cases)
        if not urls or any(chunk.source_url in urls for chunk in chunks):
            raise
        raise DatasetError(f"{error}\n{known_pages(urls, retriever.chunks())}") from None
    # Texts of other chunks are dropped: the evidence pages may hold most of a large collection.
    named = {chunk_id for item in relevance.values() for chunk_id in item.grades}
    return Grounds(relevance=relevance, texts={c.chunk_id: c.text for c in chunks if c.chunk_id in named})


def evidence_chunks(cases: Sequence[Case], retriever: Retriever) -> list[Chunk]:
    """Return the chunks in which the evidence of cases is looked for, and those that they name.

    Ids are of chunks, or else of points or documents: chunks without an id of their own have their point's.

    Raises:
        StoreError: The collection cannot be read.
    """
    urls, ids = evidence_urls(cases), labelled_ids(cases)
    # A quote without a page may be in any chunk, so all of them are read.
    everything = names_no_page(cases)
    chunks = retriever.chunks() if everything else retriever.chunks({"source_url": urls}) if urls else []
    named = list[Chunk]()
    for key in ("chunk_id", "point_id", "source_document_id"):
        rest = sorted({*ids} - {chunk.chunk_id for chunk in named})
        named += retriever.chunks({key: rest}) if rest else []
    return chunks + named
