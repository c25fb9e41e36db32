"""The number of queries needed to prefer a cheaper cell."""

import numpy as np

from evals.grid.choice.confidence_set import BestSet
from evals.grid.choice.pairs import Pairs
from evals.grid.choice.standings import Bools, Floats

# 80% of a normal distribution lie below.
POWER_QUANTILE = 0.8416212335729143
MOST = 1_000_000


def queries_needed(pairs: Pairs, best: BestSet, cheaper: Bools, is_tied: Bools, margin: float) -> int | None:
    """Return the least number of queries at which some cheaper cell would be proved within the margin, with power 80%.

    Differences and variances are taken to be as measured. At that number some bound stays above −margin although its
    difference falls 0.84 standard errors short of what is expected; cells that would no longer be in the set are left
    out. None where a million queries would not do.

    Args:
        pairs: Comparison of all cells.
        best: The set and the quantiles by the queries there are.
        cheaper: [cells], those cheaper than the best.
        is_tied: [cells], those that represent others with the same scores too.
        margin: Largest loss, in units of the objective.
    """
    columns = np.flatnonzero(best.members)
    quantiles = best.quantiles[columns]
    mean = pairs.values.mean(axis=0)
    rows = np.flatnonzero(cheaper & (mean > mean.max() - margin))

    among, cheap = pairs.between(columns, columns), pairs.between(rows, columns)
    itself = (rows[:, None] == columns) & ~is_tied[columns]

    def enough(n: int) -> bool:
        remaining = ~(_bounds(pairs, among, n, quantiles) > 0).any(axis=0)
        bounds = _bounds(pairs, cheap, n, quantiles + POWER_QUANTILE)
        bounds[itself] = 0.0
        return bool((bounds[:, remaining] >= -margin).all(axis=1).any())

    if not rows.size or not enough(MOST):
        return None
    low, high = pairs.n, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _bounds(pairs: Pairs, measured: tuple[Floats, Floats], n: int, quantiles: Floats) -> Floats:
    """Return lower bounds on these differences for n queries."""
    moved, error = pairs.with_losses(*measured, n)
    return moved - quantiles * error
