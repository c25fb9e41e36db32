"""Candidates × (threshold, top_k) → selections, as arrays: which chunks each cell keeps of each query. Pure.

Where candidates stand in the order of the score that the threshold reads, a cell keeps a beginning of them. Elsewhere
(MMR, reranking, hybrid under a cosine threshold) each threshold leaves a list of its own, and a cell keeps a beginning
of that. So a selection is a list and a length, and everything about it follows from these two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BLOCK = 4_000_000
"""Selections that are looked up at once: 32 MB of indices."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Candidates of every query as arrays; rows are queries.

    Attributes:
        scores: Scores that the threshold reads, by candidate, −∞ beyond the last; shape (queries, depth).
        groups: Which group each candidate is of, numbered within its query; None where results are not grouped.
    """

    scores: Floats
    groups: Integers | None = None


@dataclass(frozen=True, kw_only=True)
class Selections:
    """The selections of every query under every threshold and `top_k`.

    Attributes:
        query: The query of each list; shape (lists,).
        members: The candidates of each list by their place among all (from 0), −1 beyond its end; (lists, longest).
        list_of: The list that a threshold leaves of a query; shape (thresholds, queries).
        reach: Number of candidates of that list that reach the threshold; shape (thresholds, queries).
        top_ks: The cuts.
    """

    query: NDArray[np.int32]
    members: NDArray[np.int32]
    list_of: NDArray[np.int32]
    reach: NDArray[np.int32]
    top_ks: tuple[int, ...]

    @property
    def width(self) -> int:
        """Possible lengths of a selection: from 0 to the longest list."""
        return int(self.members.shape[1]) + 1

    @property
    def count(self) -> int:
        """Possible selections: a list and a length each. Selection i is list i // width, length i % width."""
        return len(self.query) * self.width

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.list_of.shape[1])

    @property
    def cells(self) -> int:
        """How many cells there are: thresholds × cuts, cuts changing fastest."""
        return len(self.list_of) * len(self.top_ks)

    def of_cell(self, cell: int) -> Integers:
        """Return the selection of every query in one cell, by number."""
        threshold, cut = divmod(cell, len(self.top_ks))
        lengths = np.minimum(self.top_ks[cut], self.reach[threshold]).astype(np.int64)
        numbers: Integers = self.list_of[threshold].astype(np.int64) * self.width + lengths
        return numbers

    def places(self, number: int) -> list[int]:
        """Return the candidates of a selection by their place among all (from 0), in their order."""
        row, length = divmod(number, self.width)
        indexes: list[int] = self.members[row, :length].tolist()
        return indexes

    def blocks(self) -> Iterator[tuple[slice, Integers]]:
        """Yield the selection of every (cell, query) by its number, some cells at a time; (cells, queries)."""
        queries = max(1, self.queries)
        cut_step = min(len(self.top_ks), max(1, BLOCK // queries))
        step = max(1, BLOCK // (queries * len(self.top_ks)))
        cuts = np.asarray(self.top_ks, dtype=np.int64)[None, :, None]
        for first in range(0, len(self.list_of), step):
            lists = self.list_of[first : first + step, None, :].astype(np.int64) * self.width
            reach = self.reach[first : first + step, None, :]
            for cut in range(0, len(self.top_ks), cut_step):
                numbers = np.minimum(cuts[:, cut : cut + cut_step], reach)
                numbers += lists
                start = first * len(self.top_ks) + cut
                count = numbers.shape[0] * numbers.shape[1]
                yield slice(start, start + count), numbers.reshape(count, -1)

    def used(self) -> Integers:
        """Return the numbers of the selections that some cell keeps, ascending."""
        marked = np.zeros(self.count, dtype=bool)
        for _, numbers in self.blocks():
            marked[numbers] = True
        return np.flatnonzero(marked)


def select_all(found: Found, thresholds: Sequence[float], top_ks: Sequence[int]) -> Selections:
    """Select by every threshold and cut, as `retrievers.search.selection.select` does it one by one.

    Args:
        found: The candidates.
        thresholds: At least one.
        top_ks: At least one, each 1 or more.
    """
    longest = min(max(top_ks), found.scores.shape[1])
    builder = _Lists(longest, len(thresholds), len(found.scores))
    plain = _in_order(found)
    for rows in _blocks(np.flatnonzero(plain), found.scores.shape[1]):
        builder.add_beginnings(rows, found.scores[rows, :longest], thresholds)
    rest = np.flatnonzero(~plain)
    if found.groups is None:
        for rows in _blocks(rest, found.scores.shape[1]):
            builder.add_lists(rows, found.scores[rows], thresholds)
    else:
        for row in rest.tolist():
            builder.add_grouped(row, found.scores[row], found.groups[row], thresholds)
    return Selections(
        query=np.concatenate([np.empty(0, dtype=np.int32), *builder.query]),
        members=np.concatenate([np.empty((0, longest), dtype=np.int32), *builder.members]),
        list_of=builder.list_of,
        reach=builder.reach,
        top_ks=tuple(top_ks),
    )


def _in_order(found: Found) -> NDArray[np.bool_]:
    """Of which queries every selection is a beginning of the candidates: no score rises, and nothing is grouped."""
    if found.groups is not None:
        return np.zeros(len(found.scores), dtype=np.bool_)
    ordered: NDArray[np.bool_] = np.all(found.scores[:, 1:] <= found.scores[:, :-1], axis=1)
    return ordered


def _blocks(rows: NDArray[np.intp], depth: int) -> Iterator[NDArray[np.intp]]:
    """Split queries so that an array of a block's candidates has at most `BLOCK` entries."""
    step = max(1, BLOCK // max(1, depth))
    return (rows[first : first + step] for first in range(0, len(rows), step))


class _Lists:
    """Collects lists, and which of them each threshold leaves of each query."""

    def __init__(self, longest: int, thresholds: int, queries: int) -> None:
        self.longest = longest
        self.query: list[NDArray[np.int32]] = []
        self.members: list[NDArray[np.int32]] = []
        self.list_of = np.zeros((thresholds, queries), dtype=np.int32)
        self.reach = np.zeros((thresholds, queries), dtype=np.int32)
        self._count = 0

    def add_beginnings(self, rows: NDArray[np.intp], scores: Floats, thresholds: Sequence[float]) -> None:
        """Add queries of which every selection is a beginning of the candidates; one list each."""
        for number, threshold in enumerate(thresholds):
            self.reach[number, rows] = (scores >= threshold).sum(axis=1)
        whole = np.where(np.isfinite(scores), np.arange(self.longest, dtype=np.int32), np.int32(-1))
        self.list_of[:, rows] = self._append(rows, whole)

    def add_lists(self, rows: NDArray[np.intp], scores: Floats, thresholds: Sequence[float]) -> None:
        """Add queries whose candidates do not stand in the order of their scores.

        A higher threshold keeps fewer candidates, so from one threshold to the next a list is another one or the
        beginning of the one before; only those that are another one are kept.
        """
        current = np.full((len(rows), self.longest), -1, dtype=np.int32)
        number = np.full(len(rows), -1, dtype=np.int64)
        order = np.argsort(thresholds, kind="stable")
        for index in order.tolist():
            members, reach = _first_reaching(scores, thresholds[index], self.longest)
            beyond = np.arange(self.longest) >= reach[:, None]
            new = (number < 0) | ~np.all((members == current) | beyond, axis=1)
            current[new] = members[new]
            number[new] = self._append(rows[new], members[new])
            self.list_of[index, rows], self.reach[index, rows] = number, reach

    def add_grouped(self, row: int, scores: Floats, groups: Integers, thresholds: Sequence[float]) -> None:
        """Add one query of whose candidates only the first of each group counts."""
        lists: dict[tuple[int, ...], int] = {}
        for number, threshold in enumerate(thresholds):
            reached = np.flatnonzero(scores >= threshold)
            _, first = np.unique(groups[reached], return_index=True)
            members = tuple(reached[np.sort(first)][: self.longest].tolist())
            if members not in lists:
                laid = np.full((1, self.longest), -1, dtype=np.int32)
                laid[0, : len(members)] = members
                lists[members] = int(self._append(np.asarray([row]), laid)[0])
            self.list_of[number, row], self.reach[number, row] = lists[members], len(members)

    def _append(self, rows: NDArray[np.intp], members: NDArray[np.int32]) -> Integers:
        """Add lists, and return their numbers."""
        numbers = np.arange(self._count, self._count + len(rows), dtype=np.int64)
        self._count += len(rows)
        self.query.append(rows.astype(np.int32))
        self.members.append(members)
        return numbers


def _first_reaching(scores: Floats, threshold: float, longest: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the places of the first candidates that reach a threshold, −1 beyond them, and their number."""
    reached = scores >= threshold
    reach = np.minimum(reached.sum(axis=1), longest).astype(np.int32)
    first = np.argsort(~reached, axis=1, kind="stable")[:, :longest].astype(np.int32)
    return np.where(np.arange(longest) < reach[:, None], first, np.int32(-1)), reach
