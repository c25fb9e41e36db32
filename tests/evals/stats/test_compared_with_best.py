import numpy as np
import pytest
from scipy.stats import norm, t

from evals.stats.compared_with_best import compare_with_best


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_two_cells_by_hand() -> None:
    # Var of the difference 0.01: one comparison, whose quantile is Student's one-sided one.
    found = compare_with_best(np.array([0.5, 0.4]), 0.005 * np.eye(2), 20, 0.05, rng(), draws=200_000)
    assert found.candidates.all()
    quantile = t.ppf(0.95, 20)
    assert found.quantiles == pytest.approx([quantile, quantile], abs=0.02)
    assert found.regret == pytest.approx([max(0.0, quantile * 0.1 - 0.1), quantile * 0.1 + 0.1], abs=0.002)


def test_a_cell_far_behind_is_no_candidate_and_has_a_bound() -> None:
    found = compare_with_best(np.array([0.5, 0.1]), 0.0005 * np.eye(2), 50, 0.05, rng())
    assert found.candidates.tolist() == [True, False]
    assert found.regret == pytest.approx([0.0, 0.4 + t.ppf(0.95, 50) * 0.001**0.5], abs=0.004)


def test_dunnetts_quantile() -> None:
    # Equal variances of unrelated cells: the largest of four differences to one control, correlated by 1/2.
    found = compare_with_best(np.zeros(5), np.eye(5), 1e9, 0.05, rng(), draws=200_000)
    assert found.quantiles == pytest.approx(np.full(5, 2.16), abs=0.02)
    assert norm.ppf(0.95) < found.quantiles[0] < norm.ppf(1 - 0.05 / 4)


def test_equal_cells_have_no_error() -> None:
    covariance = np.full((2, 2), 0.01)
    found = compare_with_best(np.array([0.5, 0.5]), covariance, 20, 0.05, rng())
    assert found.candidates.all() and found.regret.tolist() == [0.0, 0.0]
    ahead = compare_with_best(np.array([0.5, 0.4]), covariance, 20, 0.05, rng())
    assert ahead.candidates.tolist() == [True, False]


def test_one_cell_is_the_best() -> None:
    found = compare_with_best(np.array([0.5]), np.array([[0.01]]), 20, 0.05, rng())
    assert found.candidates.tolist() == [True] and found.regret.tolist() == [0.0]


def test_the_bound_of_a_chosen_cell_holds() -> None:
    source, held = np.random.default_rng(1), []
    for _ in range(200):
        truth = source.normal(0, 0.05, 12)
        loadings = source.normal(0, 1, (12, 12)) / 12
        covariance = loadings @ loadings.T * 0.05
        estimates = source.multivariate_normal(truth, covariance)
        found = compare_with_best(estimates, covariance, 1e9, 0.1, source, draws=1_000)
        chosen = int(estimates.argmax())
        held.append(truth.max() - truth[chosen] <= found.regret[chosen])
        assert found.candidates[chosen]
    assert np.mean(held) > 0.86
