"""95% intervals of means with bounds, of amounts, of percentiles and of AUROC. Pure.

Bounds. Where most values are the same, the few others decide, and a rare large value may be missing in the sample. The
sample's variance does not show this, but the bounds do. Of all distributions within the bounds whose mean is δ, take
the one under which the sample is likeliest; it may put weight on a bound that no value reached. The interval holds the
means δ whose distance to the observed mean m is at most z standard errors of that distribution: (m − δ)² n ≤ z² V(δ).
For values of 0 and 1 this is Wilson's interval (1927), for differences of −1, 0 and 1 Tango's (1998). The likelihood is
Owen's empirical one (1988) with the bounds added to its support, as Honda and Takemura (2010) do.

Amounts have Student's interval with a variance that changes with the mean by the third central moment over the second,
as in a natural exponential family (Johnson, 1978, corrects t by that ratio). In a strict cell most queries have no
tokens; there Student's own interval holds the mean in 90% of samples of 40. Percentiles have two order statistics
(Conover, 1999, section 3.2). AUROC has the interval of Newcombe (2006, method 5). docs/method.md has the figures of
simulations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pair = tuple[Floats, Floats]
LEVEL = 0.95
Z = 1.959963984540054
# One below 10,000: together with the observed sample, p values are multiples of 1/10,000.
RESAMPLES = 9_999
# Fewer values have no 95% interval, unless all are 0 or 1: if most results are empty, nine values are likely to be 0.
FEWEST = 10
# Values that differ by at most this are equal: ragas' perfect entity recall is 1 - 1e-8 / number of entities.
SAME = 2e-8
# Columns that are computed at once: for many queries, copies of all columns would take gigabytes.
BLOCK = 64
# Most steps of Newton's method. It takes fewer than ten; the limit guards against values that are not finite.
STEPS = 100
# A last step of Newton's method below this leaves an error of about its square.
CLOSE = 1e-8


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A 95% interval; both ends None when it cannot be computed.

    Attributes:
        low: Lower end.
        high: Upper end.
        note: Reason why it cannot be computed; empty when it can.
    """

    low: float | None = None
    high: float | None = None
    note: str = ""


def wilson(successes: float, n: float) -> Interval:
    """Return Wilson's score interval of a proportion, within [0, 1].

    (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n), without continuity correction; `bounded_intervals` of as many
    ones and zeros.

    Args:
        successes: Number of successes among the trials.
        n: Number of trials, which may be a fraction; 0 has no interval.
    """
    if n == 0:
        return Interval(note="not computable: nothing was scored")
    share, extra = successes / n, Z**2 / n
    half = Z * sqrt(share * (1 - share) / n + extra / (4 * n))
    low, high = ((share + extra / 2 + side) / (1 + extra) for side in (-half, half))
    return Interval(low=low if share > 0 else 0.0, high=high if share < 1 else 1.0)


def mean_interval(values: Sequence[float], *, shares: bool, floor: float = 0.0, ceiling: float = 1.0) -> Interval:
    """Return the interval of a mean.

    Args:
        values: One finite number per query.
        shares: True if values lie within bounds by their nature, unlike milliseconds, tokens or differences.
        floor: The lower bound.
        ceiling: The upper bound.
    """
    array = np.asarray(values, dtype=float)
    if array.size == 0:
        return Interval(note="not computable: nothing was scored")
    low, high = mean_intervals(array[:, None], shares=shares, floor=floor, ceiling=ceiling)
    if np.isfinite(low[0]):
        return Interval(low=float(low[0]), high=float(high[0]))
    if np.ptp(array) <= SAME:
        return Interval(note="not computable: all values are equal")
    return Interval(note=f"not computable: {array.size} values are too few, {FEWEST} are needed")


def mean_intervals(values: Floats, *, shares: bool, floor: float = 0.0, ceiling: float = 1.0) -> Pair:
    """Return the interval of the mean of each column: lower and upper ends [columns], NaN where there is none.

    Shares have the interval of their bounds; fewer than ten shares have one only if all are on a bound. Amounts have
    Student's interval; fewer than ten amounts, or equal ones, have none.

    Args:
        values: [n, columns], finite.
        shares: True if the values lie within bounds.
        floor: The lower bound.
        ceiling: The upper bound.
    """
    ends = np.full((2, values.shape[1]), np.nan)
    for start in range(0, values.shape[1] if len(values) else 0, BLOCK):
        block, columns = values[:, start : start + BLOCK], slice(start, start + BLOCK)
        if shares:
            on_a_bound = np.minimum(np.abs(block - floor), np.abs(block - ceiling)) <= SAME
            known = on_a_bound.all(axis=0) | (len(block) >= FEWEST)
            limits = bounded_intervals(block, floor, ceiling)
        else:
            known = (np.ptp(block, axis=0) > SAME) & (len(block) >= FEWEST)
            limits = student_intervals(block, _slope(block))
        ends[:, columns] = np.where(known, limits, np.nan)
    return ends[0], ends[1]


def student_intervals(values: Floats, slope: Floats | float = 0.0) -> Pair:
    """Return Student's intervals of the means of columns, |m − δ| ≤ t √(V(δ)/n) with V(δ) = s² + slope · (δ − m).

    Args:
        values: [n, columns], n at least 1.
        slope: [columns], by how much the variance changes with the mean; 0 if this is not known.
    """
    n, mean = len(values), values.mean(axis=0)
    square = student_quantile(n - 1, (1 - LEVEL) / 2) ** 2
    variance = ((values - mean) ** 2).sum(axis=0) / max(1, n - 1)
    tilt = square * slope
    root = np.sqrt(tilt**2 + 4 * n * square * variance)
    return mean + (tilt - root) / (2 * n), mean + (tilt + root) / (2 * n)


def student_quantile(freedom: int, tail: float) -> float:
    """Return the value that Student's t exceeds with the probability `tail`; 0 degrees of freedom count as 1."""
    # scipy.stats is avoided, as its import takes half a second.
    from scipy.special import stdtrit

    return float(-stdtrit(max(1, freedom), tail))


def _slope(values: Floats) -> Floats:
    """Return third over second central moment of columns of one sign; 0 for both signs, whose skewness says little."""
    centred = values - values.mean(axis=0)
    variance, third = (centred**2).mean(axis=0), (centred**3).mean(axis=0)
    is_of_one_sign = (values >= 0).all(axis=0) | (values <= 0).all(axis=0)
    return np.asarray(np.divide(third, variance, out=np.zeros_like(variance), where=is_of_one_sign & (variance > 0)))


def bounded_intervals(values: Floats, floor: float, ceiling: float, alpha: float = 1 - LEVEL) -> Pair:
    """Return the intervals of the means of columns, by their bounds.

    The likeliest distribution weighs values by 1/(c − x) and has the variance (c − δ)(δ − m), for one number c that is
    not below the upper bound (for δ > m; the lower end is the mirror image). So the upper end is the mean after adding
    z² further values of c: (n m + z² c)/(n + z²). Here c is the least number for which the harmonic mean of the
    distances c − x is at least n/(n + z²) of their arithmetic mean.

    Args:
        values: [n, columns], within the bounds, n at least 1.
        floor: The least value possible.
        ceiling: The greatest value possible.
        alpha: Probability that an interval misses the mean, between 0 and 1.

    Returns:
        Lower and upper ends [columns], within the bounds.
    """
    from scipy.special import ndtri

    share = len(values) / (len(values) + float(ndtri(alpha / 2)) ** 2)
    return 0.0 - _upper(-values, -floor, share), _upper(values, ceiling, share)


def _upper(values: Floats, ceiling: float, share: float) -> Floats:
    """Return the upper ends of `bounded_intervals`; `share` is n/(n + z²)."""
    mean = values.mean(axis=0)
    return np.asarray(np.minimum(mean + (1 - share) * _reach(values - mean, ceiling - mean, share), ceiling))


def _reach(centred: Floats, least: Floats, share: float) -> Floats:
    """Return the least c − m ≥ `least` at which harmonic over arithmetic mean of the c − x is at least `share`.

    The ratio is concave and decreasing in 1/(c − m), so Newton's method passes the root at most once and then converges
    from one side. It starts where the ratio would be `share` if only the variance counted.
    """
    # At this distance the ratio is below `share`.
    nearest = np.maximum(centred.max(axis=0), SAME) / (1 - share / len(centred))
    most = 1 / np.maximum(nearest, least)
    inverse = np.minimum(most, np.sqrt(1 - share) / np.maximum(centred.std(axis=0), SAME))
    for _ in range(STEPS):
        weights = 1 / (1 - inverse * centred)
        ratio = 1 / weights.mean(axis=0)
        slope = np.einsum("ij,ij,ij->j", centred, weights, weights) / len(centred) * ratio**2
        step = np.divide(ratio - share, slope, out=np.full_like(ratio, np.inf), where=slope > SAME**2)
        before, inverse = inverse, np.minimum(most, inverse + step)
        if np.allclose(before, inverse, rtol=CLOSE, atol=0):
            break
    return np.asarray(1 / inverse)


def percentile_interval(values: Sequence[float], share: float) -> Interval:
    """Return the distribution-free interval of a percentile: two order statistics that hold it with probability ≥ 95%.

    The number of values below the percentile is binomial(n, share), and each tail has at most 2.5%. The interval of p95
    needs 72 values, that of p99 368, that of the median 6.

    Args:
        values: The values, in any order.
        share: 0.95 for p95.
    """
    from scipy.special import bdtr

    n, tail = len(values), (1 - LEVEL) / 2
    if n == 0:
        return Interval(note="not computable: no values")
    # Ranks, from 1; a rank outside 1 to n means that no pair of order statistics reaches 95%.
    below = bdtr(np.arange(n + 1), n, share)
    low, high = int(np.searchsorted(below, tail)), int(np.searchsorted(below, 1 - tail)) + 1
    if low < 1 or high > n:
        needed = int(np.ceil(np.log(tail) / np.log(max(share, 1 - share))))
        return Interval(note=f"not computable: {n} values are too few, {needed} are needed")
    ordered = sorted(values)
    return Interval(low=float(ordered[low - 1]), high=float(ordered[high - 1]))


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return P(a positive scores higher than a negative), ties counted half (Mann–Whitney U / mn), 0 to 1.

    Args:
        positive: Scores of in-scope queries, at least one.
        negative: Scores of out-of-scope queries, at least one.
    """
    return float(_outscored(positive, negative).mean())


def _outscored(scores: Sequence[float], others: Sequence[float]) -> Floats:
    """Return of each score the share of the others that are lower, ties counted half."""
    ordered = np.sort(np.asarray(others, dtype=float))
    lower, not_higher = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    return np.asarray((lower + not_higher) / (2 * len(ordered)))


def auroc_interval(positive: Sequence[float], negative: Sequence[float]) -> Interval:
    """Return Newcombe's interval (method 5): areas whose score statistic (Hanley–McNeil variance) is within ±1.96.

    V(θ) = θ(1−θ) [1 + N(1−θ)/(2−θ) + Nθ/(1+θ)] / (mn) with N = (m+n)/2 − 1, of m positives and n negatives. The
    interval exists for 0 and 1, too. V supposes that both kinds of scores are spread alike. If the variance of DeLong
    and others (1988) is larger, V grows in the same ratio. That is so where some negatives are far below the positives
    and others above most of them.

    Args:
        positive: Scores of in-scope queries.
        negative: Scores of out-of-scope queries.
    """
    from scipy.optimize import brentq

    m, n = len(positive), len(negative)
    if m < 2 or n < 2:
        return Interval(note="not computable: fewer than two queries on one side")
    area, extra = auroc(positive, negative), (m + n) / 2 - 1
    own = np.var(_outscored(positive, negative), ddof=1) / m + np.var(_outscored(negative, positive), ddof=1) / n

    def variance(theta: float) -> float:
        return theta * (1 - theta) * (1 + extra * (1 - theta) / (2 - theta) + extra * theta / (1 + theta)) / (m * n)

    reach = Z * sqrt(max(1.0, float(own) / variance(area))) if 0 < area < 1 else Z
    # At 0 and 1 the variance vanishes, so that 0 and 1 solve the equations themselves. The roots are sought inside.
    inner = 1e-9
    low = 0.0 if area <= 0 else float(brentq(lambda t: t + reach * sqrt(variance(t)) - area, 0.0, min(area, 1 - inner)))
    high = 1.0 if area >= 1 else float(brentq(lambda t: t - reach * sqrt(variance(t)) - area, max(area, inner), 1.0))
    return Interval(low=low, high=high)
