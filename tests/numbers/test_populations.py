"""What a choice promises of all that users may ask, on populations of other shapes: rankings, near ties, rare losses.

The docs show figures of these draws.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.numbers.worlds import WORLDS, Floats, World, choices, draws, needs_cranfield

pytestmark = pytest.mark.slow
DRAWS = max(10, draws(150))
DEPTH = 20
QUERIES = 20_000
THRESHOLDS = (0.0, 0.4, 0.5, 0.6)


def _cells(values: Floats, cost: Floats, threshold: Floats | None = None) -> World:
    return World(
        judged=values, proxy=values, cost=cost, threshold=np.zeros(len(cost)) if threshold is None else threshold
    )


def nested(weights: dict[str, float], *, decay: float, hits: float) -> World:
    """Return the grid of top_k 1 to 20 and four thresholds over rankings whose relevance fades with the rank.

    Queries differ in how well they are answered and in how high their cosines are; a cell keeps a prefix of a ranking.
    Relevance is `hits` at the first rank.
    """
    rng = np.random.default_rng(0)
    ease = 2 * rng.beta(2, 2, (QUERIES, 1))
    relevant = rng.random((QUERIES, DEPTH)) < np.clip(hits * np.exp(-decay * np.arange(DEPTH)) * ease, 0, 0.95)
    total = np.maximum(1, relevant.sum(axis=1) + rng.poisson(0.5, QUERIES))
    steps = rng.exponential(0.018, (QUERIES, DEPTH))
    cosines = np.clip(rng.normal(0.62, 0.13, (QUERIES, 1)), 0.05, 0.98) - np.cumsum(steps, axis=1) + steps[:, :1]
    above = (cosines[:, :, None] >= np.array(THRESHOLDS)).sum(axis=1)
    lengths = np.minimum(np.arange(1, DEPTH + 1)[None, :, None], above[:, None, :]).reshape(QUERIES, -1)
    found = np.cumsum(relevant, axis=1)
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    gains = np.cumsum(relevant * discounts * (np.arange(DEPTH) < 10), axis=1)
    metrics = {
        "hit": (found > 0).astype(float),
        "recall": found / total[:, None],
        "precision": found / np.arange(1, DEPTH + 1),
        "ndcg": gains / np.cumsum(discounts)[np.minimum(total, 10) - 1][:, None],
    }
    scores = sum(weight * metrics[name] for name, weight in weights.items())
    by_length = np.hstack([np.zeros((QUERIES, 1)), scores])
    values = np.take_along_axis(by_length, lengths, axis=1)
    return _cells(values, 150 * lengths.mean(axis=0), np.tile(THRESHOLDS, DEPTH))


def tied(cells: int, best: int, *, likeness: float, gap: float, binary: bool = False) -> World:
    """Return alike cells, mostly 0, of which `best` are truly equal and the best, the others worse by up to `gap`.

    Every query comes once for each rotation of its scores among the equal cells, so that these have the same mean.
    `gap` is in standard deviations of the latent score, `likeness` the correlation of two cells' latent scores.
    """
    rng = np.random.default_rng(0)
    queries = QUERIES // best
    behind = np.concatenate([np.zeros(best), np.linspace(0, gap, cells - best + 1)[1:]])
    shared, own = rng.normal(size=(queries, 1)), rng.normal(size=(queries, cells))
    latent = np.sqrt(likeness) * shared + np.sqrt(1 - likeness) * own - behind
    scores = (latent > 0.3).astype(float) if binary else np.clip(0.6 * latent, 0, 1)
    turns = [np.hstack([np.roll(scores[:, :best], turn, axis=1), scores[:, best:]]) for turn in range(best)]
    return _cells(np.vstack(turns), np.linspace(6_000, 100, cells))


def rare_losses(cells: int, *, gain: float, loss: float) -> World:
    """Return cells with small gains on every query and rare total losses; the first has neither, and is the best.

    Both grow evenly up to the last cell, which gains `gain`, times a half to one and a half, and loses all on a share.
    """
    rng = np.random.default_rng(0)
    base = 0.3 + 0.6 * rng.beta(3, 2, (QUERIES, 1))
    part = np.linspace(0, 1, cells)
    lost = rng.permutation(QUERIES)[:, None] < loss * part * QUERIES
    gained = gain * part * rng.uniform(0.5, 1.5, (QUERIES, 1))
    return _cells(np.where(lost, 0.0, base + gained), np.linspace(6_000, 100, cells))


def lopsided(*, loss: float, share: float) -> World:
    """Return two cells, of which the cheaper one scores `loss` less on this share of the queries."""
    lost = np.arange(QUERIES) < share * QUERIES
    return _cells(np.stack([np.ones(QUERIES), np.where(lost, 1.0 - loss, 1.0)], axis=1), np.array([1_000.0, 500.0]))


def rivals(cells: int, *, share: float) -> World:
    """Return a cell that never loses, a little below 1, and rivals that each lose all on queries of their own."""
    lost = np.random.default_rng(0).random((QUERIES, cells)) < share
    steady = 1 - 0.98 * lost.mean(axis=0).min()
    return _cells(np.column_stack([np.full(QUERIES, steady), 1.0 - lost]), np.linspace(6_000, 100, cells + 1))


def rare_scores(share: float, *, usual: float, gain: float) -> World:
    """Return two cells, of which the best scores 1 on rare queries and the other 0; on all others it gains a little."""
    rare = np.arange(QUERIES) < share * QUERIES
    return _cells(np.where(rare[:, None], [1.0, 0.0], [usual, usual + gain]), np.array([1_000.0, 500.0]))


def near_domain(share: float, *, near: float) -> World:
    """Return thresholds over two scopes, where few out-of-scope queries are near the domain and score nearly as high.

    Only the strictest threshold leaves these unanswered, and it is the best; many draws have none of them. Utility
    weighs both scopes alike: `share` of the queries are out of scope, and `near` of these near the domain.
    """
    rng, steps = np.random.default_rng(0), np.repeat([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 4)
    out, gain = np.arange(QUERIES) < share * QUERIES, np.tile([0.45, 0.7, 0.85, 1.0], 7)
    is_near = rng.random(QUERIES) < near
    best = np.where(is_near, rng.normal(0.47, 0.04, QUERIES), rng.normal(0.15, 0.05, QUERIES))
    reached = np.where(out, best, rng.normal(0.62, 0.1, QUERIES))[:, None] >= steps
    values = np.where(out[:, None], 1.0, rng.beta(0.8, 1.2, (QUERIES, 1)) * gain) * reached
    return World(
        judged=values, proxy=values, cost=np.tile([1.0, 3.0, 5.0, 10.0], 7), threshold=steps, out_of_scope=out, wrong=1
    )


POPULATIONS: dict[str, Callable[[], World]] = {
    "nDCG@10": lambda: nested({"ndcg": 1}, decay=0.18, hits=0.45),
    "nDCG@10, sparse": lambda: nested({"ndcg": 1}, decay=0.25, hits=0.15),
    "hits": lambda: nested({"hit": 1}, decay=0.18, hits=0.45),
    "hits, shallow": lambda: nested({"hit": 1}, decay=0.35, hits=0.9),
    "0.7 recall + 0.3 precision": lambda: nested({"recall": 0.7, "precision": 0.3}, decay=0.18, hits=0.45),
    "0.5 recall + 0.5 precision": lambda: nested({"recall": 0.5, "precision": 0.5}, decay=0.18, hits=0.45),
    "five equal best of 60": lambda: tied(60, 5, likeness=0.9, gap=0.4),
    "60 near ties": lambda: tied(60, 1, likeness=0.95, gap=0.02),
    "60 near ties, binary": lambda: tied(60, 1, likeness=0.9, gap=0.02, binary=True),
    "small gains, rare losses": lambda: rare_losses(20, gain=0.02, loss=0.04),
    "two cells, a small gain, a rare loss": lambda: rare_losses(2, gain=0.02, loss=0.035),
    "two cells, a rare half loss": lambda: lopsided(loss=0.5, share=0.045),
    "a twentieth of queries that score far more": lambda: rare_scores(0.05, usual=0.03, gain=0.012),
    "3% of queries that score far more": lambda: rare_scores(0.03, usual=0.1, gain=0.03),
    "few strangers near the domain": lambda: near_domain(0.12, near=0.065),
    "20 rivals with rare losses": lambda: rivals(20, share=0.02),
    "a tenth of strangers": lambda: near_domain(0.1, near=0.1),
}


@cache
def population(name: str) -> World:
    return POPULATIONS[name]()


@pytest.mark.parametrize("n", [40, 225])
@pytest.mark.parametrize("name", POPULATIONS)
def test_the_set_keeps_the_best_and_every_bound_holds(name: str, n: int) -> None:
    assert choices(population(name), f"{name}, n {n}", n, DRAWS, margin=0.02).wrong == []


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=needs_cranfield) if "Cranfield" in name else name for name in WORLDS]
)
@pytest.mark.parametrize("n", [40, 225])
def test_so_it_is_on_data_that_are_judged_where_all_verdicts_are_known(setting: str, n: int) -> None:
    assert choices(WORLDS[setting](0.93), f"{setting}, n {n}", n, draws(2_000), margin=0.02).wrong == []
