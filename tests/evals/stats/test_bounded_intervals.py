"""The interval by bounds against its definition, maximised numerically, and against Wilson's and Tango's."""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import multinomial

from evals.stats.intervals import Z, bounded_intervals, wilson

SQUARE = Z * Z


def ends(values: Any, floor: float = 0.0, ceiling: float = 1.0, alpha: float = 0.05) -> tuple[float, float]:
    (low,), (high,) = bounded_intervals(np.asarray(values, dtype=float)[:, None], floor, ceiling, alpha)
    return float(low), float(high)


def likeliest_variance(values: Any, bound: float, mean: float) -> float:
    """The variance about `mean` of the likeliest distribution on values and bound that has this mean.

    By Owen's dual: of all λ with 1 + λ(x − δ) > 0, also at the bound, the one that maximises Σ log(1 + λ(x − δ)); the
    values weigh 1/(n(1 + λ(x − δ))), and the bound has what they leave.
    """
    centred = values - mean
    furthest = 1 / abs(bound - mean) - 1e-12
    limits = (-furthest, 0.0) if bound > mean else (0.0, furthest)

    def against(multiplier: float) -> float:
        return -float(np.log1p(multiplier * centred).sum())

    multiplier = minimize_scalar(against, bounds=limits, method="bounded", options={"xatol": 1e-13}).x
    weights = 1 / (len(values) * (1 + multiplier * centred))
    return float(weights @ centred**2 + max(1 - weights.sum(), 0.0) * (bound - mean) ** 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("zeros", [0.0, 0.6, 0.95])
def test_its_upper_end_solves_the_score_equation(seed: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.beta(0.5, 1, 40) * 0.8 * (rng.random(40) >= zeros)
    mean = float(values.mean())

    def excess(delta: float) -> float:
        return (delta - mean) ** 2 * 40 - SQUARE * likeliest_variance(values, 1.0, delta)

    assert ends(values)[1] == pytest.approx(brentq(excess, mean + 1e-6, 1 - 1e-6), abs=1e-5)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_of_zeros_and_ones_it_is_wilsons(counts: tuple[int, int]) -> None:
    ones, n = counts
    expected = wilson(ones, n)
    assert ends([1.0] * ones + [0.0] * (n - ones)) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("rises", "falls", "n"), [(3, 1, 20), (0, 4, 40), (10, 10, 66), (65, 0, 66)])
def test_of_differences_of_one_it_is_tangos(rises: int, falls: int, n: int) -> None:
    low, high = ends([1.0] * rises + [-1.0] * falls + [0.0] * (n - rises - falls), -1.0)
    assert tango(rises, falls, n, low) == pytest.approx(Z, abs=1e-4)
    assert tango(rises, falls, n, high) == pytest.approx(-Z, abs=1e-4)


def tango(rises: int, falls: int, n: int, delta: float) -> float:
    """Tango's score statistic with the likelihood maximised over a grid, not by his formula."""
    falling = np.linspace(max(0.0, -delta), (1 - delta) / 2, 400_001)[1:-1]
    rising, same = falling + delta, 1 - 2 * falling - delta
    likelihood = rises * np.log(rising) + falls * np.log(falling) + (n - rises - falls) * np.log(same)
    q = falling[likelihood.argmax()]
    return float((rises - falls - n * delta) / sqrt(n * (2 * q + delta * (1 - delta))))


@pytest.mark.parametrize("n", [20, 40, 80])
def test_of_differences_of_one_it_covers_in_94_percent_of_draws_and_more(n: int) -> None:
    """Coverage by summing over every possible outcome; 0.945 is reached where few pairs differ."""
    counts = np.array([(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)])
    places = np.arange(n)[:, None]
    rises, moved = counts[:, 0], counts[:, 0] + counts[:, 1]
    low, high = bounded_intervals(1.0 * (places < rises) - 1.0 * ((places >= rises) & (places < moved)), -1.0, 1.0)
    for up, down in ((0.1, 0.1), (0.05, 0.0), (0.2, 0.05), (0.3, 0.3), (0.02, 0.02), (0.5, 0.1)):
        covered = counts[(low <= up - down) & (up - down <= high)]
        assert 0.945 <= multinomial.pmf(covered, n, (up, down, 1 - up - down)).sum() <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([1e-60, 0.01, 0.05, 0.5, 0.999]))
def test_it_holds_the_mean_within_the_bounds_and_mirrors(values: list[float], alpha: float) -> None:
    low, high = ends(values, alpha=alpha)
    mean = float(np.mean(values))
    assert -1e-12 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1 + 1e-12
    assert ends([1 - value for value in values], alpha=alpha) == pytest.approx((1 - high, 1 - low), abs=1e-7)
