import itertools

import numpy as np
import pytest

from evals.stats.corrected_mean import Floats
from evals.stats.weighted_draws import Draws, draw, draw_weights, drawn_evenly, estimate


def useless(values: Floats) -> Floats:
    return np.full_like(values, 0.5)


def test_equal_probabilities_give_the_plain_mean_and_variance() -> None:
    rng = np.random.default_rng(0)
    judged = rng.random((30, 2))
    draws = drawn_evenly((3, 17, 5, 28, 9, 1), 30)
    found = estimate(draws, judged, useless(judged))
    rows = judged[list(draws.queries)]
    assert draw_weights(draws) == pytest.approx(np.ones(6))
    assert found.values == pytest.approx(rows.mean(axis=0))
    assert found.weight == 0
    # in expectation it is (1/M − 1/N) · variance; over all orders of the same six, about that
    orders = [drawn_evenly(order, 30) for order in itertools.permutations(draws.queries)]
    mean = np.mean([estimate(order, judged, useless(judged)).covariance for order in orders], axis=0)
    assert mean == pytest.approx((1 / 6 - 1 / 30) * np.cov(rows.T), rel=0.15)


def test_the_estimate_is_the_mean_of_scores_by_lures_weights() -> None:
    rng = np.random.default_rng(1)
    judged = rng.random((20, 3))
    draws = draw(Draws(queries=(), chances=(), total=20), rng.random(20) + 0.1, 8, rng)
    found = estimate(draws, judged, useless(judged))
    assert found.values == pytest.approx(draw_weights(draws) @ judged[list(draws.queries)] / 8)


def test_it_is_unbiased_over_every_order_of_adaptive_draws() -> None:
    """Three of five queries; the probabilities of a draw depend on the score drawn before."""
    scores = np.array([0.1, 0.9, 0.3, 0.7, 0.2])
    expected = 0.0
    for order in itertools.permutations(range(5), 3):
        chances, likelihood = [], 1.0
        for place, query in enumerate(order):
            left = [i for i in range(5) if i not in order[:place]]
            wanted = {i: 1 + 3 * abs(i - 2) * (scores[order[place - 1]] if place else 1.0) for i in left}
            chances.append(wanted[query] / sum(wanted.values()))
            likelihood *= chances[-1]
        draws = Draws(queries=order, chances=tuple(chances), total=5)
        expected += likelihood * estimate(draws, scores[:, None], np.zeros((5, 1))).values[0]
    assert expected == pytest.approx(scores.mean())


def test_all_drawn_is_certain() -> None:
    judged = np.random.default_rng(2).random((6, 2))
    found = estimate(drawn_evenly((5, 1, 0, 3, 2, 4), 6), judged, judged / 2)
    assert found.values == pytest.approx(judged.mean(axis=0))
    assert not found.covariance.any()


def test_no_more_than_are_left_are_drawn() -> None:
    draws = draw(drawn_evenly((2, 0), 4), np.ones(4), 9, np.random.default_rng(0))
    assert sorted(draws.queries) == [0, 1, 2, 3]
    assert draws.chances == pytest.approx((1 / 4, 1 / 3, 1 / 2, 1))


def test_favoured_queries_come_first() -> None:
    chances = np.where(np.arange(100) < 10, 1_000.0, 0.001)
    draws = draw(Draws(queries=(), chances=(), total=100), chances, 10, np.random.default_rng(0))
    assert sorted(draws.queries) == list(range(10))


def test_draws_that_favour_where_cells_differ_have_less_error_and_no_bias() -> None:
    """Two cells that differ on 30 of 150 queries."""
    rng = np.random.default_rng(4)
    judged = rng.random((150, 1)).repeat(2, axis=1)
    judged[:30, 1] = rng.random(30)
    truth, proxy = judged.mean(axis=0), useless(judged)
    favoured = np.where(np.arange(150) < 30, 0.8 / 30, 0.2 / 120)
    errors, predicted = [], []
    for _ in range(400):
        for chances in (np.ones(150), favoured):
            found = estimate(draw(Draws(queries=(), chances=(), total=150), chances, 20, rng), judged, proxy)
            errors.append(found.values[1] - found.values[0] - (truth[1] - truth[0]))
            predicted.append(np.array([-1, 1]) @ found.covariance @ np.array([-1, 1]))
    even, weighted = np.array(errors).reshape(-1, 2).T
    assert weighted.std() < 0.6 * even.std()
    for error, variance in zip((even, weighted), np.array(predicted).reshape(-1, 2).T, strict=True):
        assert abs(error.mean()) < 3.5 * error.std() / 20
        assert variance.mean() == pytest.approx(error.var(), rel=0.3)
