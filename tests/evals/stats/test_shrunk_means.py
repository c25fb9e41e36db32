import numpy as np
import pytest
from numpy.typing import NDArray

from evals.stats.corrected_mean import corrected_means
from evals.stats.shrunk_means import shrunk_means, shrunk_residuals, weight_of_differences

Floats = NDArray[np.float64]
CELLS, QUERIES = 40, 120
SIZES = np.arange(1, CELLS + 1) / 4


def world(seed: int, disagreement: float) -> tuple[Floats, Floats]:
    """Scores by the judge and by labels: what they disagree on grows with what a cell returns, the rest is chance."""
    rng = np.random.default_rng(seed)
    proxy = rng.random((QUERIES, 1)) / 2 + rng.normal(0, 0.1, (QUERIES, CELLS)) + np.linspace(0.1, 0.2, CELLS)
    judged = proxy - 0.03 * np.log1p(SIZES) + rng.normal(0, disagreement, (QUERIES, CELLS))
    return judged, proxy


def first(n: int) -> NDArray[np.bool_]:
    return np.arange(QUERIES) < n


def test_residuals_by_hand() -> None:
    returned = np.expm1([0.0, 1.0, 2.0, 3.0])
    # 1 + 2 x and a rest of (1, −1, −1, 1), whose squares add up to 4
    means = np.array([2.0, 2.0, 4.0, 8.0])
    assert shrunk_residuals(means, np.zeros((4, 4)), returned, 1.0) == pytest.approx(means)
    rest = np.array([1.0, -1.0, -1.0, 1.0])
    # of a covariance of 0.5 · identity two dimensions are left: chance makes 1 of the 4
    assert shrunk_residuals(means, 0.5 * np.eye(4), returned, 1.0) == pytest.approx(means - 0.25 * rest)
    assert shrunk_residuals(means, 0.5 * np.eye(4), returned, 0.4) == pytest.approx(means - 0.1 * rest)
    assert shrunk_residuals(means, 9.0 * np.eye(4), returned, 1.0) == pytest.approx(means - rest)


def test_all_queries_judged_gives_their_means() -> None:
    judged, proxy = world(0, 0.2)
    assert shrunk_means(judged, proxy, first(QUERIES), SIZES) == pytest.approx(judged.mean(axis=0))


def test_what_grows_with_the_size_is_kept() -> None:
    judged, proxy = world(1, 0.0)
    means = shrunk_means(judged, proxy, first(20), SIZES)
    assert means == pytest.approx(judged.mean(axis=0), abs=1e-6)


def test_a_useless_proxy_leaves_the_corrected_means() -> None:
    judged, _ = world(2, 0.2)
    constant = np.full_like(judged, 0.5)
    sampled = first(20)
    assert weight_of_differences(judged[sampled], constant[sampled]) == 0
    means = shrunk_means(judged, constant, sampled, SIZES)
    assert means == pytest.approx(corrected_means(judged, constant, sampled)[0])


def test_shrinking_finds_better_cells_where_disagreement_is_chance() -> None:
    losses = []
    for seed in range(30):
        judged, proxy = world(seed, 0.1)
        truth, sampled = judged.mean(axis=0), np.random.default_rng(seed).permutation(QUERIES) < 12
        chosen = [corrected_means(judged, proxy, sampled)[0], shrunk_means(judged, proxy, sampled, SIZES)]
        losses.append([truth.max() - truth[scores.argmax()] for scores in chosen])
    corrected, shrunk = np.mean(losses, axis=0)
    assert shrunk < 0.8 * corrected
