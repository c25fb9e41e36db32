"""Paired differences against loops, and added losses against really added queries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evals.choice.pairs import pair_up

GRADED = np.random.default_rng(3).beta(0.5, 1, (30, 5))
BINARY = (np.random.default_rng(3).random((30, 5)) < 0.4).astype(float)
ONE = np.zeros(30, dtype=np.int64)


def test_differences_and_variances_are_those_of_every_pair() -> None:
    found = pair_up(GRADED, ONE, 1.0)
    for i in range(5):
        for j in range(5):
            differences = GRADED[:, i] - GRADED[:, j]
            assert found.difference[i, j] == pytest.approx(differences.mean(), abs=1e-12)
            assert found.variance[i, j] == pytest.approx(differences.var(), abs=1e-12)


def test_within_strata_the_variance_is_around_their_means() -> None:
    strata = np.repeat([0, 1], [12, 18]).astype(np.int64)
    found = pair_up(GRADED, strata, 1.0)
    differences = GRADED[:, 0] - GRADED[:, 3]
    expected = (12 * differences[:12].var() + 18 * differences[12:].var()) / 30
    assert found.variance[0, 3] == pytest.approx(expected)
    assert found.difference[0, 3] == pytest.approx(differences.mean())


@pytest.mark.parametrize(("values", "added"), [(BINARY, 2), (np.where(GRADED > 0.9, 0.9, GRADED), 1)])
def test_losses_are_as_if_that_many_queries_had_been_added(values: np.ndarray, added: int) -> None:
    pairs = pair_up(values, ONE, 1.0)
    assert pairs.losses == added
    moved, error = pairs.with_losses(pairs.difference, pairs.variance)
    for i in range(5):
        for j in range(5):
            asked = np.concatenate([values[:, i] - values[:, j], [-1.0] * added])
            assert moved[i, j] == pytest.approx(asked.mean(), abs=1e-12)
            assert error[i, j] == pytest.approx(asked.std(ddof=1) / np.sqrt(30 + added), abs=1e-12)


def test_half_of_the_differences_whole_add_a_query_and_a_half() -> None:
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 0.5], [1.0, 1.0]])
    assert pair_up(values, np.zeros(5, dtype=np.int64), 1.0).losses == 1.5


def test_without_a_bound_the_span_is_the_largest_difference_seen() -> None:
    tokens = np.array([[100.0, 140.0, 90.0], [300.0, 310.0, 305.0]])
    assert pair_up(tokens, np.zeros(2, dtype=np.int64), None).span == 50.0


def test_more_queries_narrow_the_errors() -> None:
    pairs = pair_up(GRADED, ONE, 1.0)
    few, many = (pairs.with_losses(pairs.difference, pairs.variance, n) for n in (30, 3_000))
    off = ~np.eye(5, dtype=bool)
    assert (many[1][off] < few[1][off] / 5).all()
    assert many[0][off] == pytest.approx(pairs.difference[off], abs=0.001)


def test_a_constant_difference_has_no_variance_but_an_error() -> None:
    """40 times the same gain does not make a gain certain."""
    values = np.column_stack([GRADED[:, 0] * 0.5, GRADED[:, 0] * 0.5 + 0.02])
    pairs = pair_up(values, ONE, 1.0)
    assert pairs.variance.tolist() == [[0, 0], [0, 0]]
    moved, error = pairs.with_losses(pairs.difference, pairs.variance)
    assert moved[1, 0] < 2 * error[1, 0]


@given(arrays(float, (12, 4), elements=st.floats(0, 1, width=32)), st.floats(-5, 5))
def test_what_is_common_to_all_cells_of_a_query_does_not_count(values: np.ndarray, shift: float) -> None:
    strata = np.zeros(12, dtype=np.int64)
    shifted = values + shift * np.arange(12)[:, None]
    one, other = pair_up(values, strata, 1.0), pair_up(shifted, strata, 1.0)
    assert other.difference == pytest.approx(one.difference, abs=1e-9)
    assert other.variance == pytest.approx(one.variance, abs=1e-9)
