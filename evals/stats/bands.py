"""95% bands of curves: intervals of all cells of one retrieval that hold together. Pure.

A reader who moves a threshold looks at every cell, so intervals that hold for one cell at a time are not enough.

The share of queries that get nothing is, as a function of the threshold, the distribution function of their best
scores. Its band has exact binomial intervals (Clopper and Pearson) at a stricter level. At that level all of them hold
together for the ordered scores of a sample, whatever their distribution (Berk and Jones, 1979; Owen, 1995). The band of
a mean has intervals at a stricter level, too. A multiplier bootstrap over queries gives it, from the largest deviation
of any cell's mean in standard errors (Dudoit and van der Laan, 2008, chapter 5).

Each of the three bands (found, silent in scope, silent out of scope) holds with 98.3%, so that all hold with 95%
(Bonferroni). If they hold, so does the band of every weighted sum of them, whose ends are the weighted sums of theirs.
"""

from functools import lru_cache

import numpy as np

from evals.stats.intervals import SAME, Floats, Integers, Pair, bounded_intervals

EACH = 1 - 0.05 / 3
DRAWS = 4_000
# Largest number of drawn scores: for many queries, DRAWS samples would take gigabytes.
SCORES = 2_000_000
# Cells that are computed at once, for the same reason.
BLOCK = 256
FEW = 10


def mean_bands(values: Floats, seed: int) -> Pair:
    """Return lower and upper ends [cells] of the means of cells.

    Args:
        values: [queries, cells], within [0, 1], at least one query.
        seed: Seed of the draws.
    """
    from scipy.special import ndtr, ndtri

    n, total = len(values), values.sum(axis=0)
    multipliers = np.random.default_rng(seed).standard_normal((DRAWS, n))
    largest = np.zeros(DRAWS)
    for start in range(0, values.shape[1], BLOCK):
        centred = values[:, start : start + BLOCK] - values[:, start : start + BLOCK].mean(axis=0)
        length = np.sqrt((centred**2).sum(axis=0))
        scaled = np.divide(centred, length, out=np.zeros_like(centred), where=length > SAME)
        largest = np.maximum(largest, np.abs(multipliers @ scaled).max(axis=1))
    # The level is never laxer than that of one interval: queries that all score the same say nothing of others.
    alpha = 2 * float(ndtr(-max(np.quantile(largest, EACH), -ndtri((1 - EACH) / 2))))
    low, high = bounded_intervals(values, 0.0, 1.0, alpha)
    # Normal theory fails this far out for scores of 0 and 1, which have exact limits, and near a bound, where few
    # queries decide. Of all scores with the same mean those of 0 and 1 vary most.
    near = (np.minimum(total, n - total) < FEW) | (np.minimum(values, 1 - values) <= SAME).all(axis=0)
    least, most = exact_limits(total, n, alpha / 2)
    return np.where(near, np.minimum(low, least), low), np.where(near, np.maximum(high, most), high)


def share_bands(counts: Floats, n: int) -> Pair:
    """Return lower and upper ends [cells] of the share of queries whose best score does not reach a threshold.

    Args:
        counts: [cells], number of these queries.
        n: Number of queries, at least one.
    """
    return exact_limits(counts, n, _local_level(n) / 2)


def exact_limits(counts: Floats | Integers, n: int, tail: float) -> Pair:
    """Return the limits of Clopper and Pearson, of the shape of `counts`; sums of scores may stand in for counts.

    Args:
        counts: Numbers of successes.
        n: Number of trials.
        tail: Probability that a limit is missed.
    """
    from scipy.special import betaincinv

    low = np.where(counts > SAME, betaincinv(np.maximum(counts, SAME), n - counts + 1, tail), 0.0)
    high = np.where(counts < n - SAME, betaincinv(counts + 1, np.maximum(n - counts, SAME), 1 - tail), 1.0)
    return low, high


@lru_cache
def _local_level(n: int) -> float:
    """Return the level of one interval, as the probability of a miss, at which the intervals of n scores all hold."""
    from scipy.special import betainc

    ranks = np.arange(1, n + 1)
    draws = np.sort(np.random.default_rng(n).random((max(200, min(DRAWS, SCORES // n)), n)), axis=1)
    below = betainc(ranks, n + 1 - ranks, draws)
    return float(np.quantile(2 * np.minimum(below, 1 - below).min(axis=1), 1 - EACH))
