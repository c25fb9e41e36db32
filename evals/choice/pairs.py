"""Every two cells, paired by query: mean differences, their variances, and errors that mistrust what was not seen.

A difference of two neighbouring cells is 0 on most queries, so its few other values decide, and the rare query on which
a cell loses everything may just not be among those asked. Then the standard error is far too small, and what bootstrap
or t-test make of it is wrong much too often (figures in docs/choice.md). Therefore one query is added to those asked,
on which the cell in question loses as much as scores can differ. Where scores are all or nothing, as hits are, every
loss is of that size, and two are added, or a part of the second according to the share of such differences.
"""

from dataclasses import dataclass

import numpy as np

from evals.choice.records import Floats, Integers
from evals.stats import SAME

NOTHING = 1e-14
"""A variance of a difference below this is rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Differences row − column of every two cells.

    Attributes:
        n: Queries.
        span: The largest difference possible on one query.
        losses: How many queries are added on which the row loses `span`, 1 to 2.
        difference: [cells, cells], of the means.
        variance: [cells, cells], of a query's difference, within strata, dividing by n.
    """

    n: int
    span: float
    losses: float
    difference: Floats
    variance: Floats

    def with_losses(self, difference: Floats, variance: Floats, n: int | None = None) -> tuple[Floats, Floats]:
        """Mean differences and their standard errors with the added queries.

        Args:
            difference: Some of `difference`.
            variance: The same of `variance`.
            n: How many queries there would be; as many as there are when left out.
        """
        n = n or self.n
        whole = n + self.losses
        moved = (n * difference - self.losses * self.span) / whole
        squares = (n * (variance + difference**2) + self.losses * self.span**2) / whole
        return moved, np.sqrt((squares - moved**2) / (whole - 1))


def pair_up(values: Floats, strata: Integers, span: float | None) -> Pairs:
    """Compare every two columns.

    Args:
        values: [queries, cells].
        strata: [queries].
        span: The largest difference possible on one query; the largest seen where there is no bound.
    """
    mean = values.mean(axis=0)
    centred = np.empty_like(values)
    for stratum in np.unique(strata):
        rows = strata == stratum
        centred[rows] = values[rows] - values[rows].mean(axis=0)
    products = centred.T @ centred / len(values)
    own = np.diag(products)
    variance = own[:, None] + own[None, :] - 2 * products
    variance[variance < NOTHING] = 0.0
    reach = float(np.ptp(values, axis=1).max()) if span is None else span
    return Pairs(
        n=len(values),
        span=reach,
        losses=1 + _all_or_nothing(values, reach),
        difference=mean[:, None] - mean[None, :],
        variance=variance,
    )


def _all_or_nothing(values: Floats, span: float) -> float:
    """Of the differences to the best cell that are not 0, the share that is as large as can be."""
    differences = np.abs(values - values[:, [int(values.mean(axis=0).argmax())]])
    some = int((differences > SAME).sum())
    return int((differences >= span - SAME).sum()) / some if some else 0.0
