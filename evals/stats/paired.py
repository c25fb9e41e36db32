"""Two runs over the same queries: paired differences with interval and p value, and Holm's adjustment. Pure and seeded.

Which test, and why. Scores of retrieval are bounded, skewed and full of ties, and what is reported is a difference of
means, so the test is Fisher's randomisation test of that very difference: under the hypothesis that the two runs are
exchangeable on each query, the sign of each query's difference is a coin. Smucker, Allan & Carterette (CIKM 2007) found
it, the bootstrap and the t-test to agree on TREC runs, and advise against Wilcoxon's test, which answers another
question (it drops ties and sees ranks only) and disagrees. Of scores of 0 or 1 it is McNemar's exact test (1947).

Which interval. With t the share of ties: (1 − t²) · Student's + t² · the interval that the bounds of a difference give
(`intervals.bounded_intervals`). Where few queries differ, Student's is far too narrow; where all do, the bounds say
nothing that the differences do not. For scores of 0 or 1, whose differences are as large as can be, it is the latter
alone, Tango's (1998).

Test and interval agree: where the test does not reject, the interval is widened to hold 0; where the interval holds 0,
p is at least 0.05.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import FEWEST, RESAMPLES, SAME, Floats, Interval, Pair, bounded_intervals, student_intervals

# Up to this many queries that differ, all 2^n signs are counted, as pairs of 2^(n/2) for either half.
EXACT = 30
# Draws in memory at a time.
BATCH = 1_000
ALPHA = 0.05
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Two runs' scores of the same queries, the second against the first.

    Attributes:
        n: Number of queries.
        baseline: Mean of the first.
        other: Mean of the second.
        difference: `other` − `baseline`.
        interval: 95% interval of the difference.
        p: Two-sided p value of no difference, below 0.05 just where `interval` excludes 0.
        rises: Queries on which the second is higher.
        ties: Queries on which both are the same.
        falls: Queries on which the second is lower.
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


def compare(baseline: Sequence[float], other: Sequence[float], seed: int) -> Paired:
    """Compare two runs' scores of the same queries, in the same order.

    Args:
        baseline: One finite number a query, at least one.
        other: One finite number a query, in the same order.
        seed: Seed of the drawn signs.
    """
    first, second = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    differences = np.where(np.abs(second - first) <= SAME, 0.0, second - first)
    rises, falls = int((differences > 0).sum()), int((differences < 0).sum())
    span = max(1.0, first.max(), second.max()) - min(0.0, first.min(), second.min())
    interval, p = Interval(note=_obstacle(differences, span)), sign_flip(differences, seed)
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
    """Return the intervals of mean differences before they agree with the test: lower and upper ends.

    (1 − t²) · Student's + t² · the interval by the bounds ±span, where t is the share of ties; the latter alone where
    each difference is 0 or ±span.

    Args:
        differences: [n, columns], n at least 2.
        span: The largest difference possible.
    """
    weight = np.where(_is_all_or_nothing(differences, span), 1.0, (np.abs(differences) <= SAME).mean(axis=0) ** 2)
    own, bounded = student_intervals(differences), bounded_intervals(differences, -span, span)
    low, high = ((1 - weight) * a + weight * b for a, b in zip(own, bounded, strict=True))
    return low, high


def sign_flip(differences: Floats, seed: int) -> float:
    """Return the two-sided p value of Fisher's randomisation test of a mean difference.

    The share of sign changes under which the sum is at least as far from 0 as observed: of all of them where at most 30
    queries differ, else of 9,999 drawn ones and the observed (Phipson & Smyth, 2010).
    """
    moved = np.abs(differences[np.abs(differences) > SAME])
    # The slack covers the last bits, which differ with the order of summation.
    observed = abs(float(differences.sum())) - SAME * float(moved.sum())
    if moved.size <= EXACT:
        # Meet in the middle: 2 · 2^15 sums in place of 2^30, and a binary search for each.
        halves = _signed_sums(moved[::2]), np.sort(_signed_sums(moved[1::2]))
        beyond = halves[1].size - np.searchsorted(halves[1], observed - halves[0])
        return float(min(1.0, 2 * beyond.sum() / 2**moved.size))
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, RESAMPLES, BATCH):
        signs = 1 - 2 * rng.integers(0, 2, size=(min(BATCH, RESAMPLES - start), moved.size), dtype=np.int8)
        hits += int((np.abs(signs @ moved) >= observed).sum())
    return (hits + 1) / (RESAMPLES + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values so that calling those below 0.05 different is wrong anywhere in at most 5% of families.

    The i-th smallest of m times m − i + 1, no smaller than the one before, at most 1; in the order given. Holm (1979).
    """
    order, count = np.argsort(p_values, kind="stable"), len(p_values)
    adjusted = np.empty(count)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, np.asarray(p_values)[order] * np.arange(count, 0, -1)))
    return adjusted.tolist()


def _obstacle(differences: Floats, span: float) -> str:
    """Return the reason why there is no interval; empty where there is one."""
    n = len(differences)
    if n < 2:
        return "not computable: fewer than two queries"
    if _is_all_or_nothing(differences, span):
        return ""
    if n < FEWEST:
        return f"not computable: {n} values are too few, {FEWEST} are needed"
    return "not computable: all values are equal" if np.ptp(differences) <= SAME else ""


def agreed(low: Floats | float, high: Floats | float, p: float) -> tuple[Interval, float]:
    """Return an interval that holds 0 where the test does not reject it, and p at least 0.05 where it does."""
    low, high = float(np.squeeze(low)), float(np.squeeze(high))
    if p >= ALPHA:
        low, high = min(low, 0.0), max(high, 0.0)
    return Interval(low=low, high=high), max(p, ALPHA) if low <= 0 <= high else p


def _is_all_or_nothing(differences: Floats, span: float) -> Bools:
    sizes = np.abs(differences)
    return np.asarray(((sizes <= SAME) | (sizes >= span - SAME)).all(axis=0))


def _signed_sums(sizes: Floats) -> Floats:
    """Return the sums of all choices of signs."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums
