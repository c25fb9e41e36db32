"""The comparison with the best: looks, what is certain, what is not. Its sets: tests/evals/grid/test_choice.py."""

from math import sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import multivariate_normal, norm, t

from evals.stats.best import compare_with_best

VALUES = np.clip(np.random.default_rng(1).normal(0.5, 0.2, (132, 6)) - np.linspace(0, 0.2, 6), 0, 1)
STRATA = np.arange(132) % 3


@pytest.mark.parametrize("looks", [[], [100, 132], [20, 40, 63, 80, 100, 132]])
@pytest.mark.parametrize("strata", [None, STRATA[:100]])
def test_a_bound_is_the_least_lead_over_a_cell_that_may_be_the_best(looks: list[int], strata: None) -> None:
    """By loops over pairs of cells: queries more, not seen, on which a cell loses all; strata differ by no chance."""
    values, kinds = VALUES[:100].copy(), np.zeros(100) if strata is None else STRATA[:100]
    values[:9, 1] = 1 - values[:9, 0].round()
    values[:9, 0] = values[:9, 0].round()
    found = compare_with_best(values, loss=0.5, span=1.0, strata=strata, looks=looks, seed=0)
    lower, quantiles, unseen = found.lower, found.quantiles, found.unseen
    differences = np.abs(values - values[:, [int(values.mean(axis=0).argmax())]])
    assert unseen == 1 + (differences >= 1 - 1e-9).sum() / (differences > 1e-9).sum()
    assert np.isnan(quantiles).tolist() == (~found.members).tolist() and np.nanmin(quantiles) >= 2
    share, expected = 1 - 100 / 132 if looks else 1.0, np.zeros(6)
    for cell in range(6):
        for best in np.flatnonzero(found.members).tolist():
            if best == cell:
                continue
            lead = values[:, cell] - values[:, best]
            within = sum(((lead[kinds == kind] - lead[kinds == kind].mean()) ** 2).sum() for kind in np.unique(kinds))
            whole = 100 + unseen
            mean = (100 * lead.mean() - unseen) / whole
            square = (within + 100 * lead.mean() ** 2 + unseen) / whole - mean**2
            moved = (100 * lead.mean() - share * unseen) / (100 + share * unseen)
            bound = moved - quantiles[best] * sqrt(share * square / (whole - 1))
            expected[cell] = min(expected[cell], bound)
    assert lower == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("strata", "judged", "freedom"), [(None, None, 5), (np.arange(6) % 2, None, 4), (None, 4, 3), (None, 1, 1)]
)
def test_of_two_cells_the_quantile_is_students(strata: None, judged: int | None, freedom: int) -> None:
    found = compare_with_best(VALUES[:6, :2], loss=0.5, span=1.0, strata=strata, judged=judged, seed=0)
    assert found.quantiles == pytest.approx(t.isf(0.05, freedom), rel=0.05 + 0.1 / freedom)


def test_of_two_looks_the_quantile_is_of_a_brownian_motion_in_the_time_that_is_left() -> None:
    found = compare_with_best(VALUES[:6, :2], loss=0.5, span=1.0, looks=[6, 10, 132], seed=0)
    first, second = (1 / (1 / n - 1 / 132) for n in (6, 10))
    both = multivariate_normal(cov=[[1, sqrt(first / second)], [sqrt(first / second), 1]])
    quantile = brentq(lambda end: both.cdf([end, end]) - 0.95, 1, 3)
    assert found.quantiles == pytest.approx(t.isf(norm.sf(quantile), 5), rel=0.02)
