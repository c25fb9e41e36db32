"""Evidence against a tie with a loss added: numbers by hand, the exact maximum, what must not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import poisson, ttest_1samp

from evals.grid.choice.empirical_likelihood import TIE, beyond_doubt

Floats = NDArray[np.float64]


def exact(differences: Floats, loss: float) -> float:
    """The evidence by a numerical search for λ."""
    extended = np.append(differences, -loss)
    most = 1 / -extended.min()
    found = minimize_scalar(lambda v: -np.log1p(v * extended).sum(), bounds=(0, most * (1 - 1e-9)), method="bounded")
    return max(0.0, -float(found.fun))


def hits(won: int, lost: int, of: int = 60) -> Floats:
    return np.array([1.0] * won + [-1.0] * lost + [0.0] * (of - won - lost))


@pytest.mark.parametrize(("won", "lost", "certain"), [(4, 0, False), (5, 0, True), (6, 1, False), (7, 1, True)])
def test_hits_by_hand(won: int, lost: int, certain: bool) -> None:
    """w log(2w / m) + (l + 1) log(2(l + 1) / m) with m = w + l + 1: 0.92, 1.46 without a loss, 1.05, 1.47 with one."""
    m, losses = won + lost + 1, lost + 1
    evidence = won * np.log(2 * won / m) + losses * np.log(2 * losses / m)
    assert exact(hits(won, lost), 1.0) == pytest.approx(evidence, abs=1e-6)
    assert bool(evidence > TIE) is certain
    assert beyond_doubt(hits(won, lost)[:, None], 1.0).tolist() == [certain]


@pytest.mark.parametrize(("total", "certain"), [(3.5, False), (3.8, True)])
def test_small_gains_on_every_query_must_add_up(total: float, certain: bool) -> None:
    """S − 1 − log S, in losses of 1, when S is what is gained together: 1.25 at 3.5, 1.46 at 3.8."""
    gains = np.full((4_000, 1), total / 4_000)
    assert beyond_doubt(gains, 1.0).tolist() == [certain]
    assert beyond_doubt(gains / 2, 0.5).tolist() == [certain]


@pytest.mark.parametrize("seen", [0, 1, 2, 5])
def test_as_few_losses_as_it_calls_beyond_doubt_are_improbable(seen: int) -> None:
    """Gains that make up for S losses, of which so many were seen: the least S at which it is said."""
    for total in np.arange(seen + 1, seen + 12, 0.1):
        differences = np.append(np.full(20_000, total / 20_000), [-1.0] * seen)[:, None]
        if beyond_doubt(differences, 1.0)[0]:
            assert 0.01 < poisson.cdf(seen, total) < 0.04
            return
    raise AssertionError("never beyond doubt")


def test_where_many_queries_differ_both_ways_it_is_the_t_test() -> None:
    rng = np.random.default_rng(0)
    differences = np.clip(rng.normal(0, 0.2, (2_000, 400)), -1, 1) + np.linspace(0, 0.016, 400)
    rejected = ttest_1samp(differences, 0, alternative="greater").pvalue < 0.05
    assert (beyond_doubt(differences, 0.5) == rejected).mean() > 0.97


@given(st.integers(0, 10_000), st.integers(10, 300), st.floats(0.05, 1), st.floats(0.2, 1))
def test_errs_on_the_side_of_doubt_and_little(seed: int, queries: int, share: float, loss: float) -> None:
    rng = np.random.default_rng(seed)
    some = rng.random((queries, 12)) < share
    differences = np.where(some, np.clip(rng.normal(np.linspace(0, 0.4, 12), 0.3, (queries, 12)), -1, 1), 0.0)
    for column, certain in enumerate(beyond_doubt(differences, loss).tolist()):
        evidence = exact(differences[:, column], loss)
        assert certain is False or evidence > TIE - 1e-4
        assert certain is True or evidence < 1.06 * TIE
