"""Two runs over the same queries: paired differences with interval and p value, and Holm's adjustment. Pure and seeded.

Which test, and why. Scores of retrieval are bounded, skewed and full of ties, and what is reported is a difference of
means, so the test is Fisher's randomisation test of that very difference: under the hypothesis that the two runs are
exchangeable on each query, the sign of each query's difference is a coin. Smucker, Allan & Carterette (CIKM 2007) found
it, the bootstrap and the t-test to agree on TREC runs, and advise against Wilcoxon's test, which answers another
question (it drops ties and sees ranks only) and disagrees. For scores of 0 or 1 it is McNemar's exact test.

Sources: McNemar (1947); Holm (1979); Tango (1998), score interval of a difference of paired proportions (other
differences as `stats.mean_interval` says); Phipson & Smyth (2010), why a sampled p value is (hits + 1) / (draws + 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from evals.stats import RESAMPLES, SAME, Interval, Z, mean_interval

EXACT = 13
"""Up to this many queries that differ, all 2^n signs are looked at (fewer than the draws there would be)."""
BATCH = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Two runs' scores of the same queries, the second against the first.

    Attributes:
        baseline: Mean of the first, `other` of the second.
        difference: `other` − `baseline`.
        interval: 95% interval of the difference.
        p: Two-sided p value of no difference.
        test: How p was found.
        rises: Queries on which the second is higher; `ties`, the same; `falls`, lower.
    """

    n: int
    baseline: float
    other: float
    difference: float
    interval: Interval
    p: float
    test: str
    rises: int
    ties: int
    falls: int


def compare(baseline: Sequence[float], other: Sequence[float], seed: int) -> Paired:
    """Compare two runs' scores of the same queries, in the same order.

    Args:
        baseline: One finite number a query, at least one.
        other: As many.
        seed: Of the drawn signs.
    """
    first, second = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    differences = second - first
    rises, falls = int((differences > SAME).sum()), int((differences < -SAME).sum())
    n = len(differences)
    if _binary(first) and _binary(second):
        interval, p, test = paired_proportions_interval(rises, falls, n), mcnemar(rises, falls), "McNemar, exact"
    else:
        interval = mean_interval(differences.tolist(), shares=False)
        p, test = sign_flip(differences, seed)
    if n < 2:
        interval = Interval(note="not computable: fewer than two queries")
    elif not rises + falls and interval.low is None:
        interval = Interval(note="not computable: no query differs")
    return Paired(
        n=n,
        baseline=float(first.mean()),
        other=float(second.mean()),
        difference=float(differences.mean()),
        interval=interval,
        p=p,
        test=test,
        rises=rises,
        ties=n - rises - falls,
        falls=falls,
    )


def mcnemar(rises: int, falls: int) -> float:
    """Exact two-sided p value for scores of 0 and 1: of the pairs that differ, half should rise (binomial)."""
    from scipy.stats import binomtest

    return float(binomtest(rises, rises + falls).pvalue) if rises + falls else 1.0


def sign_flip(differences: NDArray[np.float64], seed: int) -> tuple[float, str]:
    """Two-sided p value of Fisher's randomisation test of a mean difference, and how it was found.

    The share of sign changes under which the sum is at least as far from 0 as observed: of all of them where at most 13
    queries differ, else of 9,999 drawn ones and the observed.
    """
    moved = np.abs(differences[np.abs(differences) > SAME])
    observed = abs(float(differences.sum())) - SAME * float(moved.sum())  # in another order the last bits differ
    if moved.size <= EXACT:
        signs = 1 - 2 * (np.arange(2**moved.size)[:, None] >> np.arange(moved.size) & 1)
        return float((np.abs(signs @ moved) >= observed).mean()), "randomisation, exact"
    rng = np.random.default_rng(seed)
    hits = 0
    for begun in range(0, RESAMPLES, BATCH):
        draws = min(BATCH, RESAMPLES - begun)
        signs = 1 - 2 * rng.integers(0, 2, size=(draws, moved.size), dtype=np.int8)
        hits += int((np.abs(signs @ moved) >= observed).sum())
    return (hits + 1) / (RESAMPLES + 1), f"randomisation, {RESAMPLES:,} draws"


def paired_proportions_interval(rises: int, falls: int, n: int) -> Interval:
    """Tango's score interval of a difference of two proportions of the same n queries, within [-1, 1].

    Those Δ whose score statistic (rises − falls − nΔ) / √(n (2q + Δ(1 − Δ))) lies within ±1.96, where q is the maximum
    likelihood estimate of the share that falls, given Δ. It holds its level for few and for no differing pairs.

    Args:
        rises: Queries that went from 0 to 1.
        falls: Queries that went from 1 to 0.
        n: All queries; fewer than two have no interval.
    """
    if n < 2:
        return Interval(note="not computable: fewer than two queries")
    estimate = (rises - falls) / n

    def deviation(delta: float) -> float:
        b = (2 * n - rises + falls) * delta - rises - falls
        root = sqrt(max(b * b + 8 * n * falls * delta * (1 - delta), 0.0))
        share = (root - b) / (4 * n)
        return Z * sqrt(max(n * (2 * share + delta * (1 - delta)), 0.0))

    inside = 1e-9  # the estimate itself may solve the equations, when no pair differs
    low = _root(lambda delta: rises - falls - n * delta - deviation(delta), -1.0, estimate - inside)
    high = _root(lambda delta: rises - falls - n * delta + deviation(delta), estimate + inside, 1.0)
    return Interval(low=low, high=high)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted so that calling those below 0.05 different is wrong anywhere in at most 5% of families.

    The i-th smallest of m times m − i + 1, no smaller than the one before, at most 1; in the order given.
    """
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def _binary(values: NDArray[np.float64]) -> bool:
    return bool(((np.abs(values) <= SAME) | (np.abs(values - 1) <= SAME)).all())


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    if low >= high or function(low) * function(high) >= 0:  # the estimate is ±1, and so is this end
        return max(-1.0, min(1.0, low if abs(low) > abs(high) else high))
    return float(brentq(function, low, high, xtol=1e-12))
