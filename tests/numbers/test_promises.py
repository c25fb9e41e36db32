"""A threshold that promises a rate of wrong answers: how often the promise holds, and what few queries make it cost."""

from collections.abc import Callable

import numpy as np
import pytest

from evals.stats.abstention import promise
from tests.numbers.worlds import Counts, Floats, draws

pytestmark = pytest.mark.slow
POPULATION = 20_000


def normal(mean: float) -> Callable[[np.random.Generator], Floats]:
    return lambda rng: np.clip(rng.normal(mean, 0.12, POPULATION), 0, 1)


def tied(mean: float) -> Callable[[np.random.Generator], Floats]:
    """Scores of two digits, a tenth of them 0: nothing was found."""

    def draw(rng: np.random.Generator) -> Floats:
        scores = rng.beta(8 * mean, 8 * (1 - mean), POPULATION)
        return np.asarray(np.round(np.where(rng.random(POPULATION) < 0.1, 0.0, scores), 1), dtype=float)

    return draw


def two_kinds(mean: float) -> Callable[[np.random.Generator], Floats]:
    """Most questions are far from the documents, some are as near as those that they answer."""
    return lambda rng: np.clip(rng.normal(np.where(rng.random(POPULATION) < 0.15, 0.7, mean), 0.08), 0, 1)


SHAPES = {"normal": normal, "tied": tied, "two kinds": two_kinds}


@pytest.mark.parametrize("rate", [0.25, 0.1])
@pytest.mark.parametrize("n", [22, 60, 200])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_promise_holds_for_questions_like_these(shape: str, n: int, rate: float) -> None:
    counts, number = Counts(f"{shape}, {n} out of scope, rate {rate}"), draws(2_000)
    outside, inside = SHAPES[shape](0.4)(np.random.default_rng(1)), normal(0.65)(np.random.default_rng(2))
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
