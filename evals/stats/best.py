"""Comparison of all cells with the best: which cells may be the best, and how far each may be below it. Pure, seeded.

Method. These are multiple comparisons with the best (Hsu, 1984), paired by query. Let i be the truly best cell. With
95%, for all cells together, no cell's lead over i is wrong by more than qᵢ standard errors. qᵢ is Dunnett's quantile
for control i (1955), the quantile of the largest of the correlated deviations. A multiplier bootstrap of queries with
normal multipliers gives it (Chernozhukov, Chetverikov & Kato, 2013). So i may be the best unless some cell leads it by
more. Cells that have left are no rivals of those that stay: the comparison steps down until no cell leaves (Romano &
Wolf, 2005). For any cell r, however it was chosen, r − best is at least the minimum over the cells i that stay of (r −
i) − qᵢ · standard error.

The unseen query. Neighbouring cells score the same on most queries, and the rare query on which a cell loses everything
may be missing in the sample. The standard error is then far too small, and the best cell would be kept in 0.10 to 0.90
of samples. So one further query is counted that was *not seen*, and on which the leading cell loses.

Targets. The target is all that users may ask, or these N queries. For the latter, a sample of n of N queries leaves
1/n − 1/N of a query's variance, and the unseen query is among the rest with the probability 1 − n/N: if all are judged,
nothing is uncertain. If judging looks at several sizes of a growing sample and may stop at any of them, the deviations
of all planned looks are drawn jointly. In the time t = 1/(1/n − 1/N), the deviation times t is a Brownian motion, so
that one quantile serves all looks, whichever is the last.

Few queries. A normal quantile is replaced by that of Student's t at the same tail probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import LEVEL, SAME, Bools, Floats, Integers, student_quantile

Singles = NDArray[np.float32]
Places = NDArray[np.intp]
DRAWS = 2_000
# Least quantile. If no difference is seen on n queries, a bound is then about −3/n of the span: the rule of three.
LEAST = 2.0
# No simulated quantile is below this: that of a single deviation is 1.64, and chance moves it by about 0.05.
SMALLEST = 1.4
# Number of unseen queries on which a cell that leads for users loses. Of many rivals, each with rare losses on queries
# of its own, the one that leads may have had none of them: with 1 the best was kept in 0.71 of samples.
RIVALS = 2.0
# Variances of differences below this are rounding.
NOTHING = 1e-14
# Number of queries before the first look: fewer say too little of a variance.
FIRST = 20
# Each look takes an eighth more queries than the one before.
GROWTH = 1.12
# Size of a block of numbers that stays in a processor's cache.
CACHED = 250_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Comparison of all cells with the best one, at 95% for all cells and looks together.

    Attributes:
        members: [cells], whether a cell may be the best.
        lower: [cells], lower bound on (cell − best), at most 0. Its negative is the largest regret.
        quantiles: [cells], qᵢ in standard errors, at least 2; NaN for cells that are no members.
        unseen: Number of unseen queries that the bounds count, 1 to 2.
    """

    members: Bools
    lower: Floats
    quantiles: Floats
    unseen: float


def planned_looks(total: int) -> list[int]:
    """Return the numbers of judged queries at which a growing sample of `total` is looked at: 20, 23, 26, … total."""
    looks = [min(FIRST, total)]
    while looks[-1] < total:
        looks.append(min(total, ceil(GROWTH * looks[-1])))
    return looks


def compare_with_best(
    values: Floats,
    *,
    span: float,
    strata: Integers | None = None,
    looks: Sequence[int] = (),
    judged: int | None = None,
    seed: int,
) -> Compared:
    """Find the cells that may be the best, and bound how far each is below it.

    Args:
        values: [queries, cells], finite, at least two queries; more is better. Column means are the estimates of the
            cells. For a sample that a proxy corrects, values are the residuals plus λ times the proxy's mean over all
            queries.
        span: The largest possible difference of two cells on one query, in the unit of the values. The leading cell
            loses it on the unseen query.
        strata: [queries], the number of each query's stratum; differences between strata add no variance. None for a
            single stratum.
        looks: Empty if the target is all that users may ask. If it is *these* queries: the planned numbers of judged
            queries, ascending up to their total (`planned_looks`); the first len(values) queries are judged now.
        judged: Number of queries from which the variance is known, if values are pseudo-values of more queries; None
            for all.
        seed: Seed of the simulated deviations.
    """
    from scipy.special import ndtr, stdtrit

    n, cells = values.shape
    strata = np.zeros(n, dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    open_share = 1 - n / looks[-1] if looks else 1.0
    mean, root = values.mean(axis=0), _root(values, strata)
    freedom = max(1, (judged or n) - int(strata.max()) - 1)
    deviations = _deviations(root / np.sqrt(n), looks, np.random.default_rng(seed))
    everyone = np.arange(cells)
    best = np.array([mean.argmax()])

    def beaten(rows: Places, columns: Places, quantiles: Floats | float) -> Bools:
        times = 1.0 if looks else RIVALS
        lead, error = with_unseen(*_between(mean, root, n, rows, columns), n, span, open_share, times)
        return np.asarray((lead > quantiles * error + SAME).any(axis=0))

    def quantiles_of(controls: Places, rivals: Places) -> Floats:
        normal = _largest(deviations, _between(mean, root, n, rivals, controls)[1], rivals, controls)
        # Student's at the same tail probabilities.
        return np.asarray(-stdtrit(freedom, ndtr(-normal)), dtype=float)

    # A cell that the best leads by more than Bonferroni's quantile leaves at once: no simulated quantile is larger. In
    # the steps, a quantile is simulated only for cells that are behind by more than the smallest one.
    left = everyone[~beaten(best, everyone, student_quantile(freedom, (1 - LEVEL) / (cells * max(1, len(looks)))))]
    while len(behind := left[beaten(left, left, SMALLEST)]):
        out = behind[beaten(left, behind, quantiles_of(behind, left))]
        if not len(out):
            break
        left = np.setdiff1d(left, out)
    quantiles = np.full(cells, np.nan)
    quantiles[left] = np.maximum(quantiles_of(left, everyone), LEAST)
    times = 1 + _all_or_nothing(values, int(best[0]), span)
    lead, error = with_unseen(*_between(mean, root, n, everyone, left), n, span, open_share, times)
    below = lead - quantiles[left] * error
    below[left, np.arange(len(left))] = 0.0
    lower = np.minimum(below.min(axis=1), 0.0)
    return Compared(members=np.isin(everyone, left), lower=lower, quantiles=quantiles, unseen=times)


def with_unseen(
    difference: Floats, variance: Floats, n: int, loss: Floats | float, open_share: float = 1.0, times: float = 1.0
) -> tuple[Floats, Floats]:
    """Return mean differences and their standard errors, with unseen queries counted in.

    Args:
        difference: Mean differences over n queries.
        variance: Variances of a query's difference, with the divisor n.
        n: Number of queries.
        loss: The difference on an unseen query is −loss.
        open_share: Share of the target's queries that are not among the n, 1 for all that users may ask. It is the
            probability that an unseen query is in the mean.
        times: Number of unseen queries.
    """
    whole, part = n + times, n + open_share * times
    mean = (n * difference - times * loss) / whole
    squares = (n * (variance + difference**2) + times * loss**2) / whole
    error = np.sqrt(open_share * np.maximum(squares - mean**2, 0.0) / max(1.0, whole - 1))
    return (n * difference - open_share * times * loss) / part, error


def _root(values: Floats, strata: Integers) -> Floats:
    """Return R [at most cells, cells]; RᵀR has the sums of squares and products of cells within strata."""
    means = np.stack([values.mean(axis=0, where=(strata == s)[:, None]) for s in range(int(strata.max()) + 1)])
    return np.asarray(np.linalg.qr(values - means[strata], mode="r"))


def _deviations(root: Floats, looks: Sequence[int], rng: np.random.Generator) -> Singles:
    """Draw deviations of the cells' means at all looks, [cells, looks · draws], in standard deviations of one query."""
    times = np.array([1 / (1 / n - 1 / looks[-1]) for n in looks[:-1]] or [1.0])
    steps = np.sqrt(np.diff(times, prepend=0.0) / times[-1]).astype(np.float32)
    # What moves all cells alike is removed, so that single precision is enough for their differences.
    apart = (root - root.mean(axis=1, keepdims=True)).astype(np.float32)
    walk = rng.standard_normal((len(times), DRAWS, len(root)), dtype=np.float32) * steps[:, None, None]
    walk = np.cumsum(walk, axis=0) / np.sqrt(times / times[-1], dtype=np.float32)[:, None, None]
    return np.asarray(apart.T @ walk.reshape(-1, len(root)).T)


def _between(mean: Floats, root: Floats, n: int, rows: Places, columns: Places) -> tuple[Floats, Floats]:
    """Return the mean differences row − column, and the variances of a query's difference with the divisor n."""
    square = (root**2).sum(axis=0) / n
    variance = square[rows, None] + square[columns] - 2 / n * root[:, rows].T @ root[:, columns]
    return mean[rows, None] - mean[columns], np.where(variance > NOTHING, variance, 0.0)


def _largest(deviations: Singles, variance: Floats, rivals: Places, controls: Places) -> Floats:
    """Return Dunnett's quantile for every control: that of the largest lead of a rival over it, in standard errors."""
    weights = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0).astype(np.float32)
    drawn = deviations.shape[1]
    largest = np.empty((len(controls), drawn), dtype=np.float32)
    step = max(1, CACHED // len(rivals))
    for draws in (slice(start, start + step) for start in range(0, drawn, step)):
        part = deviations[rivals, draws]
        lead = np.empty_like(part)
        for control, weight, leads in zip(controls.tolist(), weights.T[:, :, None], largest, strict=True):
            np.subtract(part, deviations[control, draws], out=lead)
            np.multiply(lead, weight, out=lead)
            lead.max(axis=0, out=leads[draws])
    of_all_looks = largest.reshape(len(controls), -1, DRAWS).max(axis=1)
    return np.asarray(np.quantile(of_all_looks, LEVEL, axis=1), dtype=float)


def _all_or_nothing(values: Floats, best: int, span: float) -> float:
    """Return the share of the differences to the best cell that are as large as possible, 0 to 1; for hits it is 1."""
    sizes = np.abs(values - values[:, [best]])
    differing = int((sizes > SAME).sum())
    return int((sizes >= span - SAME).sum()) / differing if differing else 0.0
