"""Paired differences against loops, and added losses against really added queries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evals.grid.choice.pairs import Pairs, pair_up
from evals.grid.choice.standings import Floats, Integers, ObjectiveScores

GRADED = np.random.default_rng(3).beta(0.5, 1, (30, 5))
BINARY = (np.random.default_rng(3).random((30, 5)) < 0.4).astype(float)
ONE = np.zeros(30, dtype=np.int64)


def paired(values: Floats, strata: Integers, span: float | None = 1.0, floor: float = 0.0) -> Pairs:
    scores = ObjectiveScores(objective="", values=values, strata=strata, span=span, floor=floor)
    return pair_up(scores, values)


def all_of(pairs: Pairs) -> tuple[Floats, Floats]:
    return pairs.between(pairs.cells, pairs.cells)


def test_differences_and_variances_are_those_of_every_pair() -> None:
    difference, variance = all_of(paired(GRADED, ONE))
    for i in range(5):
        for j in range(5):
            differences = GRADED[:, i] - GRADED[:, j]
            assert difference[i, j] == pytest.approx(differences.mean(), abs=1e-12)
            assert variance[i, j] == pytest.approx(differences.var(), abs=1e-12)


def test_within_strata_the_variance_is_around_their_means() -> None:
    strata = np.repeat([0, 1], [12, 18]).astype(np.int64)
    difference, variance = all_of(paired(GRADED, strata))
    differences = GRADED[:, 0] - GRADED[:, 3]
    expected = (12 * differences[:12].var() + 18 * differences[12:].var()) / 30
    assert variance[0, 3] == pytest.approx(expected)
    assert difference[0, 3] == pytest.approx(differences.mean())


@pytest.mark.parametrize(("values", "added"), [(BINARY, 2), (np.where(GRADED > 0.9, 0.9, GRADED), 1)])
def test_losses_are_as_if_that_many_queries_had_been_added(values: np.ndarray, added: int) -> None:
    pairs = paired(values, ONE)
    assert pairs.losses == added
    moved, error = pairs.with_losses(*all_of(pairs))
    for i in range(5):
        for j in range(5):
            asked = np.concatenate([values[:, i] - values[:, j], [-1.0] * added])
            assert moved[i, j] == pytest.approx(asked.mean(), abs=1e-12)
            assert error[i, j] == pytest.approx(asked.std(ddof=1) / np.sqrt(30 + added), abs=1e-12)


def test_half_of_the_differences_whole_add_a_query_and_a_half() -> None:
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 0.5], [1.0, 1.0]])
    assert paired(values, np.zeros(5, dtype=np.int64)).losses == 1.5


def test_without_a_bound_the_span_is_the_largest_difference_seen() -> None:
    tokens = np.array([[100.0, 140.0, 90.0], [300.0, 310.0, 305.0]])
    assert paired(tokens, np.zeros(2, dtype=np.int64), None).span == 50.0
    assert paired(tokens, np.zeros(2, dtype=np.int64), None).typical_loss == 50.0


def test_a_typical_loss_is_what_the_best_cell_scores_where_it_scores_at_all() -> None:
    values = np.array([[0.0, 0.1], [0.5, 0.0], [0.7, 0.0], [0.0, 0.4]])
    assert paired(values, np.zeros(4, dtype=np.int64)).typical_loss == pytest.approx(0.6)
    below = paired(values - 1, np.zeros(4, dtype=np.int64), floor=-1)
    assert below.typical_loss == pytest.approx(0.6)
    lost = np.array([[0.9, 0.0], [0.3, 0.3], [0.3, 0.2], [0.3, 0.1]])
    assert paired(lost, np.zeros(4, dtype=np.int64)).typical_loss == pytest.approx(0.9), "seen by the first query"
    assert paired(np.zeros((4, 2)), np.zeros(4, dtype=np.int64)).typical_loss == 1.0


def test_some_rows_and_columns_are_those_of_all() -> None:
    pairs = paired(GRADED, ONE)
    rows, columns = np.array([3, 1]), np.array([0, 4, 2])
    for some, whole in zip(pairs.between(rows, columns), all_of(pairs), strict=True):
        assert some == pytest.approx(whole[np.ix_(rows, columns)], abs=1e-12)


def test_more_queries_narrow_the_errors() -> None:
    pairs = paired(GRADED, ONE)
    few, many = (pairs.with_losses(*all_of(pairs), n) for n in (30, 3_000))
    off = ~np.eye(5, dtype=bool)
    assert (many[1][off] < few[1][off] / 5).all()
    assert many[0][off] == pytest.approx(all_of(pairs)[0][off], abs=0.001)


def test_a_constant_difference_has_no_variance_but_an_error() -> None:
    """40 times the same gain does not make a gain certain."""
    values = np.column_stack([GRADED[:, 0] * 0.5, GRADED[:, 0] * 0.5 + 0.02])
    pairs = paired(values, ONE)
    assert all_of(pairs)[1].tolist() == [[0, 0], [0, 0]]
    moved, error = pairs.with_losses(*all_of(pairs))
    assert moved[1, 0] < 2 * error[1, 0]


@given(arrays(float, (12, 4), elements=st.floats(0, 1, width=32)), st.floats(-5, 5))
def test_what_is_common_to_all_cells_of_a_query_does_not_count(values: np.ndarray, shift: float) -> None:
    strata = np.zeros(12, dtype=np.int64)
    shifted = values + shift * np.arange(12)[:, None]
    one, other = all_of(paired(values, strata)), all_of(paired(shifted, strata))
    assert other[0] == pytest.approx(one[0], abs=1e-9)
    assert other[1] == pytest.approx(one[1], abs=1e-9)
