"""Intervals against scipy, brute force, exact binomial sums and simulated coverage."""

import warnings
from math import comb, sqrt
from statistics import fmean
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binomtest, moment, norm
from scipy.stats import t as student_t

from evals.stats import intervals as stats

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


class TestWilson:
    @pytest.mark.parametrize("n", [1, 2, 7, 40, 88, 1_000])
    def test_equals_scipy(self, n: int) -> None:
        for successes in {0, 1, n // 3, n // 2, n - 1, n}:
            expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
            found = stats.wilson(successes, n)
            assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)

    def test_ends_are_exactly_0_and_1_where_none_or_all_succeed(self) -> None:
        assert {stats.wilson(0, n).low for n in range(1, 200)} == {0.0}
        assert {stats.wilson(n, n).high for n in range(1, 200)} == {1.0}

    def test_of_nothing_is_not_computable(self) -> None:
        found = stats.wilson(0, 0)
        assert (found.low, found.high) == (None, None)
        assert "nothing was scored" in found.note


class TestMeanInterval:
    VALUES = np.random.default_rng(5).beta(2, 0.5, 60)

    @pytest.mark.parametrize("seed", range(4))
    def test_of_amounts_solves_the_score_equation(self, seed: int) -> None:
        """(m − δ)² n = t² V(δ), by root finding on either side of m."""
        values = np.random.default_rng(seed).lognormal(3, 0.8, 12 + 20 * seed)
        mean, variance, n = float(values.mean()), values.var(ddof=1), len(values)
        slope, quantile = moment(values, 3) / moment(values, 2), student_t.ppf(0.975, n - 1)

        def excess(delta: float) -> float:
            return float((mean - delta) ** 2 * n - quantile**2 * (variance + slope * (delta - mean)))

        reach = 20 * float(values.std())
        expected = brentq(excess, mean - reach, mean, xtol=1e-14), brentq(excess, mean, mean + reach, xtol=1e-14)
        found = stats.mean_interval(values.tolist(), shares=False)
        assert (found.low, found.high) == pytest.approx(expected, rel=1e-10)

    def test_of_differences_is_students(self) -> None:
        values = np.random.default_rng(1).exponential(1, 40) - 0.5
        expected = student_t.interval(0.95, 39, loc=values.mean(), scale=values.std(ddof=1) / sqrt(40))
        found = stats.mean_interval(values.tolist(), shares=False)
        assert (found.low, found.high) == pytest.approx(expected, rel=1e-9)

    def test_rounding_noise_of_perfect_scores_is_no_spread(self) -> None:
        """ragas' average precision of a perfect ranking with k relevant is k / (k + 1e-10)."""
        found = stats.mean_interval([k / (k + 1e-10) for k in (1, 2, 3, 5)] * 10)
        assert (found.low, found.high) == pytest.approx((stats.wilson(40, 40).low, 1.0), abs=1e-9)

    def test_other_constants_have_what_the_bounds_allow(self) -> None:
        """As if z² of 40 + z² values were 0, or 1."""
        found = stats.mean_interval([0.25] * 40)
        share = 3.8414588206941254 / (40 + 3.8414588206941254)
        assert (found.low, found.high) == pytest.approx((0.25 * (1 - share), 0.25 + 0.75 * share), abs=1e-12)

    @pytest.mark.parametrize("value", [0.0, 1.0])
    def test_constant_amounts_have_none_even_at_0_and_1(self, value: float) -> None:
        """No tokens for each of 40 queries does not make 0.09 tokens likely."""
        assert "all values are equal" in stats.mean_interval([value] * 40, shares=False).note

    def test_of_nothing_is_not_computable(self) -> None:
        assert stats.mean_interval([]) == stats.Interval(note="not computable: nothing was scored")

    @pytest.mark.parametrize("n", [2, 5, 9])
    def test_too_few_values_say_how_many_are_needed(self, n: int) -> None:
        found = stats.mean_interval([0.1 * place for place in range(n)])
        assert found.low is None
        assert found.note == f"not computable: {n} values are too few, 10 are needed"

    @given(SHARES)
    def test_of_shares_holds_the_mean_within_0_and_1_or_says_why_not(self, values: list[float]) -> None:
        found = stats.mean_interval(values)
        if found.low is None or found.high is None:
            assert found.note.startswith("not computable")
        else:
            assert 0 <= found.low <= fmean(values) + 1e-9
            assert fmean(values) - 1e-9 <= found.high <= 1

    @given(st.lists(SHARES.filter(lambda v: len(v) >= 12).map(lambda v: v[:12]), min_size=1, max_size=4), st.booleans())
    def test_columns_are_treated_like_single_means(self, columns: list[list[float]], shares: bool) -> None:
        low, high = stats.mean_intervals(np.array(columns).T, shares=shares)
        for place, column in enumerate(columns):
            alone = stats.mean_interval(column, shares=shares)
            expected = [np.nan if end is None else end for end in (alone.low, alone.high)]
            assert [low[place], high[place]] == pytest.approx(expected, nan_ok=True)


def _tail(n: int, share: float, places: range) -> float:
    """Probability that the number of values below the percentile is one of `places`, by exact summation."""
    return sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in places)


class TestPercentileInterval:
    @pytest.mark.parametrize(("share", "needed"), [(0.5, 6), (0.95, 72), (0.99, 368)])
    def test_needs_72_calls_for_p95_368_for_p99_6_for_the_median(self, share: float, needed: int) -> None:
        assert stats.percentile_interval(list(range(needed)), share).low is not None
        short = stats.percentile_interval(list(range(needed - 1)), share)
        assert (short.low, short.high) == (None, None)
        assert short.note == f"not computable: {needed - 1} values are too few, {needed} are needed"

    @pytest.mark.parametrize(("share", "n"), [(0.5, 6), (0.5, 7), (0.5, 100), (0.95, 72), (0.95, 176), (0.99, 500)])
    def test_leaves_at_most_a_fortieth_on_either_side_and_is_the_shortest_that_does(self, share: float, n: int) -> None:
        """By exact binomial sums: the percentile lies below the low end iff fewer than `low` values lie below it."""
        found = stats.percentile_interval([float(place) for place in range(1, n + 1)], share)
        assert found.low is not None and found.high is not None
        low, high = int(found.low), int(found.high)
        assert _tail(n, share, range(low)) <= 0.025 < _tail(n, share, range(low + 1))
        assert _tail(n, share, range(high, n + 1)) <= 0.025 < _tail(n, share, range(high - 1, n + 1))

    def test_of_nothing_is_not_computable(self) -> None:
        assert stats.percentile_interval([], 0.5) == stats.Interval(note="not computable: no values")


class TestAuroc:
    @pytest.mark.parametrize("seed", range(5))
    def test_equals_scikit_learn(self, seed: int) -> None:
        from sklearn.metrics import roc_auc_score

        rng = np.random.default_rng(seed)
        positive, negative = rng.integers(3, 20, 40) / 20, rng.integers(0, 16, 24) / 20
        expected = roc_auc_score([1] * 40 + [0] * 24, np.concatenate([positive, negative]))
        assert stats.auroc(positive.tolist(), negative.tolist()) == pytest.approx(expected, abs=1e-12)


def _newcombe_end(area: float, m: int, n: int, side: Literal["low", "high"]) -> float:
    """An end of method 5 found another way: by minimising |observed z| - 1.96 over the side, from a grid outwards."""
    star = (m + n) / 2 - 1

    def gap(theta: Any) -> Any:
        spread = theta * (1 - theta) * (1 + star * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
        return ((area - theta) ** 2 - norm.ppf(0.975) ** 2 * spread) ** 2

    grid = np.linspace(1e-6, area - 1e-6, 4_001) if side == "low" else np.linspace(area + 1e-6, 1 - 1e-6, 4_001)
    best = int(np.argmin(gap(grid)))
    bounds = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    return float(minimize_scalar(gap, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x)


class TestAurocInterval:
    @pytest.mark.parametrize(("m", "n"), [(40, 24), (132, 44), (10, 60), (2, 2)])
    @pytest.mark.parametrize("area", [0.1, 0.5, 0.73, 0.9])
    def test_equals_an_independent_numerical_solution(self, area: float, m: int, n: int) -> None:
        found = stats.auroc_interval(area, m, n)
        expected = _newcombe_end(area, m, n, "low"), _newcombe_end(area, m, n, "high")
        assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)

    @given(st.floats(0, 1), st.integers(2, 200), st.integers(2, 200))
    def test_holds_the_area_and_mirrors_at_one_half(self, area: float, m: int, n: int) -> None:
        found, mirrored = stats.auroc_interval(area, m, n), stats.auroc_interval(1 - area, m, n)
        assert found.low is not None and found.high is not None
        assert 0 <= found.low <= area <= found.high <= 1
        assert (mirrored.high, mirrored.low) == pytest.approx((1 - found.low, 1 - found.high), abs=1e-9)

    @pytest.mark.parametrize(("m", "n"), [(1, 40), (40, 1), (0, 0)])
    def test_needs_two_queries_on_each_side(self, m: int, n: int) -> None:
        found = stats.auroc_interval(0.5, m, n)
        assert found.low is None and "fewer than two queries on one side" in found.note


def test_nothing_warns_on_awkward_values() -> None:
    awkward = [[0.0] * 11 + [1e-300], [0.0] * 39 + [1.0], [0.1] * 20 + [0.1 + 1e-17], [1e-12 * k for k in range(20)]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        intervals = [stats.mean_interval(values) for values in awkward]
    assert all(interval.low is not None for interval in intervals)
