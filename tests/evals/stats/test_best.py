"""The comparison with the best: looks, what is certain, what is not. Its sets: tests/evals/grid/test_choice.py."""

import numpy as np
import pytest

from evals.stats.best import compare_with_best, planned_looks, with_unseen

VALUES = np.clip(np.random.default_rng(1).normal(0.5, 0.2, (132, 6)) - np.linspace(0, 0.2, 6), 0, 1)


def test_looks_grow_by_an_eighth_from_twenty_to_all() -> None:
    assert planned_looks(66) == [20, 23, 26, 30, 34, 39, 44, 50, 57, 64, 66]
    assert planned_looks(12) == [12]


def test_of_these_queries_nothing_is_uncertain_once_all_are_judged() -> None:
    found = compare_with_best(VALUES, loss=0.5, span=1.0, looks=planned_looks(132))
    mean = VALUES.mean(axis=0)
    assert np.flatnonzero(found.members).tolist() == [mean.argmax()]
    assert found.bounds.lower == pytest.approx(mean - mean.max(), abs=1e-12)


def test_a_part_says_more_of_these_queries_than_of_all_that_users_may_ask() -> None:
    part = VALUES[:100]
    here = compare_with_best(part, loss=0.5, span=1.0, looks=[100, 132])
    users = compare_with_best(part, loss=0.5, span=1.0)
    assert (here.bounds.lower > users.bounds.lower).all() and here.members.sum() <= users.members.sum()
    assert (users.bounds.lower <= part.mean(axis=0) - part.mean(axis=0).max()).all()
    several = compare_with_best(part, loss=0.5, span=1.0, looks=[20, 40, 63, 80, 100, 132])
    assert np.nanmax(several.bounds.quantiles) > np.nanmax(here.bounds.quantiles)


def test_a_difference_of_strata_is_no_chance() -> None:
    """Two cells, of which one is better by 0.1 in scope and worse by 0.1 out of scope, with little noise."""
    strata = np.arange(80) % 2
    noise = np.random.default_rng(2).normal(0, 0.01, (80, 2))
    values = 0.5 + noise + np.stack([np.where(strata == 0, 0.1, -0.1), np.zeros(80)], axis=1)
    known = compare_with_best(values, loss=0.5, span=1.0, strata=strata)
    unknown = compare_with_best(values, loss=0.5, span=1.0)
    assert (
        known.bounds.lower >= unknown.bounds.lower - 1e-12
    ).all() and known.bounds.lower.sum() > unknown.bounds.lower.sum()


def test_an_unseen_query_by_hand() -> None:
    """Differences 0.1 four times and, not seen, −1."""
    seen = np.array([0.1, 0.1, 0.1, 0.1, -1.0])
    moved, error = with_unseen(np.array([0.1]), np.zeros(1), 4, 1.0)
    assert moved[0] == pytest.approx(seen.mean())
    assert error[0] == pytest.approx(seen.std() / 2)
