import numpy as np
import pytest

from evals.stats.returned_chunks import pool

# Three cells of three queries: all return the same; one leaves one out; one returns nothing.
SELECTIONS = (
    (("a", "b"), ("b", "a"), ("a", "b")),
    (("a", "b"), ("a", "b"), ("a",)),
    (("c", "d"), ("d", "e"), ()),
)


def test_pools_hold_what_any_cell_returns() -> None:
    returned = pool(SELECTIONS)
    assert returned.pools == (("a", "b"), ("a", "b"), ("c", "d", "e"))
    assert returned.chunks.shape == (3, 3, 3)
    assert returned.chunks[2].tolist() == [[True, True, False], [False, True, True], [False, False, False]]
    assert returned.sizes.tolist() == [[2, 2, 2], [2, 2, 1], [2, 2, 0]]


def test_verdicts_that_a_query_takes() -> None:
    returned = pool(SELECTIONS)
    assert returned.needed.sum(axis=1).tolist() == [2, 2, 3]
    assert returned.of(np.array([0, 2])).needed.sum(axis=1).tolist() == [2, 2, 2]


def test_queries_decide_where_cells_differ() -> None:
    returned = pool(SELECTIONS)
    assert returned.decides.tolist() == [False, True, True]
    assert returned.of(np.array([0, 1])).decides.tolist() == [False, False, True]
    # of the second query a half differs in one of three cells; of the third all two, and two of two
    assert returned.differing(0) == pytest.approx([0, (1 / 2) / 3, (2 / 2 + 2 / 2) / 3])


def test_likeness_is_the_covariance_of_wrong_verdicts() -> None:
    returned = pool(SELECTIONS)
    rng, rows = np.random.default_rng(0), np.arange(3)
    wrong = rng.normal(0, 1, (20_000, 3, 3))
    scores = np.einsum("dqp,qcp->dc", wrong, returned.chunks / np.maximum(1, returned.sizes)[:, :, None])
    assert np.cov(scores.T) == pytest.approx(returned.likeness(rows), abs=0.06)
    assert returned.likeness(np.array([0])) == pytest.approx(np.full((3, 3), 0.5))
