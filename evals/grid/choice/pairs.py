"""Every two cells, paired by query: mean differences, their variances, and errors that allow for unseen losses.

A difference of two neighbouring cells is 0 on most queries, so its few other values decide, and the rare query on which
a cell loses everything may just not be among those asked. Then the standard error is far too small, and what bootstrap
or t-test make of it is wrong much too often (figures in docs/choice.md). Therefore bounds add one query to those asked,
on which the cell in question loses as much as scores can differ. Where scores are all or nothing, as hits are, every
loss is of that size, and two are added, or a part of the second according to the share of such differences.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice.standings import Floats, ObjectiveScores
from evals.stats.intervals import SAME

# A variance of a difference below this is rounding.
NOTHING = 1e-14
BLOCK = 64
Places = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Cells to be compared.

    Attributes:
        values: [queries, cells]; every stratum is shifted to a cell's mean over all, since how strata differ is no
            chance.
        strata: Number of strata.
        span: The largest difference possible on one query.
        losses: Number of queries that bounds add on which a cell loses `span`, 1 to 2.
        typical_loss: Loss of a cell on a query on which it loses everything.
        judged: Number of queries that a judge saw, where it saw a sample of them; else None.
    """

    values: Floats
    strata: int
    span: float
    losses: float
    typical_loss: float
    judged: int | None = None

    @property
    def n(self) -> int:
        """Queries."""
        return len(self.values)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of variances: queries that tell them, less a mean estimated for each stratum."""
        return (self.judged or self.n) - self.strata

    @property
    def cells(self) -> Places:
        """The places of all cells."""
        return np.arange(self.values.shape[1])

    def between(self, rows: Places, columns: Places) -> tuple[Floats, Floats]:
        """Return the mean differences row − column and the variances of a query's difference, dividing by n."""
        mean = self.values.mean(axis=0)
        centred = self.values - mean
        own = np.concatenate([(block**2).mean(axis=0) for block in _blocks(centred)])
        # Var(a − b) = Var a + Var b − 2 Cov(a, b), in place: for 4,000 cells each further matrix takes 128 MB.
        variance = centred[:, rows].T @ centred[:, columns]
        variance *= -2 / self.n
        variance += own[rows, None]
        variance += own[columns]
        variance[variance < NOTHING] = 0.0
        return mean[rows, None] - mean[columns], variance

    def with_losses(self, difference: Floats, variance: Floats, n: int | None = None) -> tuple[Floats, Floats]:
        """Return the mean differences and their standard errors with the added queries.

        Args:
            difference: Some of the mean differences.
            variance: Their variances.
            n: Number of queries to assume; the observed number when left out.
        """
        n = n or self.n
        whole = n + self.losses
        moved = (n * difference - self.losses * self.span) / whole
        squares = (n * (variance + difference**2) + self.losses * self.span**2) / whole
        return moved, np.sqrt((squares - moved**2) / (whole - 1))


def pair_up(scores: ObjectiveScores, values: Floats) -> Pairs:
    """Make cells ready to be compared.

    Args:
        scores: Scores of all cells.
        values: [queries, cells], columns of `scores` of which no two are the same.
    """
    strata, centred = np.unique(scores.strata), np.empty_like(values)
    for stratum in strata:
        rows = scores.strata == stratum
        centred[rows] = values[rows] - values[rows].mean(axis=0)
    # The means come back, so that differences of columns stay those of the cells.
    centred += values.mean(axis=0)
    span = float(np.ptp(values, axis=1).max()) if scores.span is None else scores.span
    best = values[:, int(values.mean(axis=0).argmax())]
    return Pairs(
        values=centred,
        strata=len(strata),
        span=span,
        losses=1 + _all_or_nothing(values, best, span),
        typical_loss=span if scores.span is None else min(span, _typical_loss(values, best, scores.floor)),
        judged=scores.judged,
    )


def _typical_loss(values: Floats, best: Floats, floor: float) -> float:
    """Return the best cell's mean score above the floor where it scores or, if higher, where some cell does not."""
    gained = best - floor
    scored = gained > SAME
    lost = scored & (values.min(axis=1) - floor <= SAME)
    return max((float(gained[rows].mean()) for rows in (scored, lost) if rows.any()), default=np.inf)


def _all_or_nothing(values: Floats, best: Floats, span: float) -> float:
    """Return the share of the non-zero differences to the best cell that are as large as possible."""
    differing = largest = 0
    for block in _blocks(values):
        differences = np.abs(block - best[:, None])
        differing += int((differences > SAME).sum())
        largest += int((differences >= span - SAME).sum())
    return largest / differing if differing else 0.0


def _blocks(values: Floats) -> list[Floats]:
    """Split columns into blocks: of many queries a further copy of all cells would be gigabytes."""
    return np.array_split(values, -(-values.shape[1] // BLOCK) or 1, axis=1)
