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
    """What the search found for every query, as arrays; rows are queries.

    Attributes:
        scores: What the threshold reads, by candidate, −∞ beyond the last; shape (queries, depth).
        groups: Which group each candidate is of, numbered within its query; None where results are not grouped.
    """

    scores: Floats
    groups: Integers | None = None


@dataclass(frozen=True, kw_only=True)
class Selections:
    """The selections of every query under every threshold and `top_k`.

    Attributes:
        query: Of which query each list is; shape (lists,).
        members: The candidates of each list by their place among all (from 0), −1 beyond its end; (lists, longest).
        list_of: The list that a threshold leaves of a query; shape (thresholds, queries).
        reach: How much of that list reaches the threshold; shape (thresholds, queries).
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
        """The selection of every query in one cell, by number."""
        threshold, cut = divmod(cell, len(self.top_ks))
        lengths = np.minimum(self.top_ks[cut], self.reach[threshold]).astype(np.int64)
        numbers: Integers = self.list_of[threshold].astype(np.int64) * self.width + lengths
        return numbers

    def places(self, number: int) -> list[int]:
        """The candidates of a selection by their place among all (from 0), in their order."""
        row, length = divmod(number, self.width)
        kept: list[int] = self.members[row, :length].tolist()
        return kept

    def blocks(self) -> Iterator[tuple[slice, Integers]]:
        """The selection of every (cell, query) by its number, some cells at a time; (cells, queries)."""
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
        """The numbers of the selections that some cell keeps, ascending."""
        marked = np.zeros(self.count, dtype=bool)
        for _, numbers in self.blocks():
            marked[numbers] = True
        return np.flatnonzero(marked)


def select_all(found: Found, thresholds: Sequence[float], top_ks: Sequence[int]) -> Selections:
    """What every threshold and cut leaves, as `retrievers.search.selection.select` does it one by one.

    Args:
        found: The candidates.
        thresholds: At least one.
        top_ks: At least one, each 1 or more.
    """
    longest = min(max(top_ks), found.scores.shape[1])
    plain = _in_order(found)
    builder = _Lists(longest)
    list_of = np.zeros((len(thresholds), len(found.scores)), dtype=np.int32)
    reach = np.zeros_like(list_of)
    first = found.scores[:, :longest]
    for place, threshold in enumerate(thresholds):
        reach[place] = (first >= threshold).sum(axis=1)
    for query in np.flatnonzero(~plain).tolist():
        groups = None if found.groups is None else found.groups[query]
        list_of[:, query], reach[:, query] = builder.add(query, found.scores[query], groups, thresholds)
    rows = np.flatnonzero(plain)
    list_of[:, rows] = np.arange(len(rows)) + len(builder.query)
    places = np.arange(longest, dtype=np.int32)
    whole = np.where(np.isfinite(first[rows]), places, np.int32(-1))
    return Selections(
        query=np.concatenate([np.asarray(builder.query, dtype=np.int32), rows.astype(np.int32)]),
        members=np.concatenate([builder.array(), whole]),
        list_of=list_of,
        reach=reach,
        top_ks=tuple(top_ks),
    )


def observed_scores(found: Found, longest: int) -> tuple[float, ...]:
    """The thresholds, ascending, among which every threshold of a cell has one that keeps the same.

    Every score that a threshold could read: where candidates stand in their order, of the first `longest`; elsewhere of
    all. Those outside [0, 1], which no threshold may be, are left out.
    """
    plain = _in_order(found)
    scores = np.concatenate([found.scores[plain][:, :longest].ravel(), found.scores[~plain].ravel()])
    return tuple(np.unique(scores[(scores >= 0) & (scores <= 1)]).tolist())


def _in_order(found: Found) -> NDArray[np.bool_]:
    """Of which queries every selection is a beginning of the candidates: no score rises, and nothing is grouped."""
    if found.groups is not None:
        return np.zeros(len(found.scores), dtype=np.bool_)
    ordered: NDArray[np.bool_] = np.all(found.scores[:, 1:] <= found.scores[:, :-1], axis=1)
    return ordered


class _Lists:
    """Collects the lists of queries whose candidates do not stand in the order of the threshold's score."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.query: list[int] = []
        self._members: list[tuple[int, ...]] = []

    def add(
        self, query: int, scores: Floats, groups: Integers | None, thresholds: Sequence[float]
    ) -> tuple[list[int], list[int]]:
        """The lists that thresholds leave of one query: for each threshold which, and how much of it."""
        order = np.sort(scores)
        _, first, kind_of = np.unique(np.searchsorted(order, thresholds), return_index=True, return_inverse=True)
        left = [self._reaching(scores, groups, thresholds[place]) for place in first]
        begins: dict[tuple[int, ...], int] = {}  # every beginning of a list, to that list
        for members in sorted(dict.fromkeys(left), key=len, reverse=True):
            if members not in begins:
                begins |= {members[:length]: len(self.query) for length in range(len(members) + 1)}
                self.query.append(query)
                self._members.append(members)
        return [begins[left[kind]] for kind in kind_of], [len(left[kind]) for kind in kind_of]

    def array(self) -> NDArray[np.int32]:
        """All lists, shape (lists, longest)."""
        made = np.full((len(self._members), self.longest), -1, dtype=np.int32)
        for row, members in enumerate(self._members):
            made[row, : len(members)] = members
        return made

    def _reaching(self, scores: Floats, groups: Integers | None, threshold: float) -> tuple[int, ...]:
        reached = np.flatnonzero(scores >= threshold)
        if groups is not None:
            _, first = np.unique(groups[reached], return_index=True)
            reached = reached[np.sort(first)]
        return tuple(reached[: self.longest].tolist())
