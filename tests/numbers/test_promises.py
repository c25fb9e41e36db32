"""Bands of curves, and a threshold that promises a rate of wrong answers: how often they hold, and what they cost."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from evals.stats.abstention import promise
from evals.stats.bands import mean_bands, share_bands
from tests.numbers.worlds import (
    DATA,
    Counts,
    Floats,
    average_precision,
    cranfield_search,
    draws,
    handbook_grid,
    needs_cranfield,
)

pytestmark = pytest.mark.slow
POPULATION = 20_000
TOP_KS = np.array([1, 2, 3, 5, 8, 10])


class Sides(NamedTuple):
    gain: Floats
    nothing: Floats
    silent: Floats


def _sides(found: Floats, inside: Floats, outside: Floats, thresholds: Floats) -> Sides:
    """Cells thresholds × top_k: `found` [queries, top_k] counts where the best score `inside` reaches the threshold."""
    answered = inside[:, None] >= thresholds
    gain = (answered[:, :, None] * found[:, None, :]).reshape(len(found), -1)
    nothing, silent = (
        np.repeat(best[:, None] < thresholds, found.shape[1], axis=1).astype(float) for best in (inside, outside)
    )
    return Sides(gain, nothing, silent)


@cache
def normal() -> Sides:
    """Recall of two relevant chunks that stand at random ranks; scores overlap."""
    rng = np.random.default_rng(1)
    ranks = rng.geometric(0.25, (POPULATION, 2))
    found = (ranks[:, :, None] <= TOP_KS).mean(axis=1)
    inside = np.clip(rng.normal(0.6, 0.12, POPULATION) + 0.05 * (ranks.min(axis=1) < 3), 0, 1)
    return _sides(found, inside, np.clip(rng.normal(0.45, 0.12, POPULATION), 0, 1), np.arange(0, 0.9, 0.05))


@cache
def rare() -> Sides:
    """Nearly everything is found at once, few lose everything; few questions out of scope look like the documents."""
    rng = np.random.default_rng(2)
    found = np.where(rng.random((POPULATION, 1)) < 0.03, 0.0, np.array([0.9, 0.95, 0.97, 0.99, 1.0, 1.0]))
    inside = np.where(rng.random(POPULATION) < 0.04, 0.3, 0.8) + 0.05 * rng.random(POPULATION)
    outside = np.where(rng.random(POPULATION) < 0.05, 0.7, 0.2) + 0.1 * rng.random(POPULATION)
    return _sides(found, inside, outside, np.arange(0, 0.9, 0.1))


@cache
def tied() -> Sides:
    """Hits, and scores of one digit of which a tenth are 0."""
    rng = np.random.default_rng(3)
    found = (rng.geometric(0.15, (POPULATION, 1)) <= TOP_KS).astype(float)
    scores = [np.round(rng.beta(8 * mean, 8 - 8 * mean, POPULATION), 1) for mean in (0.6, 0.4)]
    inside, outside = (np.where(rng.random(POPULATION) < 0.1, 0.0, each) for each in scores)
    return _sides(found, inside, outside, np.arange(0.0, 1.01, 0.1))


@cache
def handbook() -> Sides:
    """The handbook's 176 queries, hybrid: nDCG, silent or not."""
    names = "ranking/ndcg_at_10", "scope/false_abstention", "scope/abstention"
    return Sides(*handbook_grid(["hybrid"], "0:0.6:0.02", *names)[1])


@cache
def cranfield() -> Sides:
    """Cranfield by TF-IDF; a quarter of its queries lose their relevant documents, and are out of scope."""
    similar, labels = cranfield_search()
    scores, rng = similar[:, 1].copy(), np.random.default_rng(7)
    out = rng.random(len(scores)) < 0.25
    scores[out] = np.where(labels[out], -1.0, scores[out])
    places = np.argsort(-scores, axis=1)[:, : TOP_KS.max()]
    found = average_precision(np.take_along_axis(labels, places, axis=1))[:, TOP_KS]
    best = scores.max(axis=1)
    return _sides(found[~out], best[~out], best[out], np.quantile(best, np.arange(0, 1, 0.05)))


WORLDS: dict[str, Callable[[], Sides]] = {"normal": normal, "rare": rare, "tied": tied, "handbook": handbook}


@pytest.mark.parametrize(("inside", "outside"), [(66, 22), (40, 12), (200, 60)])
@pytest.mark.parametrize("world", [*WORLDS, pytest.param("Cranfield", marks=needs_cranfield)])
def test_bands_hold_all_cells_at_once(world: str, inside: int, outside: int) -> None:
    sides = cranfield() if world == "Cranfield" and DATA else WORLDS[world]()
    counts, number = Counts(f"{world}, {inside} in scope, {outside} out of scope"), draws(1_000)
    truth = Sides(*(side.mean(axis=0) for side in sides))
    held = 0
    each, widths = np.zeros(3, dtype=np.int64), []
    for seed in range(number):
        rng = np.random.default_rng([inside, seed])
        rows, others = rng.integers(0, len(sides.gain), inside), rng.integers(0, len(sides.silent), outside)
        drawn = Sides(sides.gain[rows], sides.nothing[rows], sides.silent[others])
        of_gain = mean_bands(drawn.gain, seed)
        of_nothing, of_silent = (share_bands(side.sum(axis=0), len(side)) for side in (drawn.nothing, drawn.silent))
        parts = [_within(band, true) for band, true in zip((of_gain, of_nothing, of_silent), truth, strict=True)]
        each += parts
        held += all(parts)
        low, high = (0.8 * found + 0.2 * silent for found, silent in zip(of_gain, of_silent, strict=True))
        widths.append(float((high - low).mean()))
    for name, count in zip(("found", "wrongly silent", "rightly silent"), each.tolist(), strict=True):
        counts.at_least(f"the band of {name} holds", count, number, 0.95)
    counts.at_least("all three hold", held, number, 0.95)
    counts.told("mean width of utility's band at weight 0.2", float(np.mean(widths)))
    assert counts.wrong == []


def _within(band: tuple[Floats, Floats], truth: Floats) -> bool:
    low, high = band
    return bool(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all())


# A threshold that promises a rate


def normal_scores(mean: float) -> Callable[[np.random.Generator], Floats]:
    return lambda rng: np.clip(rng.normal(mean, 0.12, POPULATION), 0, 1)


def tied_scores(mean: float) -> Callable[[np.random.Generator], Floats]:
    """Scores of two digits, a tenth of them 0: nothing was found."""

    def draw(rng: np.random.Generator) -> Floats:
        scores = rng.beta(8 * mean, 8 * (1 - mean), POPULATION)
        return np.asarray(np.round(np.where(rng.random(POPULATION) < 0.1, 0.0, scores), 1), dtype=float)

    return draw


def two_kinds(mean: float) -> Callable[[np.random.Generator], Floats]:
    """Most questions are far from the documents, some are as near as those that they answer."""
    return lambda rng: np.clip(rng.normal(np.where(rng.random(POPULATION) < 0.15, 0.7, mean), 0.08), 0, 1)


SHAPES = {"normal": normal_scores, "tied": tied_scores, "two kinds": two_kinds}


@pytest.mark.parametrize("rate", [0.25, 0.1])
@pytest.mark.parametrize("n", [22, 60, 200])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_promise_holds_for_questions_like_these(shape: str, n: int, rate: float) -> None:
    counts, number = Counts(f"{shape}, {n} out of scope, rate {rate}"), draws(2_000)
    outside, inside = SHAPES[shape](0.4)(np.random.default_rng(1)), normal_scores(0.65)(np.random.default_rng(2))
    held = promised = 0
    silent, with_more = [], []
    for seed in range(number):
        rng = np.random.default_rng([n, seed])
        known = rng.choice(inside, 80)
        found = promise(known.tolist(), rng.choice(outside, n).tolist(), rate, scale="cosine", among=1)
        # Where nothing is promised, nothing is said that could be wrong.
        held += found.threshold is None or bool((outside >= found.threshold).mean() <= rate)
        more = promise(known.tolist(), rng.choice(outside, 10 * n).tolist(), rate, scale="cosine", among=1)
        if found.threshold is not None and more.threshold is not None:
            promised += 1
            silent.append((inside < found.threshold).mean())
            with_more.append((inside < more.threshold).mean())
    counts.at_least("the promise holds", held, number, 0.95)
    counts.told("something is promised", promised / number)
    if promised:
        counts.told("in scope silent", float(np.mean(silent)))
        counts.told("in scope silent, with ten times the queries", float(np.mean(with_more)))
    assert counts.wrong == []


@pytest.mark.parametrize("n", [40, 60])
@pytest.mark.parametrize("retrievals", [3, 8])
def test_the_promise_of_the_best_of_several_retrievals_holds(retrievals: int, n: int) -> None:
    """Retrievals score alike (correlation 0.8); the one that answers most in-scope queries is taken."""
    counts, number, rate = Counts(f"{retrievals} retrievals, {n} out of scope"), draws(2_000), 0.1
    rng = np.random.default_rng(1)
    outside, inside = (
        mean + 0.12 * (0.8 * rng.normal(size=(POPULATION, 1)) + 0.6 * rng.normal(size=(POPULATION, retrievals)))
        for mean in (0.4, 0.65)
    )
    held = 0
    for seed in range(number):
        rng = np.random.default_rng([n, seed])
        strange, known = rng.choice(outside, n), rng.choice(inside, 80)
        found = [
            promise(i.tolist(), o.tolist(), rate, among=retrievals, scale="cosine")
            for i, o in zip(known.T, strange.T, strict=True)
        ]
        able = [(one.silent or 0.0, place) for place, one in enumerate(found) if one.threshold is not None]
        best = min(able)[1] if able else 0
        threshold = found[best].threshold
        held += threshold is None or bool((outside[:, best] >= threshold).mean() <= rate)
    counts.at_least("the promise of the best holds", held, number, 0.95)
    assert counts.wrong == []
