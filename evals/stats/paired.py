"""Two runs over the same queries: paired differences with interval and p value, and Holm's adjustment. Pure and seeded.

Which test, and why. Scores of retrieval are bounded, skewed and full of ties, and what is reported is a difference of
means, so the test is Fisher's randomisation test of that very difference: under the hypothesis that the two runs are
exchangeable on each query, the sign of each query's difference is a coin. Smucker, Allan & Carterette (CIKM 2007) found
it, the bootstrap and the t-test to agree on TREC runs, and advise against Wilcoxon's test, which answers another
question (it drops ties and sees ranks only) and disagrees. For scores of 0 or 1 it is McNemar's exact test.

Which interval. With t the share of ties: (1 − t²) · Student's + t² · the interval that the bounds of a difference give
(`bounded_intervals`). Where few queries differ, Student's is far too narrow; where all do, the bounds say nothing that
the differences do not. For scores of 0 or 1, whose differences are as large as can be, it is the latter alone, Tango's.

Test and interval agree. The interval excludes 0 only where the test rejects it, and p is the larger one of the test's
and the interval's own (the least level at which it excludes 0): p is below 0.05 just where the interval excludes 0.

Sources: McNemar (1947); Holm (1979); Tango (1998), score interval of a difference of paired proportions; Phipson &
Smyth (2010), why a sampled p value is (hits + 1) / (draws + 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from evals.stats.bounded_intervals import bounded_intervals
from evals.stats.intervals import FEWEST, RESAMPLES, SAME, Interval
from evals.stats.score_intervals import Floats, Pair, student

# Up to this many queries that differ, all 2^n signs are counted, as pairs of 2^(n/2) for either half.
EXACT = 30
# Draws in memory at a time.
BATCH = 1_000
ALPHA = 0.05
# Alpha at which an interval is nearly a point.
NEVER = 1 - 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Two runs' scores of the same queries, the second against the first.

    Attributes:
        baseline: Mean of the first, `other` of the second.
        difference: `other` − `baseline`.
        interval: 95% interval of the difference.
        p: Two-sided p value of no difference, below 0.05 just where `interval` excludes 0.
        p_test: The test's own, at most `p`.
        test: Name of the test.
        rises: Queries on which the second is higher; `ties`, the same; `falls`, lower.
    """

    n: int
    baseline: float
    other: float
    difference: float
    interval: Interval
    p: float
    p_test: float
    test: str
    rises: int
    ties: int
    falls: int


def compare(baseline: Sequence[float], other: Sequence[float], seed: int) -> Paired:
    """Compare two runs' scores of the same queries, in the same order.

    Args:
        baseline: One finite number a query, at least one.
        other: One finite number a query, in the same order.
        seed: Seed of the drawn signs.
    """
    first, second = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    differences = np.where(np.abs(second - first) <= SAME, 0.0, second - first)
    rises, falls = int((differences > SAME).sum()), int((differences < -SAME).sum())
    n = len(differences)
    binary = _binary(first) and _binary(second)
    p_test, test = (mcnemar(rises, falls), "McNemar, exact") if binary else sign_flip(differences, seed)
    interval, p = Interval(note=obstacle(differences, binary=binary)), p_test
    if not interval.note:
        span = max(1.0, first.max(), second.max()) - min(0.0, first.min(), second.min())
        interval, p = agreeing(lambda alpha: _ends(differences, span, alpha, binary=binary), p_test)
    return Paired(
        n=n,
        baseline=float(first.mean()),
        other=float(second.mean()),
        difference=float(differences.mean()),
        interval=interval,
        p=p,
        p_test=p_test,
        test=test,
        rises=rises,
        ties=n - rises - falls,
        falls=falls,
    )


def difference_intervals(differences: Floats, span: float, alpha: float = ALPHA, *, binary: bool = False) -> Pair:
    """Return the intervals of mean differences before they agree with the test: lower and upper ends.

    (1 − t²) · Student's + t² · the interval by the bounds ±span, where t is the share of ties.

    Args:
        differences: [n, columns], n at least 2.
        span: The largest difference possible.
        alpha: Probability that an interval misses the mean, between 0 and 1.
        binary: True if each difference is 0 or ±span, for which the interval by the bounds is given alone.
    """
    n, mean = len(differences), differences.mean(axis=0)
    half = student(np.asarray(float(n)), alpha) * differences.std(axis=0, ddof=1) / sqrt(n)
    low, high = bounded_intervals(differences, -span, span, alpha)
    weight = 1.0 if binary else (np.abs(differences) <= SAME).mean(axis=0) ** 2
    return (1 - weight) * (mean - half) + weight * low, (1 - weight) * (mean + half) + weight * high


def mcnemar(rises: int, falls: int) -> float:
    """Return McNemar's exact two-sided p value for scores of 0 and 1: half of the pairs that differ should rise."""
    from scipy.special import bdtr

    # binomial(n, 1/2) is symmetric: both tails are the same
    return min(1.0, 2 * float(bdtr(min(rises, falls), rises + falls, 0.5)))


def sign_flip(differences: Floats, seed: int) -> tuple[float, str]:
    """Return the two-sided p value of Fisher's randomisation test of a mean difference, and the test's name.

    The share of sign changes under which the sum is at least as far from 0 as observed: of all of them where at most 30
    queries differ, else of 9,999 drawn ones and the observed.
    """
    moved = np.abs(differences[np.abs(differences) > SAME])
    # The slack covers the last bits, which differ with the order of summation.
    observed = abs(float(differences.sum())) - SAME * float(moved.sum())
    if moved.size <= EXACT:
        # Meet in the middle: 2 · 2^15 sums in place of 2^30, and a binary search for each.
        halves = _signed_sums(moved[::2]), np.sort(_signed_sums(moved[1::2]))
        beyond = halves[1].size - np.searchsorted(halves[1], observed - halves[0])
        return min(1.0, 2 * float(beyond.sum()) / 2**moved.size), "randomisation, exact"
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, RESAMPLES, BATCH):
        draws = min(BATCH, RESAMPLES - start)
        signs = 1 - 2 * rng.integers(0, 2, size=(draws, moved.size), dtype=np.int8)
        hits += int((np.abs(signs @ moved) >= observed).sum())
    return (hits + 1) / (RESAMPLES + 1), f"randomisation, {RESAMPLES:,} draws"


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values so that calling those below 0.05 different is wrong anywhere in at most 5% of families.

    The i-th smallest of m times m − i + 1, no smaller than the one before, at most 1; in the order given.
    """
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def _binary(values: Floats) -> bool:
    return bool(((np.abs(values) <= SAME) | (np.abs(values - 1) <= SAME)).all())


def _signed_sums(sizes: Floats) -> Floats:
    """Return the sums of all choices of signs."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums


def obstacle(differences: Floats, *, binary: bool) -> str:
    """Return the reason why there is no interval; empty where there is one."""
    n, ties = len(differences), bool((np.abs(differences) <= SAME).all())
    if n < 2:
        return "not computable: fewer than two queries"
    if binary or ties:
        return ""
    if n < FEWEST:
        return f"not computable: {n} values are too few, {FEWEST} are needed"
    return "not computable: all values are equal" if np.ptp(differences) <= SAME else ""


def _ends(differences: Floats, span: float, alpha: float, *, binary: bool) -> tuple[float, float]:
    (low,), (high,) = difference_intervals(differences[:, None], span, alpha, binary=binary)
    return float(low), float(high)


def agreeing(ends: Callable[[float], tuple[float, float]], p: float) -> tuple[Interval, float]:
    """Return the 95% interval, widened to 0 where the test does not reject it, and the larger of both p values.

    Args:
        ends: The interval's, by alpha.
        p: P value of the test.
    """
    from scipy.optimize import brentq

    def distance(alpha: float) -> float:
        """Return the distance from 0 to the interval at level 1 − alpha, negative where it holds 0."""
        low, high = ends(alpha)
        return max(low, -high)

    low, high = ends(ALPHA)
    # The interval must not be sharper than the exact test.
    if p >= ALPHA:
        low, high = min(low, 0.0), max(high, 0.0)
    if p < NEVER and distance(p) < 0:
        p = float(brentq(distance, p, NEVER)) if distance(NEVER) > 0 else 1.0
    return Interval(low=low, high=high), p
