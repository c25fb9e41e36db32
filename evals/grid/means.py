"""Scores of selections → the mean of every cell, with its counts, and over the queries scored in all cells. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Failure
from evals.grid.cells import CellSummaries, SelectionScores
from evals.grid.selections import Selections

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A metric's scores by configuration, and the queries it is over, by their places among all."""

    parts: tuple[SelectionScores, ...]
    rows: Rows


def summarise_cells(scored: Mapping[str, Scored], selections: Sequence[Selections]) -> dict[str, CellSummaries]:
    """Means and counts of every metric in every cell.

    A cell's mean is what a run of its own has, to the last bit: numpy's pairwise sum over the scored queries in their
    order, divided by their number.

    Args:
        scored: By metric.
        selections: By configuration; cells are numbered across them.
    """
    made = {name: _Columns(one, selections) for name, one in scored.items()}
    first = 0
    for place, known in enumerate(selections):
        for cells, numbers in known.blocks():
            where = slice(first + cells.start, first + cells.stop)
            chosen: dict[bytes, NDArray[np.int64]] = {}  # most metrics are over the same queries
            for columns in made.values():
                if columns.key not in chosen:
                    whole = len(columns.rows) == numbers.shape[1]
                    chosen[columns.key] = numbers if whole else np.ascontiguousarray(numbers[:, columns.rows])
                columns.fill(place, where, chosen[columns.key])
        first += known.cells
    return {name: columns.summaries() for name, columns in made.items()}


class _Columns:
    """The figures of one metric, filled cell by cell."""

    def __init__(self, scored: Scored, selections: Sequence[Selections]) -> None:
        cells = sum(known.cells for known in selections)
        self.rows, self.key = scored.rows, scored.rows.tobytes()
        self._parts = scored.parts
        self._mean, self._common = np.full(cells, np.nan), np.full(cells, np.nan)
        self._n, self._unscored, self._failed = (np.zeros(cells, dtype=np.int64) for _ in range(3))
        in_all, self._dropped = _scored_in_all(scored, selections)
        self._in_all = np.flatnonzero(in_all)

    def fill(self, place: int, where: slice, numbers: NDArray[np.int64]) -> None:
        """Figures of some cells of a configuration, given the selection of each (cell, query of the metric)."""
        part = self._parts[place]
        values = np.take(part.values, numbers)
        if part.issue is None:
            self._n[where] = values.shape[1]
            self._mean[where] = _means(values)
        else:
            self._with_gaps(part, where, numbers, values)
        whole = len(self._in_all) == values.shape[1]
        self._common[where] = self._mean[where] if whole else _means(np.ascontiguousarray(values[:, self._in_all]))

    def _with_gaps(self, part: SelectionScores, where: slice, numbers: NDArray[np.int64], values: Floats) -> None:
        assert part.issue is not None
        issue = part.issue[numbers]
        fails = np.asarray([isinstance(one, Failure) for one in (*part.issues, None)])  # −1, no issue, is the last
        failed = fails[issue].sum(axis=1)
        self._failed[where] = failed
        self._n[where] = (issue < 0).sum(axis=1)
        self._unscored[where] = values.shape[1] - self._n[where] - failed
        for cell, row, gaps in zip(range(where.start, where.stop), values, issue, strict=True):
            self._mean[cell] = _means(row[gaps < 0][None, :])[0]

    def summaries(self) -> CellSummaries:
        """What has been filled in."""
        return CellSummaries(
            mean=self._mean,
            n=self._n,
            n_unscored=self._unscored,
            n_failed=self._failed,
            common=self._common,
            n_common=len(self._in_all),
            n_dropped=self._dropped,
        )


def _means(values: Floats) -> Floats:
    if values.shape[1] == 0:
        return np.full(len(values), np.nan)
    means: Floats = np.add.reduce(values, axis=1) / values.shape[1]
    return means


def _scored_in_all(scored: Scored, selections: Sequence[Selections]) -> tuple[NDArray[np.bool_], int]:
    """Which queries every cell scores; and how many others some cell scores, or fails to."""
    count = selections[0].queries if selections else 0
    lacking, answered = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for part, known in zip(scored.parts, selections, strict=True):
        if part.issue is None:
            answered[:] = True
            continue
        used = known.used()
        query, issue = known.query[used // known.width], part.issue[used]
        failures = [at for at, one in enumerate(part.issues) if isinstance(one, Failure)]
        lacking[query[issue >= 0]] = True
        answered[query[(issue < 0) | np.isin(issue, failures)]] = True
    own_lacking, own_answered = lacking[scored.rows], answered[scored.rows]
    return ~own_lacking, int((own_lacking & own_answered).sum())
