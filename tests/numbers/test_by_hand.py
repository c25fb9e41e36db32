"""Figures whose truth is known in closed form or by hand: what a simulation of a whole promise is too coarse to see."""

import numpy as np
import pytest
from scipy.stats import norm

from evals.stats.abstention import promise, separation
from evals.stats.bands import EACH, mean_bands, share_bands
from evals.stats.best import _deviations


def test_a_band_of_independent_cells_is_as_wide_as_sidak_says() -> None:
    values = np.random.default_rng(0).random((600, 300))
    low, high = mean_bands(values, 0)
    errors = (high - low) / 2 / (values.std(axis=0) / np.sqrt(600))
    assert errors == pytest.approx(norm.ppf((1 + EACH ** (1 / 300)) / 2), rel=0.04)


def test_a_band_of_shares_holds_for_all_ordered_scores_of_a_sample() -> None:
    low, high = share_bands(np.array([0.0, 1.0]), 1)
    assert (*low, *high) == pytest.approx((0, (1 - EACH) / 2, (1 + EACH) / 2, 1), abs=0.002)
    low, high = share_bands(np.arange(31.0), 30)
    ordered = np.sort(np.random.default_rng(1).random((20_000, 30)), axis=1)
    # A threshold just below the k-th score leaves k - 1 scores below it, one just above it leaves k.
    held = (low[1:] <= ordered) & (ordered <= high[:-1])
    assert held.all(axis=1).mean() == pytest.approx(EACH, abs=0.006)


def test_deviations_of_planned_looks_are_a_brownian_motion_in_the_time_that_is_left() -> None:
    looks = [60, 100, 132]
    drawn = _deviations(np.eye(2), looks, np.random.default_rng(0)).reshape(2, 2, -1)
    first, second = drawn[0] - drawn[1]
    times = [1 / (1 / n - 1 / 132) for n in looks[:-1]]
    assert (first.std(), second.std()) == pytest.approx((np.sqrt(2), np.sqrt(2)), rel=0.05)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(np.sqrt(times[0] / times[1]), abs=0.05)


def test_rates_that_are_least_together_are_told() -> None:
    told = separation([0.9] * 18 + [0.1] * 2, [0.2] * 20)
    assert "there are 0.0% false answers and 10.0% false abstentions" in told


@pytest.mark.parametrize(("scale", "lowest"), [("cosine", 0.0), ("dot", -4.0)])
def test_a_promise_that_all_keep_is_the_lowest_threshold_of_its_scale(scale: str, lowest: float) -> None:
    assert promise([-3.0, 0.6], [-4.0, 0.5], 1.0, scale).threshold == lowest
