"""Two runs over the same queries: paired differences with interval and p value, and Holm's adjustment. Pure and seeded.

Test. Scores of retrieval are bounded, skewed and full of ties, and the report shows a difference of means. So the test
is Fisher's randomisation test of that difference: if the two runs are exchangeable on each query, the sign of each
query's difference is random. Smucker, Allan & Carterette (CIKM 2007) found that this test, the bootstrap and the t-test
agree on TREC runs. They advise against Wilcoxon's test, which disagrees, as it drops ties and reads ranks only. For
scores of 0 or 1 the test is McNemar's exact test (1947).

Interval. With t the share of ties, it is (1 − t²) · Student's interval + t² · the interval by the bounds of a
difference (`intervals.bounded_intervals`). If few queries differ, Student's is far too narrow. If all differ, the
bounds add nothing to the differences. Scores of 0 or 1 have differences as large as can be: their interval is by the
bounds alone, which is Tango's (1998).

Test and interval agree. If the test does not reject, the interval is widened to hold 0. If the interval holds 0, p is
at least 0.05.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from evals.stats.intervals import (
    FEWEST,
    RESAMPLES,
    SAME,
    Bools,
    Floats,
    Interval,
    Pair,
    bounded_intervals,
    student_intervals,
)

# Up to this number of differing queries, all 2^n choices of signs are counted, as pairs of 2^(n/2) of each half.
EXACT = 30
# Draws that are in memory at once.
BATCH = 1_000
# p values below this prove a difference.
ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Two runs' scores of the same queries, the second against the first.

    Attributes:
        n: Number of queries.
        baseline: Mean of the first run.
        other: Mean of the second run.
        difference: `other` − `baseline`.
        interval: 95% interval of the difference.
        p: Two-sided p value of no difference. It is below 0.05 exactly if `interval` excludes 0.
        rises: Number of queries on which the second run is higher.
        ties: Number of queries on which both runs are equal.
        falls: Number of queries on which the second run is lower.
    """

    n: int
    baseline: float
    other: float
    difference: float
    interval: Interval
    p: float
    rises: int
    ties: int
    falls: int


def compare(baseline: Sequence[float], other: Sequence[float], seed: int, span: float = inf) -> Paired:
    """Compare two runs' scores of the same queries, in the same order.

    Args:
        baseline: One finite number a query, at least one.
        other: One finite number a query, in the same order.
        seed: Seed of the drawn signs.
        span: The largest possible difference; if it is infinite, that of 0, 1 and the numbers given.
    """
    first, second = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    differences = np.where(np.abs(second - first) <= SAME, 0.0, second - first)
    rises, falls = int((differences > 0).sum()), int((differences < 0).sum())
    if not isfinite(span):
        span = max(1.0, first.max(), second.max()) - min(0.0, first.min(), second.min())
    interval, p = Interval(note=_why_none(differences, span)), sign_flip(differences, seed)
    if not interval.note:
        interval, p = agreed(*difference_intervals(differences[:, None], span), p)
    return Paired(
        n=len(differences),
        baseline=float(first.mean()),
        other=float(second.mean()),
        difference=float(differences.mean()),
        interval=interval,
        p=p,
        rises=rises,
        ties=len(differences) - rises - falls,
        falls=falls,
    )


def difference_intervals(differences: Floats, span: float) -> Pair:
    """Return the intervals of mean differences, lower and upper ends [columns], before they agree with the test.

    They are (1 − t²) · Student's + t² · the interval by the bounds ±span, where t is the share of ties; the latter
    alone if each difference is 0 or ±span.

    Args:
        differences: [n, columns], n at least 2.
        span: The largest possible difference.
    """
    weight = np.where(_is_all_or_nothing(differences, span), 1.0, (np.abs(differences) <= SAME).mean(axis=0) ** 2)
    student, bounded = student_intervals(differences), bounded_intervals(differences, -span, span)
    low, high = ((1 - weight) * a + weight * b for a, b in zip(student, bounded, strict=True))
    return low, high


def sign_flip(differences: Floats, seed: int) -> float:
    """Return the two-sided p value of Fisher's randomisation test of a mean difference, [n].

    It is the share of sign changes under which the sum is at least as far from 0 as observed. If at most 30 queries
    differ, all sign changes count, else 9,999 drawn ones and the observed one (Phipson & Smyth, 2010).
    """
    sizes = np.abs(differences[np.abs(differences) > SAME])
    # The slack covers rounding, which depends on the order of summation.
    observed = abs(float(differences.sum())) - SAME * float(sizes.sum())
    if sizes.size <= EXACT:
        # The sums of both halves are searched in each other: 2 · 2^15 sums in place of 2^30.
        halves = _signed_sums(sizes[::2]), np.sort(_signed_sums(sizes[1::2]))
        beyond = halves[1].size - np.searchsorted(halves[1], observed - halves[0])
        return float(min(1.0, 2 * beyond.sum() / 2**sizes.size))
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, RESAMPLES, BATCH):
        signs = 1 - 2 * rng.integers(0, 2, size=(min(BATCH, RESAMPLES - start), sizes.size), dtype=np.int8)
        hits += int((np.abs(signs @ sizes) >= observed).sum())
    return (hits + 1) / (RESAMPLES + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values of a family (Holm, 1979): with those below 0.05 called different, 95% of families have no error.

    The i-th smallest of m values is multiplied by m − i + 1. It is no smaller than the one before, and at most 1.

    Returns:
        The adjusted values, in the order of `p_values`.
    """
    order, count = np.argsort(p_values, kind="stable"), len(p_values)
    adjusted = np.empty(count)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, np.asarray(p_values)[order] * np.arange(count, 0, -1)))
    return adjusted.tolist()


def _why_none(differences: Floats, span: float) -> str:
    """Return the reason why there is no interval; empty if there is one."""
    n = len(differences)
    if n < 2:
        return "not computable: fewer than two queries"
    if _is_all_or_nothing(differences, span):
        return ""
    if n < FEWEST:
        return f"not computable: {n} values are too few, {FEWEST} are needed"
    return "not computable: all values are equal" if np.ptp(differences) <= SAME else ""


def agreed(low: Floats | float, high: Floats | float, p: float) -> tuple[Interval, float]:
    """Return an interval that holds 0 if the test does not reject 0, and p of at least 0.05 if the interval holds 0."""
    low, high = float(np.squeeze(low)), float(np.squeeze(high))
    if p >= ALPHA:
        low, high = min(low, 0.0), max(high, 0.0)
    return Interval(low=low, high=high), max(p, ALPHA) if low <= 0 <= high else p


def _is_all_or_nothing(differences: Floats, span: float) -> Bools:
    """Return for each column whether every difference is 0 or as large as possible."""
    sizes = np.abs(differences)
    return np.asarray(((sizes <= SAME) | (sizes >= span - SAME)).all(axis=0))


def _signed_sums(sizes: Floats) -> Floats:
    """Return the sums of all choices of signs."""
    signs = 1 - 2 * (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1)
    return np.asarray(signs @ sizes)
