"""Figures whose truth is known in closed form or by hand: what a simulation of a whole promise is too coarse to see."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from evals.grid.choice import combine, held_out
from evals.sampling.corrected import corrected, difference
from evals.sampling.rounds import Unjudged, judge_in_rounds
from evals.stats.abstention import promise
from evals.stats.bands import mean_bands, share_bands
from evals.stats.best import with_unseen
from evals.stats.paired import sign_flip

EACH = 1 - 0.05 / 3  # of the three bands that hold together with 95%


def test_a_band_of_independent_cells_is_as_wide_as_sidak_says() -> None:
    values = np.random.default_rng(0).random((600, 300))
    low, high = mean_bands(values, 0)
    errors = (high - low) / 2 / (values.std(axis=0) / np.sqrt(600))
    assert errors == pytest.approx(norm.ppf((1 + EACH ** (1 / 300)) / 2), rel=0.04)
    rare = mean_bands(np.eye(30)[:, :1], 0)[0]  # by Clopper and Pearson, as normal theory fails there
    assert rare == pytest.approx(1 - ((1 + EACH) / 2) ** (1 / 30), rel=0.1)


def test_a_band_of_independent_cells_of_rare_hits_holds() -> None:
    held, rng = 0, np.random.default_rng(1)
    for seed in range(200):
        low, high = mean_bands((rng.random((66, 60)) < 0.05).astype(float), seed)
        held += bool(((low <= 0.05) & (high >= 0.05)).all())
    assert held >= 192, "98.3% is said of each band"


def test_a_band_of_shares_holds_for_all_ordered_scores_of_a_sample() -> None:
    low, high = share_bands(np.array([0.0, 1.0]), 1)
    assert (*low, *high) == pytest.approx((0, (1 - EACH) / 2, (1 + EACH) / 2, 1), abs=0.002)
    low, high = share_bands(np.arange(31.0), 30)
    ordered = np.sort(np.random.default_rng(1).random((20_000, 30)), axis=1)
    # A threshold just below the k-th score leaves k - 1 scores below it, one just above it leaves k.
    held = (low[1:] <= ordered) & (ordered <= high[:-1])
    assert held.all(axis=1).mean() == pytest.approx(EACH, abs=0.006)


@pytest.mark.parametrize(("scale", "lowest"), [("cosine", 0.0), ("bm25", -4.0)])
def test_a_promise_that_all_keep_is_the_lowest_threshold_of_its_scale(scale: str, lowest: float) -> None:
    assert promise([-3.0, 0.6], [-4.0, 0.5], 1.0, scale, among=1).threshold == lowest


@pytest.mark.parametrize(("known", "looks"), [(True, [20]), (False, [20, 23, 26, 30, 34, 39, 40])])
def test_judging_ends_where_the_cells_that_are_left_return_the_same_on_all_that_is_not_judged(
    known: bool, looks: list[int]
) -> None:
    """Three cells of which the last two are alike, the first one wins less; they return the same from the tenth on."""
    scores = np.full((40, 3), 0.5)
    scores[:3, 0], scores[3:6, 1:] = 0.6, 0.65
    results = np.zeros((40, 3), dtype=np.int64) if known else np.arange(120).reshape(40, 3)
    results[:10] = 1, 2, 2
    queries = Unjudged(proxy=scores, results=results, alone=None, span=1.0)
    rounds = [
        *judge_in_rounds(lambda rows, cells: (scores[rows][:, cells], True), queries, margin=0.0, most=40, seed=0)
    ]
    assert [look.n for look in rounds] == looks and rounds[-1].chosen == 1
    if known:
        assert rounds[-1].within[1] == 0.0 and rounds[-1].remaining.tolist() == [False, True, True]


@pytest.mark.parametrize(("outside", "strata"), [(9, 1), (10, 2)])
def test_fewer_than_ten_queries_of_a_kind_go_with_the_others(outside: int, strata: int) -> None:
    inside = np.arange(40 + outside)[:, None] < 40
    scores = {"found": np.where(inside, [0.5, 0.6], np.nan), "silent": np.where(inside, np.nan, [1.0, 0.0])}
    assert len({*combine({"found": 0.8, "silent": 0.2}, scores, [(0, 1)] * 2).strata.tolist()}) == strata


@pytest.mark.parametrize(("inside", "outside"), [(9, 3), (40, 9), (100, 6), (40, 12)])
def test_an_interval_of_a_sum_over_both_kinds_stays_within_its_range(inside: int, outside: int) -> None:
    is_inside = np.arange(inside + outside)[:, None] < inside
    scores = {"found": np.where(is_inside, 1.0, np.nan), "silent": np.where(is_inside, np.nan, 1.0)}
    perfect: Any = SimpleNamespace(recommended=SimpleNamespace(value=1.0))
    judged = replace(combine({"found": 0.8, "silent": 0.2}, scores, [(0, 1)] * 2), judged=7)
    found = held_out(perfect, judged)
    assert found.interval.low is not None and 0.6 < found.interval.low < 1 == found.interval.high
    assert (found.n, found.judged) == (inside + outside, 7)


def test_where_every_sign_does_as_well_as_the_observed_ones_p_is_1() -> None:
    assert sign_flip(np.tile([0.5, -0.5], 20), 0) == 1.0


def test_where_labels_agree_with_all_verdicts_one_that_was_not_seen_is_as_far_off_as_can_be() -> None:
    """Labels of 0.2 to 0.6 on 60 queries, 20 of them judged: a verdict is at most 0.6 below, or 0.8 above its label."""
    proxy = np.linspace(0.2, 0.6, 60)[:, None]
    sample = corrected(np.where(np.arange(60)[:, None] % 3 == 0, proxy, np.nan), proxy, 1.0)
    low, high = sample.of_these(looks=1)
    for end, distance in ((proxy.mean() - low[0], 0.6), (high[0] - proxy.mean(), 0.8)):
        moved, error = with_unseen(np.zeros(1), np.zeros(1), 20, distance, 40 / 60)
        assert end == pytest.approx(student.ppf(0.975, 19) * error[0] - moved[0])


@pytest.mark.parametrize("ones", [1, 9])
def test_bounds_of_few_verdicts_stay_within_what_they_leave_possible(ones: int) -> None:
    judged = np.full((60, 1), np.nan)
    judged[:10] = np.arange(10)[:, None] < ones
    low, high = corrected(judged, np.zeros((60, 1))).of_these(looks=1)
    ends = low[0] == pytest.approx(1 / 60), high[0] == pytest.approx(59 / 60)  # all others score 0, or 1
    assert ends == (ones == 1, ones == 9)


def test_two_samples_compared_the_other_way_round_have_the_mirrored_interval() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 5, (2, 120)) / 4
    labels[1, :80] = labels[0, :80]
    verdicts = np.where(rng.random((2, 120)) < 0.9, labels, np.minimum(1.0, labels + np.array([[0.0], [0.5]])))
    verdicts[:, rng.permutation(120)[60:]] = np.nan
    pair, weight = difference((verdicts[0], verdicts[1]), (labels[0], labels[1]), 0)
    turned, _ = difference((verdicts[1], verdicts[0]), (labels[1], labels[0]), 0)
    assert weight > 0 and pair.interval.low is not None and pair.interval.high is not None
    mirrored = -pair.interval.high, -pair.interval.low
    assert (turned.interval.low, turned.interval.high) == pytest.approx(mirrored)
    judged = ~np.isnan(verdicts).any(axis=0)
    foretold = weight * (labels[1] - labels[0])
    numbers = foretold + np.where(judged, 120 / judged.sum() * (verdicts[1] - verdicts[0] - foretold), 0.0)
    assert pair.difference == pytest.approx(numbers.mean())
    assert pair.p in (sign_flip(numbers, 0), 0.05)
