"""Results as rows × ranks, the facts that metrics read of them, and what a metric says of each row.

A result is a golden query and the candidates that a cell keeps for it. A metric is a function over all rows at once; a
cell's score is then a lookup. What costs time is told once: a fact of a chunk once a chunk, a fact of a query and a
chunk once a pair, however many rows hold it.
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
from evals.collect.pool import BITS, Bools, Floats, Integers, Lists
from retrievers.embedding.tokens import count_tokens
from retrievers.records import Chunk

NO_CHUNKS = Unscored(reason="nothing was returned")
Issue = Unscored | Failure
T = TypeVar("T")


class Results:
    """Results of golden queries, as rows.

    Attributes:
        lists: The candidates.
        list_of: The list of each row; shape (rows,).
        places: Its places among the candidates of that list, from 0, in rank order, −1 beyond the last; (rows, ranks).
    """

    def __init__(self, lists: Lists, list_of: Integers, places: Integers) -> None:
        self.lists, self.list_of, self.places = lists, list_of, places
        self._once: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.list_of)

    def at(self, rows: Integers) -> "Results":
        """Return some rows."""
        return Results(self.lists, self.list_of[rows], self.places[rows])

    def of(self, scope: str, *, labelled: bool) -> "tuple[Integers, Results]":
        """Return the rows whose query is of a scope, by their numbers and as results of their own.

        Args:
            scope: `in_scope`, `out_of_scope` or `all`.
            labelled: True to leave out queries in scope without labels.
        """

        def belongs(case: Case) -> bool:
            of_scope = scope == "all" or case.in_scope == (scope == "in_scope")
            return of_scope and not (labelled and case.is_unlabelled)

        name = f"{scope}, labelled" if labelled else scope
        rows = self.once(name, lambda: np.flatnonzero(self.by_case(belongs)))
        # Not kept where they are all: what holds itself stays in memory until garbage is collected.
        return rows, self if len(rows) == len(self) else self.once(f"rows {name}", lambda: self.at(rows))

    def observations(self) -> Iterator[Observation]:
        """Yield the rows as observations."""
        for number, places, length in zip(self.list_of.tolist(), self.places, self.lengths.tolist(), strict=True):
            yield self.lists.observation(number, places[:length].tolist())

    def once(self, name: str, tell: Callable[[], T]) -> T:
        """Return a cached value that several metrics share; compute it with `tell` at the first call."""
        if name not in self._once:
            self._once[name] = tell()
        value: T = self._once[name]
        return value

    # What is known of rows and ranks: arrays, of shape (rows,) or (rows, ranks).

    @cached_property
    def query(self) -> Integers:
        """The query of each row, by its place among all."""
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
        """The chunk at each rank by its code, −1 beyond the end."""
        return self.laid_out(self.lists.codes, -1)

    @cached_property
    def grades(self) -> Integers:
        """The grade of the chunk at each rank, 0 where it is not relevant."""
        return self.laid_out(self.lists.grades, 0)

    @cached_property
    def tokens(self) -> Floats:
        """Tokens of the chunk at each rank, as its metadata say or else counted; 0 beyond the end."""
        counts, _ = self.by_chunk("tokens", lambda chunk: chunk.chunk_token_count or count_tokens(chunk.text))
        return np.nan_to_num(counts)

    @cached_property
    def relevant(self) -> Integers:
        """Number of relevant chunks of each row's query, found or not."""
        return self.lists.relevant[self.list_of]

    @cached_property
    def ideal(self) -> Integers:
        """The grades of all that is relevant to each row's query, descending; shape (rows, at least 3)."""
        return self.lists.ideal[self.list_of]

    @cached_property
    def candidates(self) -> "Results":
        """All candidates of each list as a row."""
        return every_candidate(self.lists)

    @property
    def ranked(self) -> "Results":
        """The same rows with each chunk id at its first place alone, as measures of ranking read them."""
        return self._unrepeated if self.lists.repeat_ids else self

    @cached_property
    def _unrepeated(self) -> "Results":
        kept = self.found & ~self.repeats(self.lists.pool.identity[self.codes])
        order = np.argsort(~kept, axis=1, kind="stable")
        places = np.take_along_axis(np.where(kept, self.places, -1), order, axis=1)
        return Results(self.lists, self.list_of, places)

    def laid_out(self, values: NDArray[Any], beyond: float) -> NDArray[Any]:
        """Lay values of candidates (lists, depth, …) out by rank.

        Args:
            values: The values.
            beyond: Value beyond the end of a row.
        """
        taken = values[self.list_of[:, None], self.places]
        taken[~self.found] = beyond
        return taken

    def by_case(self, tell: Callable[[Case], Any]) -> NDArray[Any]:
        """Return a fact of each row's golden query."""
        return self.lists.by_case(tell)[self.list_of]

    def of_table(self, name: str) -> list[Any]:
        """Return a fact of each row's search, such as `incomplete`."""
        of_lists = self.lists.of_table(name)
        return [of_lists[number] for number in self.list_of.tolist()]

    # What is told of chunks: once a chunk, or once a pair of query and chunk.

    @cached_property
    def distinct(self) -> tuple[list[int], Integers]:
        """The codes of the chunks that these rows hold, and which of them is at each rank, −1 beyond the end."""
        codes = np.unique(self.codes[self.found])
        return codes.tolist(), np.where(self.found, np.searchsorted(codes, self.codes), -1)

    def by_chunk(self, name: str, fact: Callable[[Chunk], float]) -> "tuple[Floats, Values]":
        """Lay a fact of chunks out by rank; see `by_rank`. A source page that cannot be read is a failure.

        Args:
            name: Name of the fact, which is told once a chunk.
            fact: Tells it.
        """

        def told(chunk: Chunk) -> Score:
            try:
                return fact(chunk)
            except SourcePageError as error:
                return Failure(type="SourcePageError", message=f"source page {error}")

        codes, places = self.distinct
        facts = self.lists.pool.tell(name, told, codes)
        return self.by_rank([facts[code] for code in codes], places)

    def by_key(self, name: str, key: Callable[[Chunk], Hashable]) -> Integers:
        """Number the chunk at each rank by a key, −1 beyond the end: chunks of one key have one number."""
        codes, places = self.distinct
        keys, numbers = self.lists.pool.tell(name, key, codes), dict[Hashable, int]()
        return np.asarray([*(numbers.setdefault(keys[code], len(numbers)) for code in codes), -1])[places]

    def pairs(self, tell: Callable[[int, list[Chunk]], Iterable[Any]]) -> tuple[list[Any], Integers]:
        """Tell something of every distinct pair of query and chunk.

        Args:
            tell: Gets the number of a list of the query, and its chunks; returns an answer for each.

        Returns:
            The answers; and which of them is that of each rank, shape (rows, ranks), −1 beyond the end.
        """
        pool, queries, answers = self.lists.pool, self.query, list[Any]()
        size, number = len(pool.chunks) + 1, dict(zip(queries.tolist(), self.list_of.tolist(), strict=True))
        keys, which = np.unique((queries[:, None] * size + self.codes)[self.found], return_inverse=True)
        for query, of_query in groupby(keys.tolist(), lambda key: key // size):
            answers += tell(number[query], [pool.chunks[key % size] for key in of_query])
        places = np.full(self.places.shape, -1, dtype=np.int64)
        places[self.found] = which.ravel()
        return answers, places

    def by_pair(self, tell: Callable[[int, list[Chunk]], Iterable[Score]]) -> "tuple[Floats, Values]":
        """Lay a fact of pairs of query and chunk out by rank; see `by_rank`."""
        return self.by_rank(*self.pairs(tell))

    def by_rank(self, scores: Sequence[Score], places: Integers) -> "tuple[Floats, Values]":
        """Return scores by rank, NaN where there is none; and which rows lack one, for the reason of the first."""
        joined = Values.joined([*scores, np.nan])
        issue = joined.issue[places]
        first = issue[np.arange(len(self)), (issue >= 0).argmax(axis=1)]
        return joined.values[places], Values(values=np.full(len(self), np.nan), issue=first, issues=joined.issues)

    def items(self, tell: Callable[[int, list[Chunk]], Iterable[Collection[int]]], most: int) -> Integers:
        """Return which numbered items the chunk at each rank holds, as bit sets, shape (rows, ranks, words).

        Items are evidence or topics; 0 beyond the end.

        Args:
            tell: Returns the numbers of the items that each chunk of a query holds.
            most: Number of items of the query that has most.
        """
        answers, places = self.pairs(tell)
        return as_bits(answers, most)[places]

    # Helpers that several metrics share.

    def repeats(self, *keys: Integers) -> Bools:
        """Return whether the chunk at each rank has a key of an earlier one, by any of the numberings."""
        repeated = np.zeros(self.places.shape, dtype=np.bool_)
        for rank in range(1, self.places.shape[1]):
            for key in keys:
                repeated[:, rank] |= (key[:, :rank] == key[:, [rank]]).any(axis=1)
        return repeated & self.found

    def share_covered(self, held: Integers, counts: Integers, k: int | None = None) -> Floats:
        """Return the share of items that the first k chunks hold, NaN for no item.

        Args:
            held: The items at each rank as bits; shape (rows, ranks, words).
            counts: Number of items of each row's query.
            k: Depth; all ranks when left out.
        """
        joined = np.bitwise_or.reduce(held[:, :k], axis=1)
        return np.where(counts > 0, np.bitwise_count(joined).sum(axis=1) / np.maximum(counts, 1), np.nan)

    def mean_of_chunks(
        self, name: str, fact: Callable[[Chunk], float], *reasons: "tuple[Any, Issue]", none: Issue = NO_CHUNKS
    ) -> "Values":
        """Return the mean of a fact over the chunks that have it.

        Args:
            name: Name of the fact, which is told once a chunk.
            fact: Tells it, NaN for a chunk that has none.
            reasons: As in `Values.of`; nothing returned is unscored, and an unreadable page a failure.
            none: Reason where no chunk has it.
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
    """Return numbers of items as bits, and a last row of none; shape (rows + 1, words).

    Args:
        held: The items of each row.
        most: Number of all items.
    """
    words = np.zeros((len(held) + 1, max(1, -(-most // BITS))), dtype=np.int64)
    for row, items in enumerate(held):
        for item in items:
            words[row, item // BITS] |= 1 << item % BITS
    return words


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """The scores of rows by a metric, and why some have none.

    Attributes:
        values: Shape (rows,), NaN where there is no score.
        issue: Which of `issues` is the reason, −1 where there is a score or the row is of another scope.
        issues: The reasons.
    """

    values: Floats
    issue: Integers
    issues: tuple[Issue, ...] = ()

    @classmethod
    def of(cls, values: Floats, *reasons: "tuple[Any, Issue] | Values") -> "Values":
        """Return values with reasons in place of some of them.

        Args:
            values: Shape (rows,).
            reasons: Which rows, as a mask or a truth value for all, with the reason; or values whose issues count. The
                first that holds counts.
        """
        issue, issues = np.full(len(values), -1, dtype=np.int64), tuple[Issue, ...]()
        for reason in reasons:
            if isinstance(reason, Values):
                own, named = reason.issue, reason.issues
            else:
                own, named = np.where(reason[0], 0, -1), (reason[1],)
            issue = np.where((issue < 0) & (own >= 0), own + len(issues), issue)
            issues += named
        return cls(values=np.where(issue < 0, values, np.nan), issue=issue, issues=issues)

    @classmethod
    def joined(cls, scores: Sequence[Score]) -> "Values":
        """Return scores as values."""
        numbers: dict[Issue, int] = {}
        issue = [-1 if isinstance(s, float | int) else numbers.setdefault(s, len(numbers)) for s in scores]
        values = np.asarray([s if isinstance(s, float | int) else np.nan for s in scores], dtype=float)
        return cls(values=values, issue=np.asarray(issue, dtype=np.int64), issues=tuple(numbers))

    def __getitem__(self, row: int) -> Score:
        """Return the score of a row, or why there is none."""
        return float(self.values[row]) if self.issue[row] < 0 else self.issues[int(self.issue[row])]

    def at(self, rows: Integers) -> "Values":
        """Return the values of some rows."""
        return Values(values=self.values[rows], issue=self.issue[rows], issues=self.issues)

    def within(self, rows: Integers, count: int) -> "Values":
        """Return these as the values of some rows out of more, of which the others have neither value nor reason."""
        values, issue = np.full(count, np.nan), np.full(count, -1, dtype=np.int64)
        values[rows], issue[rows] = self.values, self.issue
        return Values(values=values, issue=issue, issues=self.issues)
