"""Shares of verdicts, with intervals that draw whole queries: loops, invariances and simulated coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from evals.judge import estimates as estimate
from evals.judge.estimates import Estimate, Floats, by_query, resampled_totals, share, share_interval
from evals.stats import intervals as stats
from evals.stats.intervals import Interval, wilson

TRIALS = np.array([1.0, 2, 3, 4, 5, 6, 7, 8] * 5)
RIGHT = np.where(np.arange(40) % 3 == 0, np.floor(TRIALS / 2), TRIALS)
NONE = np.zeros(40)


def test_sums_by_query_come_in_the_order_of_ids_and_hold_repeated_ones() -> None:
    sums = by_query(["b", "a", "b"], [(1, 2), (3, 4), (5, 6)], columns=2)
    assert sums.tolist() == [[3, 4], [6, 8]]
    assert by_query([], [], columns=3).shape == (0, 3)


def test_resampled_totals_are_those_of_drawn_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a loop over the same draws, whether they are made at once or in parts."""
    rows = np.stack([RIGHT, TRIALS], axis=1)
    picks = np.random.default_rng(3).integers(0, 40, (stats.RESAMPLES, 40))
    expected = [[sum(rows[query, column] for query in draw) for column in (0, 1)] for draw in picks[:50]]
    whole = resampled_totals(rows, 3)
    assert whole.shape == (9_999, 2)
    assert whole[:50].tolist() == expected
    monkeypatch.setattr(estimate, "AT_ONCE", 40 * 777)
    assert np.array_equal(resampled_totals(rows, 3), whole)


def test_a_share_is_wilsons_at_the_worth_of_its_verdicts() -> None:
    """Variance of the share by a loop over the same 9,999 draws; Student's quantile of 39 degrees of freedom."""
    picks = np.random.default_rng(0).integers(0, 40, (stats.RESAMPLES, 40))
    shares = [RIGHT[draw].sum() / TRIALS[draw].sum() for draw in picks]
    value = RIGHT.sum() / TRIALS.sum()
    worth = value * (1 - value) / (np.var(shares) * 40 / 39) * (1.959963984540054 / 2.0226909117347285) ** 2
    expected = wilson(value * worth, worth)
    found = share(RIGHT, TRIALS, NONE, 0, empty="")
    assert (found.value, found.n, found.n_queries) == (value, TRIALS.sum(), 40)
    assert found.interval.low == pytest.approx(expected.low, abs=1e-9)
    assert found.interval.high == pytest.approx(expected.high, abs=1e-9)
    assert worth < TRIALS.sum()


def test_same_seed_same_interval_other_seed_another() -> None:
    assert share_interval(RIGHT, TRIALS, 1) == share_interval(RIGHT, TRIALS, 1)
    assert share_interval(RIGHT, TRIALS, 1) != share_interval(RIGHT, TRIALS, 2)


def test_one_verdict_a_query_is_nearly_wilsons_own() -> None:
    """The bootstrap variance is then p(1−p)/n, but for the resampling, and Student's quantile is 1.984."""
    right, one = np.array([1.0] * 70 + [0.0] * 30), np.ones(100)
    found, expected = share_interval(right, one, 0), wilson(70, 100)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.006)


@pytest.mark.parametrize("copies", [2, 10])
def test_repeating_every_verdict_tells_nothing_new(copies: int) -> None:
    """Check against resampling verdicts instead of queries: ten times the verdicts gave a third of the width."""
    once, often = share_interval(RIGHT, TRIALS, 0), share_interval(RIGHT * copies, TRIALS * copies, 0)
    assert (often.low, often.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert once.low is not None and once.high is not None
    naive = wilson(RIGHT.sum() * 10, TRIALS.sum() * 10)
    assert naive.low is not None and naive.high is not None
    assert once.high - once.low > 2 * (naive.high - naive.low)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_without_any_spread_the_verdicts_on_a_query_count_as_one(value: float) -> None:
    """Kish: (3 + 1)² / (9 + 1) = 1.6 trials; of equal queries, their number."""
    uneven = np.array([3.0, 1.0])
    assert share_interval(uneven * value, uneven, 0) == wilson(1.6 * value, 1.6)
    even = np.full(25, 8.0)
    assert share_interval(even * value, even, 0) == wilson(25 * value, 25)


def test_verdicts_spread_evenly_are_worth_no_more_than_their_number() -> None:
    """Half of each query's verdicts: resamples do not vary at all."""
    found = share_interval(np.full(20, 2.0), np.full(20, 4.0), 0)
    shrunk = 80 * (stats.Z / float(t.ppf(0.975, 19))) ** 2
    assert found == wilson(shrunk / 2, shrunk)


@pytest.mark.parametrize("queries", [1, 2, 9])
def test_too_few_queries_have_a_share_but_no_interval(queries: int) -> None:
    found = share(np.ones(queries), np.full(queries, 2.0), np.zeros(queries), 0, empty="")
    said = "1 query" if queries == 1 else f"{queries} queries"
    assert found.value == 0.5
    assert found.interval == Interval(note=f"not computable: only {said}, 10 are needed")


def test_queries_without_a_trial_are_no_queries_of_it() -> None:
    padded = np.concatenate([TRIALS, np.zeros(30)])
    found = share(np.concatenate([RIGHT, np.zeros(30)]), padded, np.zeros(70), 0, empty="")
    assert found == share(RIGHT, TRIALS, NONE, 0, empty="")


def test_nothing_has_no_share_and_says_why() -> None:
    found = share(np.zeros(3), np.zeros(3), np.zeros(3), 0, empty="no verdict")
    assert found == Estimate(value=None, n=0, n_queries=0, note="no verdict")
    assert share(np.zeros(0), np.zeros(0), np.zeros(0), 0, empty="no verdict") == found


def test_failures_leave_bounds_open() -> None:
    """6 of 8, and 2 that failed: between 6 and 8 of 10."""
    found = share(np.array([4.0, 2.0]), np.array([4.0, 4.0]), np.array([0.0, 2.0]), 0, empty="")
    assert (found.value, found.n, found.n_failed) == (0.75, 8, 2)
    assert (found.bound_low, found.bound_high) == (0.6, 0.8)
    all_failed = share(np.zeros(1), np.zeros(1), np.ones(1), 0, empty="none")
    assert (all_failed.value, all_failed.bound_low, all_failed.bound_high) == (None, 0, 1)


@given(
    st.lists(st.integers(1, 12).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))), min_size=1, max_size=30)
)
def test_the_interval_holds_the_share_within_0_and_1_or_says_why_there_is_none(counts: list[tuple[int, int]]) -> None:
    right, trials = np.array(counts, dtype=float).T
    found = share(right, trials, np.zeros(len(counts)), 0, empty="")
    low, high = found.interval.low, found.interval.high
    if low is None or high is None:
        assert len(counts) < 10 and found.interval.note
    else:
        assert found.value is not None
        assert 0 <= low <= found.value + 1e-12 and found.value - 1e-12 <= high <= 1


def verdicts(rng: np.random.Generator, queries: int, rate: float, correlation: float) -> tuple[Floats, Floats]:
    """1 to 9 verdicts on each query, wrong at a rate of its own around the mean rate."""
    trials = rng.integers(1, 10, queries)
    a, b = rate * (1 - correlation) / correlation, (1 - rate) * (1 - correlation) / correlation
    return rng.binomial(trials, rng.beta(a, b, queries)).astype(float), trials.astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("queries", [20, 66, 225])
@pytest.mark.parametrize("correlation", [0.05, 0.3])
@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_covers_the_true_rate_of_correlated_verdicts(
    rate: float, correlation: float, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 600 samples 91% to 99% hold the true rate (999 resamples each); of 1,000 it was 92.2% at the least.

    Wilson's interval of the same verdicts taken for independent holds it in as few as 75%.
    """
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    rng = np.random.default_rng(queries)
    covered = [_holds(share_interval(*verdicts(rng, queries, rate, correlation), seed), rate) for seed in range(600)]
    assert 0.91 <= np.mean(covered) <= 0.99


def _holds(interval: Interval, value: float) -> bool:
    assert interval.low is not None and interval.high is not None
    return interval.low <= value <= interval.high
