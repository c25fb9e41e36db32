"""95% intervals: of means of bounded scores, of proportions, and of differences beside the exact test."""

from collections.abc import Callable, Mapping
from math import erf

import numpy as np
import pytest

from evals.stats.intervals import auroc_interval, mean_intervals, student_intervals
from evals.stats.paired import compare, difference_intervals
from tests.numbers.worlds import DIFFERENCES, Counts, Floats, draws, ends, sign_flip, tied, valued

pytestmark = pytest.mark.slow
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def mixed(zeros: float, ones: float, a: float, b: float) -> Draw:
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
        low, high = mean_intervals(SHAPES[shape](rng, (n, number)), shares=True)
        counts.at_least(f"n {n}, the interval of the mean", int(((low <= truth) & (truth <= high)).sum()), number, 0.93)
        counts.told(f"n {n}, its width", float(np.mean(high - low)))
    assert counts.wrong == []


@pytest.mark.parametrize(("inside", "outside"), [(66, 22), (200, 60)])
@pytest.mark.parametrize("near", [0.0, 0.2, 0.5])
def test_the_interval_of_auroc_holds_where_some_strangers_are_near_the_domain(
    near: float, inside: int, outside: int
) -> None:
    counts, number, held = Counts(f"AUROC, {near:.0%} near, {inside} and {outside}"), draws(4_000), 0
    truth = 0.5 * near * (1 + erf(-0.1 / 0.16)) + 0.5 * (1 - near) * (1 + erf(0.2 / 0.16))
    for seed in range(number):
        rng = np.random.default_rng([inside, seed])
        strange = np.where(rng.random(outside) < near, 0.7, 0.4) + rng.normal(0, 0.08, outside)
        low, high = ends(auroc_interval(rng.normal(0.6, 0.08, inside).tolist(), strange.tolist()))
        held += low <= truth <= high
    counts.at_least("the interval holds", held, number, 0.93)
    assert counts.wrong == []


def test_no_difference_is_told_that_the_exact_test_does_not_find() -> None:
    rng, counts, tested = np.random.default_rng(9), Counts("small differences"), draws(20_000)
    contrary = found = 0
    for seed in range(tested):
        n, moved = int(rng.integers(10, 60)), int(rng.integers(1, 15))
        first = rng.choice(np.linspace(0, 1, int(rng.integers(2, 8))), n)
        second, places = first.copy(), rng.permutation(n)[:moved]
        steps = rng.choice([0.02, 0.1, 0.5, 1.0]) * rng.choice([1, -1], len(places), p=[0.85, 0.15])
        second[places] = np.clip(first[places] + steps, 0, 1)
        pair = compare(first.tolist(), second.tolist(), seed)
        low, high = ends(pair.interval)
        contrary += bool(low > 0 or high < 0 or pair.p < 0.05) and sign_flip(second - first, seed) >= 0.05
        found += bool(low > 0 or high < 0)
    counts.never("an interval excludes 0 where the exact test does not", contrary)
    counts.told("a difference is told", found / tested)
    assert counts.wrong == []


# Amounts, and differences that are mostly ties

Truth = tuple[Draw, float]
"""What draws samples [n, samples], and their true mean."""
SAMPLES = 20_000
SIZES = (40, 80, 225)


def lognormal(sigma: float) -> Truth:
    return lambda rng, shape: rng.lognormal(0, sigma, shape), float(np.exp(sigma**2 / 2))


def tokens(kept: list[float]) -> Truth:
    """Sums of up to five chunks' gamma-distributed tokens; `kept` are the probabilities of 0, 1, … 5 chunks."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        count = rng.choice(6, size=shape, p=kept)
        return np.where(count > 0, rng.gamma(4.0 * np.maximum(count, 1), 30.0), 0.0)

    return draw, 120 * float(np.arange(6) @ np.asarray(kept))


AMOUNTS: Mapping[str, Truth] = {
    "lognormal milliseconds, sigma 0.3": lognormal(0.3),
    "lognormal milliseconds, sigma 0.5": lognormal(0.5),
    "tokens of five chunks": tokens([0, 0, 0, 0, 0, 1]),
    "tokens, 30% empty": tokens([0.3, 0.1, 0.1, 0.1, 0.1, 0.3]),
    "tokens, 85% empty": tokens([0.85, 0.05, 0.05, 0.05, 0, 0]),
    "differences, 60% of them 0": valued({-1: 0.03, -0.5: 0.04, -0.2: 0.06, 0: 0.6, 0.2: 0.1, 0.5: 0.1, 1: 0.07}),
    "differences, 75% of them 0": valued({-1: 0.01, -0.4: 0.03, -0.1: 0.05, 0: 0.75, 0.1: 0.08, 0.4: 0.06, 1: 0.02}),
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", AMOUNTS)
def test_intervals_of_means_of_amounts_cover(name: str, n: int) -> None:
    draw, mean = AMOUNTS[name]
    low, high = mean_intervals(draw(np.random.default_rng(n), (n, SAMPLES)), shares=False)
    assert 0.93 <= float(((low <= mean) & (mean <= high)).mean()) <= 0.97


@pytest.mark.parametrize("n", [20, *SIZES])
@pytest.mark.parametrize("share", [0.0, 0.75, 0.9, 0.95, 0.98])
def test_intervals_of_differences_that_are_mostly_ties_cover(share: float, n: int) -> None:
    """In every population, by two standard errors; before it is widened to 0 where the test does not reject that.

    Without ties none does: small gains say nothing about rare losses that were not seen.
    """
    rng, counts = np.random.default_rng(n), Counts(f"{share:.0%} ties, n {n}")
    held, widths = np.empty((2, 2, len(DIFFERENCES)))
    for place, (sizes, mean) in enumerate(DIFFERENCES.values()):
        differences = tied(sizes, share, rng, (n, SAMPLES))
        for way, (low, high) in enumerate([difference_intervals(differences, 1.0), student_intervals(differences)]):
            held[way, place] = ((low <= (1 - share) * mean + 1e-12) & ((1 - share) * mean - 1e-12 <= high)).mean()
            widths[way, place] = (high - low).mean()
    for way, name in enumerate(("ours", "Student's")):
        counts.told(f"{name}, least coverage of a population", held[way].min())
        counts.told(f"{name}, median coverage", float(np.median(held[way])))
    differ = widths[1] > 1e-9
    counts.told("width over Student's, median", float(np.median(widths[0, differ] / widths[1, differ])))
    surely = held[0] - 2 * np.sqrt(held[0] * (1 - held[0]) / SAMPLES)
    assert share == 0 or (surely >= 0.93).all(), dict(zip(DIFFERENCES, held[0], strict=True))
