"""How often 95% intervals of amounts and of differences hold the truth, at 20 to 225 queries.

Those of shares and proportions, and the exact test beside the interval: `tests/numbers/test_intervals.py`.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.stats import intervals as stats
from evals.stats.paired import difference_intervals
from tests.support.differences import POPULATIONS, tied, valued

Floats = NDArray[np.float64]
Truth = tuple[Callable[[np.random.Generator, tuple[int, int]], Floats], float]
"""What draws samples [n, samples], and their true mean."""
SAMPLES = 20_000
SIZES = (40, 80, 225)


def lognormal(sigma: float) -> Truth:
    """Milliseconds."""
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


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", AMOUNTS)
def test_intervals_of_means_of_amounts_cover(name: str, n: int) -> None:
    draw, mean = AMOUNTS[name]
    low, high = stats.mean_intervals(draw(np.random.default_rng(n), (n, SAMPLES)), shares=False)
    assert 0.93 <= float(((low <= mean) & (mean <= high)).mean()) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, *SIZES])
@pytest.mark.parametrize("share", [0.75, 0.9, 0.95, 0.98])
def test_intervals_of_differences_that_are_mostly_ties_cover(share: float, n: int) -> None:
    """In every population, by two standard errors; before it is widened to 0 where the test does not reject that."""
    rng = np.random.default_rng(n)
    for name, (sizes, mean) in POPULATIONS.items():
        differences = tied(sizes, share, rng, (n, SAMPLES))
        low, high = difference_intervals(differences, 1.0)
        covered = ((low <= (1 - share) * mean + 1e-12) & ((1 - share) * mean - 1e-12 <= high)).mean()
        assert covered - 2 * np.sqrt(covered * (1 - covered) / SAMPLES) >= 0.93, name
