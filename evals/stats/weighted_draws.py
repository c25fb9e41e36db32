"""Queries drawn one after another, without replacement, by probabilities that may depend on all that was seen. Pure.

The m-th of M draws takes query i out of those left with the probability qₘ. What it says of a total over all N queries,

    tₘ = sum of the scores drawn before + its own score / qₘ,

is unbiased, whatever was seen before (Des Raj, 1956), and the errors of two draws are uncorrelated: a martingale. The
mean is estimated by Σ cₘ tₘ / N with cₘ proportional to 1/((N − m + 1)(N − m)), the inverse of the variance under equal
probabilities: this is LURE, whose weights 1 + (N − M)/(N − m) · (1/((N − m + 1) qₘ) − 1) Farquhar, Gal & Rainforth
(2021, On statistical bias in active learning) derive, used for evaluation by Kossen et al. (2021, Active testing). Its
covariance is Σ cₘ² (tₘ − t)(tₘ − t)ᵀ / N² · w/(w − 1), w the draws that these weights are worth. It is of the means
over these very N queries: what all verdicts would say. With equal probabilities it is (1/M − 1/N) · variance, and with
all drawn it is 0.

With a proxy, a score is the residual j − λ p, and λ · the mean of p over all N is added (`corrected_mean`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evals.stats.corrected_mean import Floats
from evals.stats.shrunk_means import weight_of_differences


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Queries in the order in which they were drawn.

    Attributes:
        queries: Their numbers, 0 to `total` − 1.
        chances: The probability of each, at its turn, among those not yet drawn.
        total: N.
    """

    queries: tuple[int, ...]
    chances: tuple[float, ...]
    total: int

    @property
    def left(self) -> NDArray[np.int64]:
        """Those not drawn."""
        return np.setdiff1d(np.arange(self.total), self.queries)

    def beginning(self, n: int) -> "Draws":
        """Return the first of them."""
        return replace(self, queries=self.queries[:n], chances=self.chances[:n])


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """Means over all N queries.

    Attributes:
        values: [cells].
        covariance: [cells, cells], 0 where all queries were drawn.
        freedom: Its degrees of freedom.
        weight: λ.
    """

    values: Floats
    covariance: Floats
    freedom: float
    weight: float


def drawn_evenly(order: tuple[int, ...], total: int) -> Draws:
    """Return the beginning of a random order of all queries as draws with equal probabilities."""
    chances = tuple(1 / (total - number) for number in range(len(order)))
    return Draws(queries=order, chances=chances, total=total)


def draw(draws: Draws, chances: Floats, more: int, rng: np.random.Generator) -> Draws:
    """Draw further queries.

    Args:
        draws: Those so far.
        chances: [N], above 0 for whatever is left; they need not add up to 1.
        more: Number of queries; no more than are left are drawn.
        rng: Random generator.
    """
    queries, drawn_by, left = list(draws.queries), list(draws.chances), draws.left
    for _ in range(min(more, len(left))):
        share = chances[left] / chances[left].sum()
        index = int(rng.choice(len(left), p=share))
        queries.append(int(left[index]))
        drawn_by.append(float(share[index]))
        left = np.delete(left, index)
    return Draws(queries=tuple(queries), chances=tuple(drawn_by), total=draws.total)


def draw_weights(draws: Draws) -> Floats:
    """Return LURE's weights [M], whose mean product with the scores is the estimate; 1 with equal probabilities."""
    n, total = len(draws.queries), draws.total
    m = np.arange(1, n + 1)
    odds = 1 / ((total - m + 1) * np.array(draws.chances))
    later = np.divide(total - n, total - m, out=np.zeros(n), where=m < total)
    weights: Floats = 1 + later * (odds - 1)
    return weights


def estimate(draws: Draws, judged: Floats, proxy: Floats) -> Estimated:
    """Estimate the mean judged score of every cell over all queries.

    Args:
        draws: At least one query; a single one says nothing of variances, which are then taken as 1.
        judged: [N, cells], read where drawn.
        proxy: [N, cells], finite.
    """
    rows = list(draws.queries)
    n, total = len(rows), draws.total
    weight = weight_of_differences(judged[rows], proxy[rows]) if n < total else 0.0
    residuals = judged[rows] - weight * proxy[rows]
    if n == total:
        nothing = np.zeros((judged.shape[1],) * 2)
        return Estimated(values=residuals.mean(axis=0), covariance=nothing, freedom=n - 1, weight=0.0)
    left = total - np.arange(n)
    parts = 1 / (left * (left - 1))
    parts /= parts.sum()
    before = np.cumsum(residuals, axis=0) - residuals
    totals = before + residuals / np.array(draws.chances)[:, None]
    sums = parts @ totals
    moved = parts[:, None] * (totals - sums) / total
    values, worth = sums / total + weight * proxy.mean(axis=0), 1 / float((parts**2).sum())
    if n == 1:
        # One draw says nothing of a variance.
        return Estimated(values=values, covariance=np.eye(len(values)), freedom=1, weight=weight)
    covariance = worth / (worth - 1) * moved.T @ moved
    return Estimated(values=values, covariance=covariance, freedom=worth - 1, weight=weight)
