"""Cells that scored the same on every query."""

import numpy as np
import pytest

from evals.grid.choice.equal_cells import merge


def test_identical_columns_are_one_the_preferred_first() -> None:
    values = np.array([[1.0, 0.5, 1.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5, 0.0]])
    assert merge(values, np.array([3, 1, 2, 0, 4])) == ((3, 1), (2, 0), (4,))


def test_columns_that_are_not_named_are_in_no_group() -> None:
    assert merge(np.array([[1.0, 1.0, 1.0, 0.0]]), np.array([3, 2, 0])) == ((3,), (2, 0))


def test_equal_means_are_not_equal_scores() -> None:
    assert len(merge(np.array([[1.0, 0.0], [0.0, 1.0]]), np.arange(2))) == 2


@pytest.mark.parametrize(("other", "groups"), [(1 - 1e-10, 1), (1 - 1e-8, 2), (1.0, 1)])
def test_rounding_noise_is_no_difference(other: float, groups: int) -> None:
    """ragas' perfect precision is 1 - 1e-10 / number of relevant."""
    assert len(merge(np.array([[1.0, other]]), np.arange(2))) == groups


def test_minus_zero_is_zero() -> None:
    assert len(merge(np.array([[0.0, -0.0, -1e-12]]), np.arange(3))) == 1


def test_one_and_all_identical_cells() -> None:
    assert merge(np.ones((3, 1)), np.arange(1)) == ((0,),)
    assert merge(np.ones((3, 4)), np.array([3, 2, 1, 0])) == ((3, 2, 1, 0),)
