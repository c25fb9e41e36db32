"""Verdicts drawn within queries, against sums over every possible draw."""

from collections.abc import Sequence
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.judge.precision import average_precision
from evals.stats.corrected_mean import Bools, Floats
from evals.stats.drawn_verdicts import (
    LEVELS,
    Questions,
    buy,
    expected_scores,
    importance,
    is_whole,
    levels_bought,
)
from evals.stats.weighted_draws import Draws, draw_weights

# The probability that a query is bought down to each level.
LIKELIHOODS = [before - after for before, after in pairwise((*LEVELS, 0.0))]
CUTS = (1, 2, 4)


def precision(verdicts: Bools) -> Floats:
    """Average precision [queries, cuts] of beginnings, which no sum over verdicts gives."""
    return np.array([[average_precision(row[:cut].astype(int).tolist()) for cut in CUTS] for row in verdicts])


def staged(verdicts: Bools, labels: Bools, chances: Floats) -> list[Floats]:
    return [precision(np.where(chances >= level, verdicts, labels)) for level in LEVELS]


def every_draw(count: int) -> list[tuple[NDArray[np.int64], float]]:
    """Every combination of levels down to which queries are bought, and its probability."""
    every = product(range(len(LEVELS)), repeat=count)
    return [(np.array(bought), float(np.prod([LIKELIHOODS[level] for level in bought]))) for bought in every]


@pytest.fixture
def tiny() -> tuple[Bools, Bools, Floats]:
    """Verdicts, labels and chances of four queries with four chunks."""
    rng = np.random.default_rng(1)
    verdicts, labels = (rng.random((4, 4)) < 0.5 for _ in range(2))
    chances = rng.choice(np.array(LEVELS), (4, 4))
    # One query whose least chance is a half, and one that is always bought whole.
    chances[1], chances[2] = (0.5, 1.0, 0.5, 1.0), 1.0
    return verdicts, labels, chances


def test_scores_are_unbiased_and_their_variance_is_known(tiny: tuple[Bools, Bools, Floats]) -> None:
    verdicts, labels, chances = tiny
    truth, stages = precision(verdicts), staged(verdicts, labels, chances)
    mean, square, predicted = (np.zeros_like(truth) for _ in range(3))
    for level, likelihood in enumerate(LIKELIHOODS):
        scores, errors = expected_scores(stages, chances, np.full(4, level))
        mean += likelihood * scores
        square += likelihood * (scores - truth) ** 2
        predicted += likelihood * (errors**2).sum(axis=1)
    assert mean == pytest.approx(truth)
    assert predicted == pytest.approx(square)
    assert square[2] == pytest.approx(0.0) and square[0].max() > 0


def test_the_covariance_of_cells_is_known_too(tiny: tuple[Bools, Bools, Floats]) -> None:
    verdicts, labels, chances = tiny
    truth, stages = precision(verdicts), staged(verdicts, labels, chances)
    covariance, predicted = (np.zeros((len(CUTS), len(CUTS))) for _ in range(2))
    for level, likelihood in enumerate(LIKELIHOODS):
        scores, errors = expected_scores(stages, chances, np.full(4, level))
        apart = (scores - truth)[0]
        covariance += likelihood * np.outer(apart, apart)
        predicted += likelihood * errors[0].T @ errors[0]
    assert predicted == pytest.approx(covariance)


def test_what_was_not_bought_has_no_part_in_the_score(tiny: tuple[Bools, Bools, Floats]) -> None:
    verdicts, labels, chances = tiny
    for level, least in enumerate(LEVELS):
        bought = np.full(4, level)
        hidden = np.where(chances >= least, verdicts, labels)
        for seen, known in zip(
            expected_scores(staged(hidden, labels, chances), chances, bought),
            expected_scores(staged(verdicts, labels, chances), chances, bought),
            strict=True,
        ):
            assert seen == pytest.approx(known)


def test_means_are_unbiased_over_every_draw_of_queries_and_of_verdicts_within(
    tiny: tuple[Bools, Bools, Floats],
) -> None:
    """Two of four queries; the probability of the second depends on what the first one's bought verdicts say."""
    verdicts, labels, chances = tiny
    truth, stages = precision(verdicts), staged(verdicts, labels, chances)
    by_scores, total = np.zeros(len(CUTS)), 0.0
    for bought, likelihood in every_draw(4):
        scores, _ = expected_scores(stages, chances, bought)
        for first, second in permutations(range(4), 2):
            left = np.array([1.0 + (2.0 if scores[first, 1] > 0.5 else 0.0) * (row == 3) for row in range(4)])
            left[first] = 0.0
            chance = float(left[second] / left.sum())
            draws = Draws(queries=(first, second), chances=(0.25, chance), total=4)
            share = likelihood * 0.25 * chance
            weights, rows = draw_weights(draws), [first, second]
            by_scores += share * (weights @ scores[rows]) / 2
            total += share
    assert total == pytest.approx(1.0)
    assert by_scores == pytest.approx(truth.mean(axis=0))


def test_a_uniform_number_says_how_far_a_query_is_bought() -> None:
    uniform = (np.arange(1000) + 0.5) / 1000
    counts = np.bincount(levels_bought(uniform)) / 1000
    assert counts == pytest.approx(LIKELIHOODS)
    chances = np.array([[1.0, 1.0], [0.5, 1.0], [0.25, 0.0]])
    assert [is_whole(chances, np.full(3, level)).tolist() for level in range(3)] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def made(cells: Sequence[Sequence[float]]) -> Questions:
    """One query; the influence of each question on each cell."""
    influence = np.array(cells, dtype=np.float32)[None, None]
    return Questions(asked=influence[0] != 0, influence=influence)


def test_what_moves_no_difference_matters_nothing() -> None:
    questions = made([[0.2, 0.3, 0.0], [0.2, 0.1, 0.4]])
    assert importance(questions, 0, np.array([0.0, 1.0])) == pytest.approx(np.array([[0.0, 0.04, 0.16]]))
    assert importance(questions, 1, np.array([0.5, 0.5])) == pytest.approx(np.array([[0.0, 0.02, 0.08]]))


def two_cuts(verdicts: Bools, labels: Bools) -> tuple[Questions, Floats, Floats]:
    """Shares of useful chunks among the first four and the first five of six."""
    cuts, queries = (4, 5), len(verdicts)
    asked = np.zeros((queries, 2, 6), dtype=np.bool_)
    for cell, cut in enumerate(cuts):
        asked[:, cell, :cut] = True
    influence = (asked / asked.sum(axis=2, keepdims=True)).astype(np.float32)

    def shares(said: Bools) -> Floats:
        scores: Floats = (influence * said[:, None]).sum(axis=2)
        return scores

    return Questions(asked=asked, influence=influence[None]), shares(verdicts), shares(labels)


@pytest.mark.parametrize("agreement", [0.9, 0.5])
def test_the_chunk_that_decides_is_bought_and_others_only_if_that_pays(agreement: float) -> None:
    rng = np.random.default_rng(2)
    labels = rng.random((60, 6)) < 0.4
    verdicts = labels ^ (rng.random((60, 6)) >= agreement)
    questions, scores, proxy = two_cuts(verdicts, labels)
    first = np.arange(20)

    def stages(chances: Floats) -> list[Floats]:
        mixed = [np.where(chances >= level, verdicts[:20], labels[:20]) for level in LEVELS]
        return [(questions.influence[0, :20] * said[:, None]).sum(axis=2) for said in mixed]

    buying = buy(questions, 0, np.array([0.0, 0.01]), 0.01, first, (scores - proxy)[:20], stages)
    assert buying.chances[:, 5] == pytest.approx(0.0)
    assert buying.chances[:, 4] == pytest.approx(1.0)
    assert (buying.chances[:, :4] < 1).all()
    # Were no label ever wrong beyond the fifth chunk but often before, the others would have to be bought.
    verdicts[:, 4] = labels[:, 4]
    _, scores, proxy = two_cuts(verdicts, labels)
    again = buy(questions, 0, np.array([0.0, 0.01]), 0.01, first, (scores - proxy)[:20], stages)
    assert (again.chances[:, :5] == 1).all()


def test_queries_on_which_nothing_moves_are_not_favoured() -> None:
    questions = Questions(
        asked=np.ones((2, 2, 2), dtype=np.bool_),
        influence=np.array([[[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.2, 0.5]]]], dtype=np.float32),
    )
    same = np.zeros((1, 2))
    buying = buy(questions, 0, np.zeros(2), 0.02, np.array([0]), same, lambda chances: [same] * len(LEVELS))
    assert buying.favoured[0] == 0 < buying.favoured[1]
