"""95% intervals: of means of bounded scores, of proportions, and of differences beside the exact test."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from tests.numbers.worlds import Counts, Floats, draws, of_means, of_proportion, paired, sign_flip

pytestmark = pytest.mark.slow
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def mixed(zeros: float, ones: float, a: float, b: float) -> Draw:
    """Zeros and ones with these probabilities, else beta(a, b)."""
    return lambda rng, shape: np.digitize(u := rng.random(shape), [zeros, zeros + ones]).choose(
        [np.zeros_like(u), np.ones_like(u), rng.beta(a, b, shape)]
    )


def of_steps(*weights: float, steps: Floats | None = None) -> Draw:
    """Equally spaced values from 0 to 1 with these weights, as precision and recall of few chunks have; or others."""
    values = np.linspace(0, 1, len(weights)) if steps is None else steps
    return lambda rng, shape: rng.choice(values, shape, p=np.array(weights) / sum(weights))


SHAPES: dict[str, Draw] = {
    "thirds": of_steps(3, 1, 1, 5),
    "fifths, mostly 1": of_steps(2, 0, 1, 1, 4, 92),
    "fifths, mostly 0": of_steps(90, 6, 2, 1, 0, 1),
    "reciprocal ranks": of_steps(10, 5, 2, 1, 2, steps=np.array([1, 1 / 2, 1 / 3, 1 / 4, 0])),
    "half zeros, a tenth ones": mixed(0.5, 0.1, 2, 2),
    "3% zeros below high scores": mixed(0.03, 0.6, 8, 1),
    "97% zeros": mixed(0.97, 0.01, 1, 1),
    "dense around 0.6": mixed(0, 0, 12, 8),
    "bimodal": mixed(0, 0, 0.2, 0.2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_of_bounded_scores(shape: str) -> None:
    counts, rng, number = Counts(shape), np.random.default_rng(8), draws(20_000)
    truth = SHAPES[shape](rng, (2_000, 2_000)).mean()
    for n in (20, 40, 80, 225):
        low, high = of_means(SHAPES[shape](rng, (n, number)))
        counts.at_least(f"n {n}, the interval of the mean", int(((low <= truth) & (truth <= high)).sum()), number, 0.93)
        counts.told(f"n {n}, its width", float(np.mean(high - low)))
    counts.check()


@pytest.mark.parametrize("n", [10, 20, 40, 66, 225])
def test_intervals_of_proportions_are_nominal_on_average(n: int) -> None:
    """Exact: coverage over the proportions from 0 to 1, by binomial probabilities."""
    low, high = np.array([of_proportion(successes, n) for successes in range(n + 1)]).T
    shares = (np.arange(2_000)[:, None] + 0.5) / 2_000
    coverage = (binom.pmf(np.arange(n + 1), n, shares) * ((low <= shares) & (shares <= high))).sum(axis=1).mean()
    Counts(f"proportions, n {n}").told("coverage on average", float(coverage))
    assert coverage == pytest.approx(0.95, abs=0.006)


def test_no_difference_is_told_that_the_exact_test_does_not_find() -> None:
    rng, counts, tested = np.random.default_rng(9), Counts("small differences"), draws(20_000)
    contrary = found = 0
    for seed in range(tested):
        n, moved = int(rng.integers(10, 60)), int(rng.integers(1, 15))
        first = rng.choice(np.linspace(0, 1, int(rng.integers(2, 8))), n)
        second, places = first.copy(), rng.permutation(n)[:moved]
        steps = rng.choice([0.02, 0.1, 0.5, 1.0]) * rng.choice([1, -1], len(places), p=[0.85, 0.15])
        second[places] = np.clip(first[places] + steps, 0, 1)
        (low, high), p = paired(first, second, seed)
        contrary += bool(low > 0 or high < 0 or p < 0.05) and sign_flip(second - first, seed) >= 0.05
        found += bool(low > 0 or high < 0)
    counts.never("an interval excludes 0 where the exact test does not", contrary)
    counts.told("a difference is told", found / tested)
    counts.check()
