"""Results as rows × ranks, the facts that metrics read of them, and the scores that a metric gives to rows.

A result is a golden query and the candidates that a cell keeps for it. A metric is a function over all rows at once, so
that the score of a cell is a lookup. What takes time is computed once, however many rows hold it: a fact of a chunk
once for each chunk, a fact of a query and a chunk once for each pair.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.cases.case import Case
from evals.cases.pages import SourcePageError
from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.collect.pool import BITS, Lists, repeated
from evals.stats.intervals import Bools, Floats, Integers
from retrievers.embedding.tokens import count_tokens
from retrievers.records import Chunk

NO_CHUNKS = Unscored(reason="nothing was returned")
Issue = Unscored | Failure
T = TypeVar("T")


class Results:
    """Results of golden queries, as rows.

    Attributes:
        lists: The candidates.
        list_of: The list from which each row takes its candidates; shape (rows,).
        places: The places of the kept candidates in that list, from 0, in rank order, −1 beyond the last; shape (rows,
            ranks).
    """

    def __init__(self, lists: Lists, list_of: Integers, places: Integers) -> None:
        self.lists, self.list_of, self.places = lists, list_of, places
        self._cache: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.list_of)

    def at(self, rows: Integers) -> "Results":
        """Return some rows as results of their own."""
        return Results(self.lists, self.list_of[rows], self.places[rows])

    def of(self, scope: str, *, labelled: bool) -> "tuple[Integers, Results]":
        """Return the rows whose query is of a scope: their numbers, and the rows as results of their own.

        Args:
            scope: `in_scope`, `out_of_scope` or `all`.
            labelled: True to leave out in-scope queries without labels.
        """

        def is_asked(case: Case) -> bool:
            return case.is_of(scope) and not (labelled and case.is_unlabelled)

        name = f"{scope}, labelled" if labelled else scope
        rows = self.once(name, lambda: np.flatnonzero(self.by_case(is_asked)))
        # All rows are the results themselves, which are not cached: a cycle stays in memory until garbage is collected.
        return rows, self if len(rows) == len(self) else self.once(f"rows {name}", lambda: self.at(rows))

    def observations(self) -> Iterator[Observation]:
        """Yield the rows as observations."""
        for number, places, length in zip(self.list_of.tolist(), self.places, self.lengths.tolist(), strict=True):
            yield self.lists.observation(number, places[:length].tolist())

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a value that several metrics share; compute it at the first call and cache it by name."""
        if name not in self._cache:
            self._cache[name] = compute()
        value: T = self._cache[name]
        return value

    # Facts of rows, shape (rows,), and of ranks, shape (rows, ranks)

    @cached_property
    def query(self) -> Integers:
        """The number of each row's query."""
        return self.lists.query[self.list_of]

    @cached_property
    def found(self) -> Bools:
        """True where there is a chunk at the rank; shape (rows, ranks)."""
        return self.places >= 0

    @cached_property
    def lengths(self) -> Integers:
        """Number of chunks of each row."""
        return np.asarray(self.found.sum(axis=1), dtype=np.int64)

    @cached_property
    def codes(self) -> Integers:
        """The code of the chunk at each rank, −1 beyond the end."""
        return self.laid_out(self.lists.codes, -1)

    @cached_property
    def grades(self) -> Integers:
        """The grade of the chunk at each rank, 0 if it is not relevant, and beyond the end."""
        return self.laid_out(self.lists.grades, 0)

    @cached_property
    def tokens(self) -> Floats:
        """Number of tokens of the chunk at each rank, of the metadata or else counted; 0 beyond the end."""
        counts, _ = self.by_chunk("tokens", lambda chunk: chunk.chunk_token_count or count_tokens(chunk.text))
        return np.nan_to_num(counts)

    @cached_property
    def relevant(self) -> Integers:
        """Number of relevant chunks of each row's query, found or not."""
        return self.lists.relevant[self.list_of]

    @cached_property
    def ideal(self) -> Integers:
        """The grades of all chunks that are relevant to each row's query, descending; shape (rows, at least 3)."""
        return self.lists.ideal[self.list_of]

    @cached_property
    def candidates(self) -> "Results":
        """All candidates of each list as a row: results as long as the lists, in their order."""
        return every_candidate(self.lists)

    @property
    def ranked(self) -> "Results":
        """The same rows with repeated chunk ids left out, as measures of ranking read them."""
        return self._without_repeats if self.lists.repeat_ids else self

    @cached_property
    def _without_repeats(self) -> "Results":
        is_first = self.found & ~repeated(self.lists.pool.identity[self.codes])
        order = np.argsort(~is_first, axis=1, kind="stable")
        places = np.take_along_axis(np.where(is_first, self.places, -1), order, axis=1)
        return Results(self.lists, self.list_of, places)

    def laid_out(self, values: NDArray[Any], beyond: float) -> NDArray[Any]:
        """Lay values of candidates out by rank, shape (rows, ranks, …).

        Args:
            values: The values; shape (lists, depth, …).
            beyond: The value beyond the end of a row.
        """
        by_rank = values[self.list_of[:, None], self.places]
        by_rank[~self.found] = beyond
        return by_rank

    def by_case(self, fact: Callable[[Case], Any]) -> NDArray[Any]:
        """Return a fact of each row's golden query."""
        return self.lists.by_case(fact)[self.list_of]

    def of_table(self, name: str) -> list[Any]:
        """Return a fact of each row's search, such as `incomplete`."""
        facts = self.lists.of_table(name)
        return [facts[number] for number in self.list_of.tolist()]

    # Facts of chunks, computed once for each chunk, or once for each pair of query and chunk

    @cached_property
    def distinct(self) -> tuple[list[int], Integers]:
        """The codes of the chunks in these rows; and the place among them of the chunk at each rank, −1 for none."""
        codes = np.unique(self.codes[self.found])
        return codes.tolist(), np.where(self.found, np.searchsorted(codes, self.codes), -1)

    def by_chunk(self, name: str, fact: Callable[[Chunk], float]) -> "tuple[Floats, Values]":
        """Return a fact of the chunk at each rank; see `by_rank`.

        Args:
            name: Name of the fact, under which the pool caches it.
            fact: Computes the fact. A source page that it cannot read is a failure.
        """

        def score(chunk: Chunk) -> Score:
            try:
                return fact(chunk)
            except SourcePageError as error:
                return Failure(failed=f"SourcePageError: source page {error}")

        codes, places = self.distinct
        scores = self.lists.pool.tell(name, score, codes)
        return self.by_rank([scores[code] for code in codes], places)

    def by_key(self, name: str, key: Callable[[Chunk], Hashable]) -> Integers:
        """Return a number for the chunk at each rank, −1 beyond the end. Chunks with equal keys have equal numbers."""
        codes, places = self.distinct
        keys, numbers = self.lists.pool.tell(name, key, codes), dict[Hashable, int]()
        return np.asarray([*(numbers.setdefault(keys[code], len(numbers)) for code in codes), -1])[places]

    def pairs(self, facts: Callable[[int, list[Chunk]], Iterable[Any]]) -> tuple[list[Any], Integers]:
        """Compute a fact of every distinct pair of query and chunk.

        Args:
            facts: Gets the number of a list of the query, and chunks of the query. Returns the fact of each chunk.

        Returns:
            The facts; and the place in that list of the fact of each rank, shape (rows, ranks), −1 beyond the end.
        """
        pool, values = self.lists.pool, list[Any]()
        list_of_query = dict(zip(self.query.tolist(), self.list_of.tolist(), strict=True))
        # A pair of query and chunk is one number.
        size = len(pool.chunks) + 1
        keys, which = np.unique((self.query[:, None] * size + self.codes)[self.found], return_inverse=True)
        for query, of_query in groupby(keys.tolist(), lambda key: key // size):
            values += facts(list_of_query[query], [pool.chunks[key % size] for key in of_query])
        places = np.full(self.places.shape, -1, dtype=np.int64)
        places[self.found] = which.ravel()
        return values, places

    def by_pair(self, scores: Callable[[int, list[Chunk]], Iterable[Score]]) -> "tuple[Floats, Values]":
        """Return a score of the query and the chunk at each rank; see `pairs` and `by_rank`."""
        return self.by_rank(*self.pairs(scores))

    def by_rank(self, scores: Sequence[Score], places: Integers) -> "tuple[Floats, Values]":
        """Return the scores at `places` as numbers, NaN for none, and for each row the first reason for none."""
        joined = Values.joined([*scores, np.nan])
        issue = joined.issue[places]
        first = issue[np.arange(len(self)), (issue >= 0).argmax(axis=1)]
        return joined.values[places], Values(values=np.full(len(self), np.nan), issue=first, issues=joined.issues)

    def items(self, held: Callable[[int, list[Chunk]], Iterable[Collection[int]]], most: int) -> Integers:
        """Return the items of the query that the chunk at each rank holds, as bits; shape (rows, ranks, words).

        An item is a topic, a section or a word. Beyond the end no bit is set.

        Args:
            held: Returns the numbers of the items that each chunk of a query holds; see `pairs`.
            most: Largest number of items of a query.
        """
        numbers, places = self.pairs(held)
        return as_bits(numbers, most)[places]

    # Scores that several metrics share

    def share_covered(self, held: Integers, counts: Integers, k: int | None = None) -> Floats:
        """Return the share of the query's items that the first k chunks hold, 0 to 1; NaN for a query without items.

        Args:
            held: The items that the chunk at each rank holds, as bits; shape (rows, ranks, words).
            counts: Number of items of each row's query.
            k: Depth; all ranks when left out.
        """
        joined = np.bitwise_or.reduce(held[:, :k], axis=1)
        return np.where(counts > 0, np.bitwise_count(joined).sum(axis=1) / np.maximum(counts, 1), np.nan)

    def mean_of_chunks(
        self, name: str, fact: Callable[[Chunk], float], *reasons: "tuple[Any, Issue]", none: Issue = NO_CHUNKS
    ) -> "Values":
        """Return the mean of a fact over the chunks that have it.

        A row without chunks is unscored. A row with a source page that cannot be read is a failure.

        Args:
            name: Name of the fact, under which the pool caches it.
            fact: Computes the fact; NaN for a chunk that has none.
            reasons: Further reasons for no score, as in `Values.of`. They come first.
            none: Reason if no chunk has the fact.
        """
        values, failed = self.by_chunk(name, fact)
        count = (~np.isnan(values)).sum(axis=1)
        means = np.nan_to_num(values).sum(axis=1) / np.maximum(count, 1)
        return Values.of(means, *reasons, (self.lengths == 0, NO_CHUNKS), failed, (count == 0, none))


def every_candidate(lists: Lists) -> Results:
    """Return all candidates of each list as a row."""
    codes = lists.codes
    return Results(lists, np.arange(len(codes)), np.where(codes >= 0, np.arange(codes.shape[1]), -1))


def as_bits(held: Sequence[Collection[int]], most: int) -> Integers:
    """Return sets of items as bits, and a last row without items; shape (rows + 1, words).

    Args:
        held: The numbers of each row's items, from 0.
        most: Number of all items.
    """
    words = np.zeros((len(held) + 1, max(1, -(-most // BITS))), dtype=np.int64)
    for row, items in enumerate(held):
        for item in items:
            words[row, item // BITS] |= 1 << item % BITS
    return words


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """The scores that a metric gives to rows, with the reason for each missing score.

    Attributes:
        values: The scores; shape (rows,), NaN where there is none.
        issue: The place of the reason in `issues`; shape (rows,). It is −1 where there is a score, and where the row is
            of another scope.
        issues: The reasons.
    """

    values: Floats
    issue: Integers
    issues: tuple[Issue, ...] = ()

    @classmethod
    def of(cls, values: Floats, *reasons: "tuple[Any, Issue] | Values") -> "Values":
        """Return scores with reasons in place of some of them.

        Args:
            values: The scores; shape (rows,).
            reasons: A mask of rows, or a truth value for all rows, with their reason; or values, whose reasons are
                taken over. Of several reasons for a row the first counts.
        """
        issue, issues = np.full(len(values), -1, dtype=np.int64), tuple[Issue, ...]()
        for reason in reasons:
            if isinstance(reason, Values):
                places, more = reason.issue, reason.issues
            else:
                places, more = np.where(reason[0], 0, -1), (reason[1],)
            issue = np.where((issue < 0) & (places >= 0), places + len(issues), issue)
            issues += more
        return cls(values=np.where(issue < 0, values, np.nan), issue=issue, issues=issues)

    @classmethod
    def joined(cls, scores: Sequence[Score]) -> "Values":
        """Return scores, or the reasons for none, as values; equal reasons are one."""
        numbers: dict[Issue, int] = {}
        issue = [-1 if isinstance(s, float | int) else numbers.setdefault(s, len(numbers)) for s in scores]
        values = np.asarray([s if isinstance(s, float | int) else np.nan for s in scores], dtype=float)
        return cls(values=values, issue=np.asarray(issue, dtype=np.int64), issues=tuple(numbers))

    def __getitem__(self, row: int) -> Score:
        """Return the score of a row, or the reason for none."""
        return float(self.values[row]) if self.issue[row] < 0 else self.issues[int(self.issue[row])]

    def at(self, rows: Integers) -> "Values":
        """Return the values of some rows."""
        return Values(values=self.values[rows], issue=self.issue[rows], issues=self.issues)

    def within(self, rows: Integers, count: int) -> "Values":
        """Return these as the values of some rows among `count`; the other rows have neither a value nor a reason."""
        values, issue = np.full(count, np.nan), np.full(count, -1, dtype=np.int64)
        values[rows], issue[rows] = self.values, self.issue
        return Values(values=values, issue=issue, issues=self.issues)
