"""Candidates of golden queries under every variant, as arrays, and the chunks that the golden data call relevant."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.cases.case import Case
from evals.cases.reading import GoldenSet
from evals.cases.relevance import (
    Relevance,
    evidence_urls,
    known_pages,
    labelled_ids,
    resolve,
    resolve_returned,
)
from evals.collect.observations import Observation
from evals.errors import DatasetError
from evals.stats.intervals import Bools, Floats, Integers
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidates import Candidates, Chunks, laid_out
from retrievers.search.selection import decisive

Find = Callable[[Sequence[int]], "Pool"]
"""Returns the candidates of some golden queries under the variants of given numbers."""
# Number of items that one integer holds as bits.
BITS = 63


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Candidates of golden queries at full depth, from which every cell of every variant is scored.

    Attributes:
        cases: The golden queries.
        tables: By variant, the candidates, one row a query, in the order of `cases`. All tables share their chunks.
        relevance: By variant, the relevance of each query. Variants differ if chunks cannot be listed.
        texts: The texts of relevant chunks by chunk id. None if chunks cannot be listed, and relevant ones were looked
            for among the candidates.
        notes: By variant, notes for the reader of its results.
    """

    cases: tuple[Case, ...]
    tables: tuple[Candidates, ...]
    relevance: tuple[tuple[Relevance, ...], ...]
    texts: Mapping[str, str] | None = None
    notes: tuple[tuple[str, ...], ...] = ()
    _facts: dict[str, dict[int, Any]] = field(default_factory=dict)

    @property
    def chunks(self) -> Chunks:
        """The chunks by their code."""
        return self.tables[0].chunks

    def under(self, numbers: Sequence[int]) -> "Pool":
        """Return the candidates under some of the variants, by their numbers."""
        columns = self.tables, self.relevance, self.notes
        tables, relevance, notes = zip(*(tuple(column[n] for column in columns) for n in numbers), strict=True)
        return replace(self, tables=tables, relevance=relevance, notes=notes)

    @cached_property
    def codes(self) -> list[int]:
        """The codes of the chunks that are a candidate of any query, ascending."""
        codes = np.unique(np.concatenate([np.unique(table.codes) for table in self.tables]))
        return [*codes[codes >= 0].tolist()]

    @cached_property
    def codes_of(self) -> Mapping[str, list[int]]:
        """The codes of each chunk id; several codes if points of the collection share an id."""
        codes: dict[str, list[int]] = {}
        for code in self.codes:
            codes.setdefault(self.chunks[code].chunk_id, []).append(code)
        return codes

    @cached_property
    def identity(self) -> Integers:
        """By code, the first code with the same chunk id. The last entry is −1, for the code −1 of no chunk."""
        identity = np.full(len(self.chunks) + 1, -1, dtype=np.int64)
        for codes in self.codes_of.values():
            identity[codes] = codes[0]
        return identity

    @property
    def found(self) -> Iterator[Chunk]:
        """The chunks that are a candidate of any query, each once."""
        return (self.chunks[code] for code in self.codes)

    def carries(self, *fields: str) -> bool:
        """Return True if some found chunk has one of these fields, or nothing was found."""
        values = (getattr(chunk, name) for chunk in self.found for name in fields)
        return not self.codes or any(value not in (None, "", ()) for value in values)

    def tell(self, name: str, fact: Callable[[Chunk], Any], codes: Iterable[int]) -> Mapping[int, Any]:
        """Return a fact of chunks by their codes; each is computed once and cached.

        Args:
            name: Name of the fact in the cache.
            fact: Computes the fact of a chunk.
            codes: Codes of the chunks.
        """
        facts = self._facts.setdefault(name, {})
        facts.update((code, fact(self.chunks[code])) for code in codes if code not in facts)
        return facts

    def lists(self, variants: Sequence[int], start: int = 0, end: int | None = None) -> "Lists":
        """Return the candidates of the queries from `start` to before `end` under some variants, as arrays."""
        return Lists(self, tuple(variants), start, len(self.cases) if end is None else end)


class Lists:
    """Candidates of queries under variants: a list is one query under one variant, variant by variant.

    Attributes:
        pool: All candidates.
        variant: Number of the variant of each list; shape (lists,).
        query: Number of the query of each list; shape (lists,).
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
        """The relevance of each list's golden query."""
        return [item for variant in self._variants for item in self.pool.relevance[variant][self._start : self._end]]

    def by_case(self, fact: Callable[[Case], Any]) -> NDArray[Any]:
        """Return a fact of each list's golden query; shape (lists,)."""
        return np.asarray([fact(case) for case in self.pool.cases[self._start : self._end]] * len(self._variants))

    def of_table(self, name: str) -> list[Any]:
        """Return a fact of each list's search, such as `incomplete`."""
        tables = [self.pool.tables[variant] for variant in self._variants]
        return [getattr(facts, name) for table in tables for facts in table.facts[self._start : self._end]]

    @cached_property
    def codes(self) -> Integers:
        """The code of the chunk at each place, −1 beyond the end; shape (lists, depth), depth at least 1."""
        return self._stack(lambda table: table.codes, -1)

    def column(self, name: str) -> Floats:
        """Return a component score at each place, NaN for none and beyond the end; shape (lists, depth)."""
        return self._stack(lambda table: table.column(name), np.nan)

    def read_by_threshold(self, settings: RetrieverConfig) -> Floats:
        """Return the score at each place that a threshold reads; shape (lists, depth) and NaN as in `column`."""
        return self._stack(lambda table: decisive(table, settings), np.nan)

    def _stack(self, matrix: Callable[[Candidates], NDArray[Any]], beyond: float) -> NDArray[Any]:
        """Return the rows of a matrix of each table, in the order of the lists; `beyond` fills shorter ones."""
        matrices = [matrix(self.pool.tables[variant])[self._start : self._end] for variant in self._variants]
        return laid_out([row for rows in matrices for row in rows], beyond, least=1)

    @cached_property
    def grades(self) -> Integers:
        """The grade of the chunk at each place, 0 if it is not relevant and beyond the end; shape (lists, depth)."""
        return self.by_id([relevance.grades for relevance in self.relevance])

    @cached_property
    def relevant(self) -> Integers:
        """Number of relevant chunks of each list's query, found or not; shape (lists,)."""
        return np.asarray([len(relevance.grades) for relevance in self.relevance], dtype=np.int64)

    @cached_property
    def ideal(self) -> Integers:
        """The grades of all relevant chunks, descending, 0 beyond the last; shape (lists, at least 3)."""
        rows = [sorted(relevance.grades.values(), reverse=True) for relevance in self.relevance]
        return laid_out(rows, 0, least=3)

    @cached_property
    def evidence(self) -> Integers:
        """The evidence items that the chunk at each place holds, as bits; shape (lists, depth, words)."""
        items = [relevance.items for relevance in self.relevance]
        words = max(1, -(-max(map(len, items), default=0) // BITS))
        return np.stack([self.by_id([_bits(row, word * BITS) for row in items]) for word in range(words)], axis=2)

    def by_id(self, values: Sequence[Mapping[str, int]]) -> Integers:
        """Return the value of the chunk id at each place, 0 for none; shape (lists, depth).

        Args:
            values: For each list, values by chunk id.
        """
        # A pair of list and chunk is one key, so that all candidates are looked up in a sorted array at once. A place
        # beyond the end has the key of no pair.
        size, codes_of = len(self.pool.chunks) + 1, self.pool.codes_of
        pairs = [
            (row * size + code, value)
            for row, of_list in enumerate(values)
            for key, value in of_list.items()
            for code in codes_of.get(key, ())
        ]
        if not pairs:
            return np.zeros(self.codes.shape, dtype=np.int64)
        keys, value_of = np.asarray(sorted(pairs), dtype=np.int64).T
        wanted = np.arange(len(self))[:, None] * size + self.codes
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, value_of[places], 0)

    @cached_property
    def repeat_ids(self) -> bool:
        """True if a list holds a chunk id twice."""
        return bool(repeated(self.pool.identity[self.codes]).any())

    def observation(self, number: int, places: Sequence[int]) -> Observation:
        """Return a list as an observation, with the candidates at some places as its result."""
        candidates = self.pool.tables[self.variant[number]][int(self.query[number])]
        return Observation(
            case=self.case(number),
            relevance=self.relevance[number],
            candidates=candidates,
            selection=candidates.at(places),
        )


def repeated(numbers: Integers) -> Bools:
    """Return whether an earlier place of the row has the same number, in the shape of `numbers`; −1 repeats nothing."""
    order = np.argsort(numbers, axis=-1, kind="stable")
    ordered = np.take_along_axis(numbers, order, axis=-1)
    again = np.zeros(numbers.shape, dtype=np.bool_)
    np.put_along_axis(again, order[..., 1:], ordered[..., 1:] == ordered[..., :-1], axis=-1)
    return again & (numbers >= 0)


def _bits(items: Sequence[frozenset[str]], first: int) -> dict[str, int]:
    """Return by chunk id the items that the chunk holds, as bits; only the `BITS` items from `first` on."""
    held: dict[str, int] = {}
    for number, chunk_ids in enumerate(items[first : first + BITS]):
        for chunk_id in chunk_ids:
            held[chunk_id] = held.get(chunk_id, 0) | 1 << number
    return held


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """Relevant chunks of a collection.

    Attributes:
        relevance: Case id to relevance; empty if the retriever's chunks cannot be listed.
        texts: Chunk id to text, for the relevant chunks; None if the retriever's chunks cannot be listed. Relevance is
            then looked for among the candidates.
    """

    relevance: Mapping[str, Relevance]
    texts: Mapping[str, str] | None

    def among(self, cases: Sequence[Case], table: Candidates) -> Mapping[str, Relevance]:
        """Return the relevance of each case by its id, given the candidates.

        Args:
            cases: Golden queries.
            table: Their candidates, in the same order.

        Raises:
            ExperimentError: The chunks cannot be listed, and do not say which page they are from.
        """
        if self.texts is not None:
            return self.relevance
        returned = {case.id: candidates.chunks for case, candidates in zip(cases, table, strict=True)}
        return resolve_returned(cases, returned)


def ground(golden: GoldenSet, retriever: Retriever) -> Grounds:
    """Find the chunks that golden queries call relevant. No query is embedded or searched for.

    Args:
        golden: Golden queries.
        retriever: The retriever whose chunks are listed.

    Raises:
        DatasetError: Evidence does not resolve to chunks. The message lists every fault.
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
    # Texts of other chunks are dropped: pages with evidence may hold most of a large collection.
    relevant = {chunk_id for item in relevance.values() for chunk_id in item.grades}
    return Grounds(relevance=relevance, texts={c.chunk_id: c.text for c in chunks if c.chunk_id in relevant})


def evidence_chunks(cases: Sequence[Case], retriever: Retriever) -> list[Chunk]:
    """Return the chunks in which the evidence of cases is looked for, and the chunks that `relevant_ids` name.

    An id is that of a chunk, or else of a point or a document. A chunk without an id has the id of its point.

    Raises:
        StoreError: The collection cannot be read.
    """
    urls, ids = evidence_urls(cases), labelled_ids(cases)
    # A quote without a page may be in any chunk.
    if any(item.source_url is None for case in cases for item in case.evidence):
        chunks = retriever.chunks()
    else:
        chunks = retriever.chunks({"source_url": urls}) if urls else []
    labelled = list[Chunk]()
    for key in ("chunk_id", "point_id", "source_document_id"):
        rest = sorted({*ids} - {chunk.chunk_id for chunk in labelled})
        labelled += retriever.chunks({key: rest}) if rest else []
    return chunks + labelled
