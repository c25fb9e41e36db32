"""Resampled means against the definition, their covariance, and kept strata."""

import numpy as np
import pytest

from evals.grid.choice import resample as module
from evals.grid.choice.resample import resample

VALUES = np.random.default_rng(1).beta(0.5, 1, (40, 6))
ONE = np.zeros(40, dtype=np.int64)


def test_is_the_mean_of_queries_drawn_with_replacement() -> None:
    """The same draws, query by query."""
    found = resample(VALUES, ONE, 50, np.random.default_rng(7))
    places = np.random.default_rng(7).integers(0, 40, size=(50, 40))
    expected = np.array([VALUES[row].mean(axis=0) for row in places])
    assert found == pytest.approx(expected - VALUES.mean(axis=0), abs=1e-7)


def test_single_precision_costs_less_than_a_millionth() -> None:
    found = resample(VALUES, ONE, 2_000, np.random.default_rng(7))
    places = np.random.default_rng(7).integers(0, 40, size=(2_000, 40))
    exact = VALUES[places].mean(axis=1) - VALUES.mean(axis=0)
    assert np.abs(found - exact).max() < 1e-6


def test_deviations_have_the_covariance_of_the_mean() -> None:
    found = resample(VALUES, ONE, 40_000, np.random.default_rng(0)).astype(float)
    expected = np.cov(VALUES.T, bias=True) / 40
    assert found.mean(axis=0) == pytest.approx(np.zeros(6), abs=4 * np.sqrt(expected.max() / 40_000))
    assert np.cov(found.T) == pytest.approx(expected, abs=0.03 * expected.max())


def test_batches_hold_all_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 40 * 7)
    found = resample(VALUES, ONE, 50, np.random.default_rng(0))
    assert found.shape == (50, 6)
    assert (np.abs(found).max(axis=1) > 0).all()


def test_a_batch_holds_at_least_one_resample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 1)
    assert resample(VALUES, ONE, 3, np.random.default_rng(0)).shape == (3, 6)


def test_every_stratum_keeps_its_size() -> None:
    """A column that tells strata apart does not vary, in whatever order queries come."""
    strata = np.random.default_rng(2).permutation(np.repeat([0, 1, 5], [10, 25, 5])).astype(np.int64)
    values = np.column_stack([strata, strata == 1, VALUES[:, 0]]).astype(float)
    found = resample(values, strata, 500, np.random.default_rng(0))
    assert np.abs(found[:, :2]).max() < 1e-6
    assert found[:, 2].std() > 0.01


def test_same_seed_same_resamples() -> None:
    one, same, other = (resample(VALUES, ONE, 20, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
