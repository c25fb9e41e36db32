"""Scores of selections → the mean of every cell, with its counts, and over the queries scored in all cells. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Failure
from evals.grid.cells import CellSummaries, Part, SelectionScores
from evals.grid.selections import BLOCK, Selections

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A metric's scores by configuration, and the queries it is over, by their places among all."""

    parts: tuple[Part, ...]
    rows: Rows


def summarise_cells(scored: Mapping[str, Scored], selections: Sequence[Selections]) -> dict[str, CellSummaries]:
    """Means and counts of every metric in every cell.

    A cell's mean is what a run of its own has, to the last bit: numpy's pairwise sum over the scored queries in their
    order, divided by their number.

    Args:
        scored: By metric.
        selections: By configuration; cells are numbered across them.
    """
    blocks = [_Blocks(part) for part in selections]
    return {name: _summaries(one, selections, blocks) for name, one in scored.items()}


class _Blocks:
    """The selection of every cell and query, block by block; kept where there is but one block."""

    def __init__(self, selections: Selections) -> None:
        self._selections = selections
        whole = selections.cells * selections.queries <= BLOCK
        self._kept = list(selections.blocks()) if whole else None

    def __iter__(self) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        return iter(self._kept if self._kept is not None else self._selections.blocks())


def _summaries(scored: Scored, selections: Sequence[Selections], blocks: Sequence[_Blocks]) -> CellSummaries:
    parts = [part() for part in scored.parts]
    in_all, dropped = _scored_in_all(scored.rows, parts, selections)
    figures = _Figures(sum(of_configuration.cells for of_configuration in selections), np.flatnonzero(in_all), dropped)
    first = 0
    for scores, of_configuration, of_part in zip(parts, selections, blocks, strict=True):
        for cells, numbers in of_part:
            whole = len(scored.rows) == numbers.shape[1]
            asked = numbers if whole else np.ascontiguousarray(numbers[:, scored.rows])
            figures.fill(scores, slice(first + cells.start, first + cells.stop), asked)
        first += of_configuration.cells
    return figures.summaries()


class _Figures:
    """The figures of one metric, filled cell by cell."""

    def __init__(self, cells: int, in_all: NDArray[np.int64], dropped: int) -> None:
        self._mean, self._common = np.full(cells, np.nan), np.full(cells, np.nan)
        self._n, self._unscored, self._failed = (np.zeros(cells, dtype=np.int64) for _ in range(3))
        self._in_all, self._dropped = in_all, dropped

    def fill(self, part: SelectionScores, where: slice, numbers: NDArray[np.int64]) -> None:
        """Fill in some cells of a configuration, given the selection of each (cell, query of the metric)."""
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
        """Return the figures."""
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


def _scored_in_all(
    rows: Rows, parts: Sequence[SelectionScores], selections: Sequence[Selections]
) -> tuple[NDArray[np.bool_], int]:
    """Which queries every cell scores; and how many others some cell scores, or fails to."""
    count = selections[0].queries if selections else 0
    lacking, answered = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for part, known in zip(parts, selections, strict=True):
        if part.issue is None:
            answered[:] = True
            continue
        used = known.used()
        query, issue = known.query[used // known.width], part.issue[used]
        failures = [at for at, one in enumerate(part.issues) if isinstance(one, Failure)]
        lacking[query[issue >= 0]] = True
        answered[query[(issue < 0) | np.isin(issue, failures)]] = True
    own_lacking, own_answered = lacking[rows], answered[rows]
    return ~own_lacking, int((own_lacking & own_answered).sum())
