"""Weights of several proxies, against least squares, the single weight, and proxies that say nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.stats.corrected_mean import shrunk_weight
from evals.stats.joint_weights import shrunk_weights

Floats = NDArray[np.float64]


def noisy(rng: np.random.Generator, judged: Floats, noise: float) -> Floats:
    return judged + rng.normal(0, noise, judged.shape)


def test_two_good_proxies_have_the_weights_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    judged = rng.random((4000, 1))
    proxies = [noisy(rng, judged, 0.2), noisy(rng, judged, 0.3)]
    table = np.column_stack([np.ones(4000), *proxies])
    slopes = np.linalg.lstsq(table, judged[:, 0], rcond=None)[0][1:]
    assert shrunk_weights(judged, proxies) == pytest.approx(slopes, rel=0.01)


@given(st.integers(0, 10_000), st.integers(3, 30), st.integers(1, 3), st.integers(1, 4))
def test_weights_are_shares_whose_sum_is_one_at_most(seed: int, n: int, columns: int, proxies: int) -> None:
    rng = np.random.default_rng(seed)
    judged = rng.random((n, columns)).round(1)
    own = [np.where(rng.random(judged.shape) < 0.6, judged, rng.random(judged.shape).round(1)) for _ in range(proxies)]
    weights = shrunk_weights(judged, own)
    assert min(weights) >= 0 and sum(weights) <= 1 + 1e-12
    assert shrunk_weights(judged, own[:1]) == (shrunk_weight(judged, own[0]),)


def test_the_same_proxy_twice_counts_once() -> None:
    rng = np.random.default_rng(1)
    judged = rng.random((15, 2))
    proxy = noisy(rng, judged, 0.2)
    assert sum(shrunk_weights(judged, [proxy, proxy, 0.5 * proxy])) == pytest.approx(shrunk_weight(judged, proxy))


@pytest.mark.parametrize("useless", ["constant", "contrary"])
def test_a_proxy_that_does_not_help_leaves_the_weight_of_the_other(useless: str) -> None:
    rng = np.random.default_rng(2)
    judged = rng.random((20, 1))
    proxy, other = noisy(rng, judged, 0.2), np.full((20, 1), 0.5) if useless == "constant" else 1 - judged
    assert shrunk_weights(judged, [other, proxy]) == (0.0, shrunk_weight(judged, proxy))


def test_columns_share_the_weights_of_their_summed_moments() -> None:
    rng = np.random.default_rng(3)
    judged = rng.random((300, 3))
    first, second = noisy(rng, judged, 0.2), noisy(rng, judged, 0.3)
    centred = [(scores - scores.mean(axis=0)).reshape(-1, 1) for scores in (judged, first, second)]
    slopes = np.linalg.lstsq(np.column_stack(centred[1:]), centred[0][:, 0], rcond=None)[0]
    assert shrunk_weights(judged, [first, second]) == pytest.approx(slopes, rel=0.02)


def test_three_queries_have_no_regression_and_four_have_one_of_a_single_proxy() -> None:
    judged = np.array([[0.0], [1.0], [0.0], [1.0]])
    assert shrunk_weights(judged[:3], [judged[:3], judged[:3]]) == (0.0, 0.0)
    assert sum(shrunk_weights(judged, [judged, judged[::-1] * 0.5])) == 1.0


def errors(rng: np.random.Generator, noises: tuple[float, float], n: int) -> tuple[float, ...]:
    """Squared errors of the corrected mean of n of 225 by both proxies, and by each alone."""
    judged = rng.random((225, 1))
    proxies = [noisy(rng, judged, noise) for noise in noises]
    squares = []
    for used in ((0, 1), (0,), (1,)):
        chosen = shrunk_weights(judged[:n], [proxies[place][:n] for place in used])
        moves = [w * (proxies[place].mean() - proxies[place][:n].mean()) for w, place in zip(chosen, used, strict=True)]
        squares.append(float(judged[:n].mean() + sum(moves) - judged.mean()) ** 2)
    return tuple(squares)


@pytest.mark.parametrize("noises", [(0.2, 0.2), (0.1, 0.4), (0.2, 5.0)])
def test_both_are_no_worse_than_the_better_alone(noises: tuple[float, float]) -> None:
    rng = np.random.default_rng(4)
    both, first, second = np.sqrt(np.mean([errors(rng, noises, 15) for _ in range(1000)], axis=0))
    assert both < 1.05 * min(first, second)
    if noises[0] == noises[1]:
        assert both < 0.9 * min(first, second)
