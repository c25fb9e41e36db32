"""95% intervals for proportions, means, percentiles and AUROC. Pure.

Sources: Wilson (1927) for proportions; other means as `score_intervals` says; Conover (1999, section 3.2), order
statistics, for percentiles; Newcombe (2006, method 5) for AUROC.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from evals.stats import score_intervals
from evals.stats.bounded_intervals import bounded_intervals, tied_share

LEVEL = 0.95
Z = score_intervals.Z
# One below 10,000: with the observed sample p values are multiples of 1/10,000.
RESAMPLES = 9_999
# Fewer values have no 95% interval: where most results are empty, nine values are likely to be all 0.
FEWEST = 10
# Values that differ by no more are the same: ragas' perfect precision is 1 - 1e-10 / number of relevant.
SAME = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A 95% interval; both ends None when it cannot be computed, with the reason."""

    low: float | None = None
    high: float | None = None
    note: str = ""


def total(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the sum, added pairwise: it is the same to the last bit for the same values in any container."""
    return float(np.add.reduce(np.ascontiguousarray(values, dtype=float)))


def wilson(successes: float, n: float) -> Interval:
    """Return Wilson's score interval of a proportion, within [0, 1].

    (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n), without continuity correction.

    Args:
        successes: Number of the `n` that succeeded.
        n: Trials, or as many as they are worth; 0 has no interval.
    """
    if n == 0:
        return Interval(note="not computable: nothing was scored")
    low, high = score_intervals.proportion_intervals(np.asarray(successes / n), np.asarray(float(n)))
    return Interval(low=float(low), high=float(high))


def mean_interval(values: Sequence[float], *, shares: bool = True) -> Interval:
    """Score interval of a mean of at least ten values, by `score_intervals` and `bounded_intervals`.

    Shares: (1 − t) · the score interval + t · that which the bounds 0 and 1 give, where t is the share of values that
    repeat the most frequent one. If all differ, their variance is enough; if all are equal, only the bounds limit
    other values. Fewer than ten have an interval, Wilson's, where all are 0 or all 1.

    In simulations of 20, 40, 80 and 225 values, up to 97% of them zeros or ones, the interval of shares holds the true
    mean in 93% of samples and more; that of amounts in 93% to 97% of samples of 40, 80 and 225. See docs/choice.md.

    Args:
        values: One finite number per query.
        shares: True if values lie within [0, 1] by their nature, unlike milliseconds, tokens or differences. Where they
            are of both signs they are treated as differences.
    """
    array = np.asarray(values, dtype=float)
    if array.size == 0:
        return Interval(note="not computable: nothing was scored")
    low, high = mean_intervals(array[:, None], shares=shares)
    if np.isfinite(low[0]):
        return Interval(low=float(low[0]), high=float(high[0]))
    if np.ptp(array) <= SAME:
        return Interval(note="not computable: all values are equal")
    return Interval(note=f"not computable: {array.size} values are too few, {FEWEST} are needed")


def mean_intervals(values: NDArray[np.float64], *, shares: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `mean_interval` of each column [n, columns]: lower and upper ends, NaN where there is none.

    Args:
        values: Finite.
        shares: True if they lie within [0, 1].
    """
    own = _own_intervals(values, shares=shares)
    if not shares or not values.size:
        return own
    tied, bounded = tied_share(values), bounded_intervals(values, 0.0, 1.0)
    same = np.ptp(values, axis=0) <= SAME
    if len(values) < FEWEST:
        # All zeros or all ones have Wilson's interval, however few.
        same &= np.abs(values[0] - 0.5) >= 0.5 - SAME
    low, high = (np.where(same, b, (1 - tied) * a + tied * b) for a, b in zip(own, bounded, strict=True))
    return low, high


def _own_intervals(values: NDArray[np.float64], *, shares: bool) -> score_intervals.Pair:
    """Score intervals by the values' own variance; NaN where it is 0 or the values are too few."""
    n = len(values)
    ends = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    vary = np.ptp(values, axis=0) > SAME if n >= FEWEST else np.zeros(values.shape[1], dtype=np.bool_)
    if vary.any():
        varying, count = values[:, vary], np.asarray(float(n))
        mean = varying.mean(axis=0)
        centred = varying - mean
        variance = (centred**2).sum(axis=0) / (n - 1)
        # Differences have both signs; their skewness is left out (see `score_intervals`).
        one_sign = (varying >= 0).all(axis=0) | (varying <= 0).all(axis=0)
        ends[0][vary], ends[1][vary] = (
            score_intervals.share_intervals(mean, variance, count)
            if shares
            else score_intervals.amount_intervals(mean, variance, one_sign * (centred**3).mean(axis=0), count)
        )
    return ends


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile by linear interpolation between order statistics (numpy's default).

    Args:
        values: At least one number.
        share: 0.95 for p95.
    """
    return float(np.quantile(np.asarray(values, dtype=float), share))


def percentile_interval(values: Sequence[float], share: float) -> Interval:
    """Return the distribution-free interval of a percentile: two order statistics that hold it with probability ≥ 95%.

    The number of values below the percentile is binomial(n, share); each tail is left at most 2.5%. A 95% interval of
    p95 needs 72 values, of p99 368, of the median 6.
    """
    from scipy.special import bdtr

    n = len(values)
    if n == 0:
        return Interval(note="not computable: no values")
    tail = (1 - LEVEL) / 2
    # Ranks, from 1; a rank outside 1 to n means that no pair of order statistics reaches 95%.
    below = bdtr(np.arange(n + 1), n, share)
    low = int(np.searchsorted(below, tail))
    high = int(np.searchsorted(below, 1 - tail)) + 1
    if low < 1 or high > n:
        return Interval(note=f"not computable: {n} values are too few, {_needed(share)} are needed")
    ordered = sorted(values)
    return Interval(low=float(ordered[low - 1]), high=float(ordered[high - 1]))


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return P(a positive scores higher than a negative), ties counted half (Mann–Whitney U / mn), 0 to 1.

    Args:
        positive: Scores of in-scope queries, at least one.
        negative: Scores of out-of-scope queries, at least one.
    """
    ordered = np.sort(np.asarray(negative, dtype=float))
    lower, not_higher = (np.searchsorted(ordered, positive, side) for side in ("left", "right"))
    return float((lower + not_higher).sum() / (2 * len(positive) * len(negative)))


def auroc_interval(area: float, m: int, n: int) -> Interval:
    """Return Newcombe's interval (method 5): areas whose score statistic (Hanley–McNeil variance) is within ±1.96.

    V(θ) = θ(1−θ) [1 + N(1−θ)/(2−θ) + Nθ/(1+θ)] / (mn) with N = (m+n)/2 − 1. Defined at 0 and 1 too.

    Args:
        area: The observed AUROC.
        m: Positives.
        n: Negatives.
    """
    from scipy.optimize import brentq

    if m < 2 or n < 2:
        return Interval(note="not computable: fewer than two queries on one side")
    # Method 5 replaces both sample sizes in the variance by their mean.
    extra = (m + n) / 2 - 1

    def deviation(theta: float) -> float:
        variance = theta * (1 - theta) * (1 + extra * (1 - theta) / (2 - theta) + extra * theta / (1 + theta)) / (m * n)
        return Z * sqrt(variance)

    # at 0 and 1 the deviation vanishes, so that these themselves solve the equations there: look inside of them
    inside = 1e-9
    low = 0.0 if area <= 0 else float(brentq(lambda t: t + deviation(t) - area, 0.0, min(area, 1 - inside)))
    high = 1.0 if area >= 1 else float(brentq(lambda t: t - deviation(t) - area, max(area, inside), 1.0))
    return Interval(low=low, high=high)


def _needed(share: float) -> int:
    """Return the least number of values for which both order statistics exist."""
    extreme = max(share, 1 - share)
    return int(np.ceil(np.log((1 - LEVEL) / 2) / np.log(extreme)))
