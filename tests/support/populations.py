"""Populations of queries scored in the cells of a grid: drawn from with replacement, their true means are known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice import Cells

Floats = NDArray[np.float64]
DEPTH = 20
QUERIES = 20_000
THRESHOLDS = (0.0, 0.4, 0.5, 0.6)


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Scores [queries, cells] within [0, 1], and the mean context tokens and the threshold of every cell."""

    values: Floats
    cost: Floats
    threshold: Floats

    @property
    def cells(self) -> Cells:
        """The cells, all of them allowed."""
        allowed = np.ones(len(self.cost), dtype=np.bool_)
        return Cells(cost=self.cost, threshold=self.threshold, allowed=allowed)

    @cached_property
    def truth(self) -> Floats:
        """The mean of every cell."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def best(self) -> NDArray[np.intp]:
        """The cells with the highest mean."""
        return np.flatnonzero(self.truth >= self.truth.max() - 1e-12)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Return n queries, independently."""
        return self.values[rng.integers(0, len(self.values), n)]


def nested(metric: Callable[[Mapping[str, Floats]], Floats], *, decay: float, hits: float, seed: int = 0) -> Population:
    """Return the grid of top_k 1 to 20 and four thresholds over rankings whose relevance fades with the rank.

    Queries differ in how well they are answered and in how high their cosines are; a cell keeps a prefix of a ranking.

    Args:
        metric: Of the scores by prefix length [queries, 21] of every known metric.
        decay: How fast relevance fades.
        hits: Relevance at the first rank.
        seed: Of the population.
    """
    rng = np.random.default_rng(seed)
    ease = 2 * rng.beta(2, 2, (QUERIES, 1))
    relevant = rng.random((QUERIES, DEPTH)) < np.clip(hits * np.exp(-decay * np.arange(DEPTH)) * ease, 0, 0.95)
    total = np.maximum(1, relevant.sum(axis=1) + rng.poisson(0.5, QUERIES))
    steps = rng.exponential(0.018, (QUERIES, DEPTH))
    cosines = np.clip(rng.normal(0.62, 0.13, (QUERIES, 1)), 0.05, 0.98) - np.cumsum(steps, axis=1) + steps[:, :1]
    above = (cosines[:, :, None] >= np.array(THRESHOLDS)).sum(axis=1)
    lengths = np.minimum(np.arange(1, DEPTH + 1)[None, :, None], above[:, None, :]).reshape(QUERIES, -1)
    scores = metric(_by_prefix(relevant, total))
    values, threshold = np.take_along_axis(scores, lengths, axis=1), np.tile(THRESHOLDS, DEPTH)
    return Population(values=values, cost=150 * lengths.mean(axis=0), threshold=threshold)


def _by_prefix(relevant: NDArray[np.bool_], total: NDArray[np.int64]) -> dict[str, Floats]:
    """Return metrics of every prefix, the empty one first."""
    empty, found = np.zeros((len(relevant), 1)), np.cumsum(relevant, axis=1)
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    gains = np.cumsum(relevant * discounts * (np.arange(DEPTH) < 10), axis=1)
    ideal = np.cumsum(discounts)[np.minimum(total, 10) - 1]
    return {
        "hit": np.hstack([empty, found > 0]),
        "recall": np.hstack([empty, found / total[:, None]]),
        "precision": np.hstack([empty, found / np.arange(1, DEPTH + 1)]),
        "ndcg": np.hstack([empty, gains / ideal[:, None]]),
    }


def tied(cells: int, best: int, *, likeness: float, gap: float, binary: bool = False, seed: int = 0) -> Population:
    """Return alike cells, mostly 0, of which `best` are truly equal and the best, the others worse by up to `gap`.

    Every query comes once for each rotation of its scores among the equal cells, so that these have the same mean.

    Args:
        cells: How many.
        best: Number of of them are equal and the best.
        likeness: Correlation of two cells' latent scores.
        gap: How far the worst cell is behind, in standard deviations of the latent score.
        binary: True if scores are 0 or 1.
        seed: Of the population.
    """
    rng = np.random.default_rng(seed)
    queries = QUERIES // best
    behind = np.concatenate([np.zeros(best), np.linspace(0, gap, cells - best + 1)[1:]])
    shared, own = rng.normal(size=(queries, 1)), rng.normal(size=(queries, cells))
    latent = np.sqrt(likeness) * shared + np.sqrt(1 - likeness) * own - behind
    scores = (latent > 0.3).astype(float) if binary else np.clip(0.6 * latent, 0, 1)
    turns = [np.hstack([np.roll(scores[:, :best], turn, axis=1), scores[:, best:]]) for turn in range(best)]
    return Population(values=np.vstack(turns), cost=np.linspace(6_000, 100, cells), threshold=np.zeros(cells))


def rare_losses(cells: int, *, gain: float, loss: float, seed: int = 0) -> Population:
    """Return cells with small gains on every query and rare total losses; the first has neither, and is the best.

    Args:
        cells: How many, of evenly growing gain and loss.
        gain: Of the last cell on every query, half of it up to one and a half of it.
        loss: Share of the queries on which the last cell scores 0.
        seed: Of the population.
    """
    rng = np.random.default_rng(seed)
    base = 0.3 + 0.6 * rng.beta(3, 2, (QUERIES, 1))
    part = np.linspace(0, 1, cells)
    lost = rng.permutation(QUERIES)[:, None] < loss * part * QUERIES
    gained = gain * part * rng.uniform(0.5, 1.5, (QUERIES, 1))
    values = np.where(lost, 0.0, base + gained)
    return Population(values=values, cost=np.linspace(6_000, 100, cells), threshold=np.zeros(cells))


def lopsided(*, loss: float, share: float) -> Population:
    """Return two cells, of which the cheaper one scores `loss` less on this share of the queries."""
    lost = np.arange(QUERIES) < share * QUERIES
    values = np.stack([np.full(QUERIES, 1.0), np.where(lost, 1.0 - loss, 1.0)], axis=1)
    return Population(values=values, cost=np.array([1_000.0, 500.0]), threshold=np.zeros(2))


POPULATIONS: Mapping[str, Callable[[], Population]] = {
    "nDCG@10": lambda: nested(lambda known: known["ndcg"], decay=0.18, hits=0.45),
    "nDCG@10, sparse": lambda: nested(lambda known: known["ndcg"], decay=0.25, hits=0.15),
    "hits": lambda: nested(lambda known: known["hit"], decay=0.18, hits=0.45),
    "hits, shallow": lambda: nested(lambda known: known["hit"], decay=0.35, hits=0.9),
    "0.7 recall + 0.3 precision": lambda: nested(
        lambda known: 0.7 * known["recall"] + 0.3 * known["precision"], decay=0.18, hits=0.45
    ),
    "0.5 recall + 0.5 precision": lambda: nested(
        lambda known: 0.5 * known["recall"] + 0.5 * known["precision"], decay=0.18, hits=0.45
    ),
    "five equal best of 60": lambda: tied(60, 5, likeness=0.9, gap=0.4),
    "60 near ties": lambda: tied(60, 1, likeness=0.95, gap=0.02),
    "60 near ties, binary": lambda: tied(60, 1, likeness=0.9, gap=0.02, binary=True),
    "small gains, rare losses": lambda: rare_losses(20, gain=0.02, loss=0.04),
    "two cells, a small gain, a rare loss": lambda: rare_losses(2, gain=0.02, loss=0.035),
    "two cells, a rare half loss": lambda: lopsided(loss=0.5, share=0.045),
}
"""What statistics are tried on."""


@cache
def population(name: str) -> Population:
    """Return one of `POPULATIONS`, made once."""
    return POPULATIONS[name]()
