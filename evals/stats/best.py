"""Comparison of all cells with the best: which may be it, and how far each may be below it. Pure and seeded.

Multiple comparisons with the best (Hsu, 1984), paired by query. Let i be the truly best cell. With 95% no cell's lead
over it is wrong by more than qᵢ standard errors, all cells at once: qᵢ is Dunnett's quantile for control i (1955), that
of the largest of the correlated deviations, here by a multiplier bootstrap of queries with normal multipliers
(Chernozhukov, Chetverikov & Kato, 2013). So i may be the best unless some cell is ahead of it by more. Cells that have
left are no rivals of those that stay: step-down, until none leaves (Romano & Wolf, 2005). And for any cell r, whichever
way it was chosen, r − best is at least the least over the cells i that stay of (r − i) − qᵢ · standard error.

A query more. Neighbouring cells score the same on most queries, and the rare query on which a cell loses everything may
not be among those asked: then the standard error is far too small, and the best cell would be kept in 0.10 to 0.90 of
samples. So one query more is counted, *not seen*, on which the leading cell loses.

Of all that users may ask, or of these queries. A sample of n of N queries leaves 1/n − 1/N of a query's variance, and
the unseen query is among the rest with the probability 1 − n/N: when all are judged nothing is uncertain. Where
judging looks at several sizes of a growing sample and may stop at any, the deviations of all planned looks are drawn
jointly. In the time t = 1/(1/n − 1/N) the deviation times t is a Brownian motion, so that one quantile serves all
looks, whichever is the last.

Few queries: a normal quantile becomes the one of Student's t at the same tail probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import LEVEL, SAME, student_quantile

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Singles = NDArray[np.float32]
Places = NDArray[np.intp]
DRAWS = 2_000
# With no difference seen on n queries a bound is then about −3/n of the span: rule of three.
LEAST = 2.0
# No simulated quantile of the largest of several deviations is below: one deviation's is 1.64, within 0.05 by chance.
SMALLEST = 1.4
# Variances of differences below this are rounding.
NOTHING = 1e-14
# Queries before the first look, as fewer say too little of a variance.
FIRST = 20
# Each look takes an eighth more.
GROWTH = 1.12
# Numbers of a block that stays in a processor's cache.
CACHED = 250_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Comparison of all cells with the best one, at 95% for all cells and looks together.

    Attributes:
        members: [cells], those that may be the best.
        lower: [cells], bound on (cell − best), at most 0; its negative is the largest regret. Simultaneous.
        quantiles: [cells], qᵢ in standard errors, at least 2; NaN of cells that are no members.
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
    loss: float,
    span: float,
    strata: NDArray[np.int64] | None = None,
    looks: Sequence[int] = (),
    judged: int | None = None,
    seed: int,
) -> Compared:
    """Find the cells that may be the best, and bound how far each is below it.

    Args:
        values: [queries, cells], finite, at least two queries; more is better. Their means are the cells' estimates: of
            a sample corrected by a proxy, residuals plus λ times the proxy's mean over all queries.
        loss: What the leading cell loses on a query where it loses, in the values' unit: decides the set. Of scores the
            usual score, of residuals the largest difference seen on a query.
        span: The largest difference of two cells on one query: decides the bounds.
        strata: [queries], the number of each one's stratum; how strata differ is no chance. None for one.
        looks: Empty for all that users may ask. For *these* queries, the planned numbers of judged queries, ascending
            and the last one all of them (`planned_looks`); the first len(values) are judged now.
        judged: Number of queries that tell the variance, where values are pseudo-values of more; None for all.
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
        moved, error = with_unseen(*_between(mean, root, n, rows, columns), n, loss, open_share)
        return np.asarray((moved > quantiles * error + SAME).any(axis=0))

    def quantiles_of(controls: Places, rivals: Places) -> Floats:
        normal = _largest(deviations, _between(mean, root, n, rivals, controls)[1], rivals, controls)
        # Student's at the same tail probabilities.
        return np.asarray(-stdtrit(freedom, ndtr(-normal)), dtype=float)

    # By Bonferroni no quantile is larger: whom the best is ahead of by more needs none. Nor do those never far behind.
    left = everyone[~beaten(best, everyone, student_quantile(freedom, (1 - LEVEL) / (cells * max(1, len(looks)))))]
    while len(behind := left[beaten(left, left, SMALLEST)]):
        out = behind[beaten(left, behind, quantiles_of(behind, left))]
        if not len(out):
            break
        left = np.setdiff1d(left, out)
    quantiles = np.full(cells, np.nan)
    quantiles[left] = np.maximum(quantiles_of(left, everyone), LEAST)
    times = 1 + _all_or_nothing(values, int(best[0]), span)
    moved, error = with_unseen(*_between(mean, root, n, everyone, left), n, span, open_share, times)
    below = moved - quantiles[left] * error
    below[left, np.arange(len(left))] = 0.0
    lower = np.minimum(below.min(axis=1), 0.0)
    return Compared(members=np.isin(everyone, left), lower=lower, quantiles=quantiles, unseen=times)


def with_unseen(
    difference: Floats, variance: Floats, n: int, loss: Floats | float, open_share: float = 1.0, times: float = 1.0
) -> tuple[Floats, Floats]:
    """Return mean differences and their standard errors, with queries more that were not seen.

    Args:
        difference: Means over n queries.
        variance: Of one query's difference, divided by n.
        n: Queries.
        loss: The difference is minus this on a query that was not seen.
        open_share: Share of the target's queries that are not among the n: 1 for all that users may ask. So likely is
            an unseen query to be in the mean; and if it is, it counts as one of all.
        times: Number of unseen queries.
    """
    whole, part = n + times, n + open_share * times
    squares, mean = (n * (variance + difference**2) + times * loss**2) / whole, (n * difference - times * loss) / whole
    error = np.sqrt(open_share * np.maximum(squares - mean**2, 0.0) / max(1.0, whole - 1))
    return (n * difference - open_share * times * loss) / part, error


def _root(values: Floats, strata: NDArray[np.int64]) -> Floats:
    """Return R [at most cells, cells], with RᵀR the sums of squares and products within strata."""
    means = np.stack([values.mean(axis=0, where=(strata == s)[:, None]) for s in range(int(strata.max()) + 1)])
    return np.asarray(np.linalg.qr(values - means[strata], mode="r"))


def _deviations(root: Floats, looks: Sequence[int], rng: np.random.Generator) -> Singles:
    """Draw [cells, looks · draws], in standard deviations of one query."""
    times = np.array([1 / (1 / n - 1 / looks[-1]) for n in looks[:-1]] or [1.0])
    steps = np.sqrt(np.diff(times, prepend=0.0) / times[-1]).astype(np.float32)
    # Single precision holds what tells cells apart, not what moves all of them alike.
    apart = (root - root.mean(axis=1, keepdims=True)).astype(np.float32)
    walk = rng.standard_normal((len(times), DRAWS, len(root)), dtype=np.float32) * steps[:, None, None]
    walk = np.cumsum(walk, axis=0) / np.sqrt(times / times[-1], dtype=np.float32)[:, None, None]
    drawn: Singles = apart.T @ walk.reshape(-1, len(root)).T
    return drawn


def _between(mean: Floats, root: Floats, n: int, rows: Places, columns: Places) -> tuple[Floats, Floats]:
    """Return the mean differences row − column, and the variances of a query's difference, dividing by n."""
    square = (root**2).sum(axis=0) / n
    variance = square[rows, None] + square[columns] - 2 / n * root[:, rows].T @ root[:, columns]
    return mean[rows, None] - mean[columns], np.where(variance > NOTHING, variance, 0.0)


def _largest(deviations: Singles, variance: Floats, rivals: Places, controls: Places) -> Floats:
    """Return Dunnett's quantile for every control: of the largest lead of a rival over it, in standard errors."""
    weights = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0).astype(np.float32)
    drawn = deviations.shape[1]
    largest = np.empty((len(controls), drawn), dtype=np.float32)
    step = max(1, CACHED // len(rivals))
    for some in (slice(start, start + step) for start in range(0, drawn, step)):
        part = deviations[rivals, some]
        moved = np.empty_like(part)
        for control, weight, leads in zip(controls.tolist(), weights.T[:, :, None], largest, strict=True):
            np.subtract(part, deviations[control, some], out=moved)
            np.multiply(moved, weight, out=moved)
            moved.max(axis=0, out=leads[some])
    of_all_looks = largest.reshape(len(controls), -1, DRAWS).max(axis=1)
    return np.asarray(np.quantile(of_all_looks, LEVEL, axis=1), dtype=float)


def _all_or_nothing(values: Floats, best: int, span: float) -> float:
    """Return the share of the differences to the best cell that are as large as can be: of hits all, and all losses."""
    sizes = np.abs(values - values[:, [best]])
    differing = int((sizes > SAME).sum())
    return int((sizes >= span - SAME).sum()) / differing if differing else 0.0
