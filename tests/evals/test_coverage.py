"""How often 95% intervals hold the truth, at 20 to 225 queries, for truths such as retrieval has."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from evals.stats import intervals as stats
from evals.stats.paired import compare, difference_intervals, sign_flip
from tests.support.differences import POPULATIONS, tied

Floats = NDArray[np.float64]
Truth = tuple[Callable[[np.random.Generator, tuple[int, int]], Floats], float]
"""What draws samples [n, samples], and their true mean."""
SAMPLES = 20_000
SIZES = (40, 80, 225)


def mixed(zeros: float, ones: float, a: float, b: float) -> Truth:
    """Scores that are 0 or 1 with these probabilities and Beta(a, b) otherwise."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        kind, between = rng.random(shape), rng.beta(a, b, shape)
        return np.where(kind < zeros, 0.0, np.where(kind > 1 - ones, 1.0, between))

    return draw, ones + (1 - zeros - ones) * a / (a + b)


def valued(values: Any, weights: list[float]) -> Truth:
    """Scores of a few values."""
    known, chances = np.asarray(values, dtype=float), np.asarray(weights) / sum(weights)
    return lambda rng, shape: rng.choice(known, size=shape, p=chances), float(known @ chances)


def lognormal(sigma: float) -> Truth:
    """Milliseconds."""
    return lambda rng, shape: rng.lognormal(0, sigma, shape), float(np.exp(sigma**2 / 2))


def tokens(kept: list[float]) -> Truth:
    """Sums of up to five chunks' gamma-distributed tokens; `kept` are the probabilities of 0, 1, … 5 chunks."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        count = rng.choice(6, size=shape, p=kept)
        return np.where(count > 0, rng.gamma(4.0 * np.maximum(count, 1), 30.0), 0.0)

    return draw, 120 * float(np.arange(6) @ np.asarray(kept))


GAINS = np.concatenate([[0.0], 1 / np.log2(np.arange(2, 12))])
"""nDCG@10 of a query with one relevant chunk: 0 if it was not found, else by its rank."""
SHARES: Mapping[str, Truth] = {
    "beta(2, 0.5)": mixed(0, 0, 2, 0.5),
    "beta(5, 1)": mixed(0, 0, 5, 1),
    "uniform": mixed(0, 0, 1, 1),
    "65% zeros": mixed(0.65, 0, 2, 2),
    "65% zeros, 10% ones": mixed(0.65, 0.1, 2, 2),
    "80% zeros": mixed(0.8, 0, 2, 2),
    "90% zeros": mixed(0.9, 0, 2, 3),
    "nDCG, 20% hits": valued(GAINS, [80, 8, 4, 2, 2, 1, 1, 0.5, 0.5, 0.5, 0.5]),
    "nDCG, 55% hits": valued(GAINS, [45, 20, 10, 7, 5, 4, 3, 2, 2, 1, 1]),
    "nDCG, 95% hits": valued(GAINS, [5, 60, 15, 7, 5, 2, 2, 1, 1, 1, 1]),
    "recall of thirds and halves": valued([0, 1 / 3, 1 / 2, 2 / 3, 1], [50, 15, 15, 10, 10]),
}
AMOUNTS: Mapping[str, Truth] = {
    "lognormal milliseconds, sigma 0.3": lognormal(0.3),
    "lognormal milliseconds, sigma 0.5": lognormal(0.5),
    "tokens of five chunks": tokens([0, 0, 0, 0, 0, 1]),
    "tokens, 30% empty": tokens([0.3, 0.1, 0.1, 0.1, 0.1, 0.3]),
    "tokens, 85% empty": tokens([0.85, 0.05, 0.05, 0.05, 0, 0]),
    "differences, 60% of them 0": valued([-1, -0.5, -0.2, 0, 0.2, 0.5, 1], [3, 4, 6, 60, 10, 10, 7]),
    "differences, 75% of them 0": valued([-1, -0.4, -0.1, 0, 0.1, 0.4, 1], [1, 3, 5, 75, 8, 6, 2]),
}
MOSTLY_EQUAL: Mapping[str, Truth] = {
    "75% zeros, else mostly small": mixed(0.75, 0, 0.3, 1),
    "90% zeros, else mostly small": mixed(0.9, 0, 0.3, 1),
    "95% zeros, else mostly small": mixed(0.95, 0, 0.3, 1),
    "97% zeros, else mostly small": mixed(0.97, 0, 0.3, 1),
    "97% ones, else mostly large": mixed(0, 0.97, 1, 0.3),
    "90% ones": mixed(0, 0.9, 1, 1),
    "5% zeros, half ones": mixed(0.05, 0.5, 6, 1),
    "90% one fifth, else 0": valued([0, 0.2], [10, 90]),
}
"""Of 40 queries, one to four decide: many samples do not hold a large one."""


def coverage(truth: Truth, n: int, *, shares: bool) -> float:
    """Share of the samples of n values whose interval holds the mean; one without an interval does not."""
    draw, mean = truth
    low, high = stats.mean_intervals(draw(np.random.default_rng(n), (n, SAMPLES)), shares=shares)
    return float(((low <= mean) & (mean <= high)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", SHARES)
def test_intervals_of_means_of_shares_cover(name: str, n: int) -> None:
    assert 0.93 <= coverage(SHARES[name], n, shares=True) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", AMOUNTS)
def test_intervals_of_means_of_amounts_cover(name: str, n: int) -> None:
    assert 0.93 <= coverage(AMOUNTS[name], n, shares=False) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, *SIZES])
@pytest.mark.parametrize("name", MOSTLY_EQUAL)
def test_intervals_of_shares_that_are_mostly_equal_cover(name: str, n: int) -> None:
    """The upper confidence bound of the simulated coverage, by two standard errors, is 93% or more."""
    covered = coverage(MOSTLY_EQUAL[name], n, shares=True)
    assert covered + 2 * np.sqrt(covered * (1 - covered) / SAMPLES) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, *SIZES])
@pytest.mark.parametrize("share", [0.75, 0.9, 0.95, 0.98])
def test_intervals_of_differences_that_are_mostly_ties_cover(share: float, n: int) -> None:
    """As above, in every population, even before the interval is widened to 0 where the test does not reject it."""
    rng = np.random.default_rng(n)
    for name, (sizes, mean) in POPULATIONS.items():
        differences = tied(sizes, share, rng, (n, SAMPLES))
        low, high = difference_intervals(differences, 1.0)
        covered = ((low <= (1 - share) * mean + 1e-12) & ((1 - share) * mean - 1e-12 <= high)).mean()
        assert covered - 2 * np.sqrt(covered * (1 - covered) / SAMPLES) >= 0.93, name


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, *SIZES])
@pytest.mark.parametrize("share", [0.75, 0.9, 0.95, 0.98])
def test_no_interval_excludes_0_where_the_exact_test_does_not(share: float, n: int) -> None:
    """Of 40 samples from each population."""
    rng = np.random.default_rng(n)
    for name, (sizes, _) in POPULATIONS.items():
        for column in tied(sizes, share, rng, (n, 40)).T:
            found = compare(np.maximum(-column, 0).tolist(), np.maximum(column, 0).tolist(), seed=0)
            exact = sign_flip(column, seed=1)[0]
            assert found.interval.low is not None and found.interval.high is not None
            assert found.interval.low <= 0 <= found.interval.high or exact < 0.05, (name, column)
            assert found.p >= 0.05 or exact < 0.05, (name, column)


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8, 0.95, 0.98])
def test_intervals_of_proportions_cover_as_wilsons_do_exactly(share: float, n: int) -> None:
    """Exact coverage: the probabilities of all numbers of successes whose interval holds the share.

    Of 20,000 samples the covered share may differ from it by four standard errors. It is
    0.954 at 40 and a share of 0.98, 0.978 at 80 and 0.98, and 0.928 at 40 and 0.8.
    """
    counts = np.arange(n + 1)
    held = [i.low <= share <= i.high for i in (stats.wilson(int(k), n) for k in counts)]  # type: ignore[operator]
    exact = float(binom.pmf(counts, n, share) @ np.asarray(held))
    drawn = np.random.default_rng(n).binomial(n, share, SAMPLES)
    covered = float(np.asarray(held)[drawn].mean())
    assert abs(covered - exact) < 4 * np.sqrt(exact * (1 - exact) / SAMPLES)
    assert 0.90 <= exact
