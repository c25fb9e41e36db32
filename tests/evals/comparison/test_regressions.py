from collections.abc import Sequence
from typing import Any

import pytest

from evals.comparison.differences import difference
from evals.comparison.records import Regression
from evals.comparison.regressions import Tolerance, check_names, judge, parse, tolerated
from evals.errors import ExperimentError
from tests.support.reports import FALSE_ANSWER, NDCG, P95, TOKENS, Score, paired, report


def judged(metric: str, tolerance: float, baseline: Sequence[Score], other: Sequence[Score]) -> Regression:
    first, second = report({metric: baseline}), report({metric: other})
    found = difference(metric, first, second, paired(first, second), restricted=False, seed=0)
    [one] = judge([Tolerance(metric=metric, tolerance=tolerance)], [found])
    return one


def whole(baseline: float | None, other: float | None, tolerance: float) -> Regression:
    first, second = report({NDCG: [0.5]}, {P95: baseline}), report({NDCG: [0.5]}, {P95: other})
    found = difference(P95, first, second, paired(first, second), restricted=False, seed=0)
    [one] = judge([Tolerance(metric=P95, tolerance=tolerance)], [found])
    return one


def test_a_drop_within_the_tolerance_passes_and_one_beyond_fails() -> None:
    within = judged(NDCG, 0.1, [0.5, 0.5], [0.4, 0.4])
    assert within.passed is True
    assert within.drop == pytest.approx(0.1)
    assert judged(NDCG, 0.0999, [0.5, 0.5], [0.4, 0.4]).passed is False
    assert judged(NDCG, 0, [0.5, 0.5], [0.4, 0.6]).passed is True
    better = judged(NDCG, 0, [0.5], [0.9])
    assert better.passed is True
    assert better.drop == pytest.approx(-0.4)


def test_where_lower_is_better_a_rise_is_the_drop() -> None:
    assert judged(FALSE_ANSWER, 0.4, [0.0, 0.0], [1.0, 0.0]).passed is False
    assert judged(FALSE_ANSWER, 0.4, [1.0, 0.0], [0.0, 0.0]).passed is True


def test_it_fails_by_the_estimate_and_says_whether_the_interval_excludes_0() -> None:
    even: list[Score] = [0.5] * 20
    lower = judged(NDCG, 0.02, even, [0.4 - n / 100 for n in range(20)])
    assert (lower.passed, lower.certain, lower.reason) == (False, True, "the 95% interval excludes 0")
    mixed = judged(NDCG, 0.02, even, [0.1] * 4 + [0.8] * 3 + [0.5] * 13)
    assert (mixed.passed, mixed.certain, mixed.reason) == (False, False, "the 95% interval includes 0")
    few = judged(NDCG, 0.02, [0.5], [0.1])
    assert (few.passed, few.certain, few.reason) == (False, None, "there is no interval")


def test_failed_scores_count_as_badly_as_they_can() -> None:
    """19 even queries and one that failed in the other, where the baseline has 0.5: a drop of 0.025 at worst."""
    baseline: list[Score] = [0.5] * 20
    other: list[Score] = [0.5] * 19 + ["failed"]
    one = judged(NDCG, 0.02, baseline, other)
    assert one.passed is False
    assert one.drop == pytest.approx(0.025)
    assert one.reason == "the 95% interval includes 0, if all 1 failed scores had come out badly"
    assert judged(NDCG, 0.03, baseline, other).passed is True


def test_failed_scores_without_ends_leave_it_open() -> None:
    one = judged(TOKENS, 1e9, [500.0] * 40, [500.0] * 39 + ["failed"])
    assert (one.passed, one.reason) == (False, "1 failed scores leave it open")


@pytest.mark.parametrize(("kept", "passed"), [(20, True), (19, True), (18, False)])
def test_over_5_percent_scored_in_one_run_only_is_no_comparison(kept: int, passed: bool) -> None:
    one = judged(NDCG, 0.02, [0.5] * 20, [0.5] * kept + ["unscored"] * (20 - kept))
    assert one.passed is passed
    assert passed or one.reason == "2 of 20 queries are scored in one of the runs only, more than 5%"


def test_queries_scored_in_neither_run_are_no_loss() -> None:
    assert judged(NDCG, 0, [0.5] + ["unscored"] * 9, [0.5] + ["unscored"] * 9).passed is True


@pytest.mark.parametrize(
    ("baseline", "other", "said"),
    [(["unscored"], [0.5], "no query is scored in both"), ([0.5], ["failed"], "no query")],
)
def test_what_is_scored_in_one_run_only_fails(baseline: Sequence[Score], other: Sequence[Score], said: str) -> None:
    one = judged(NDCG, 1, baseline, other)
    assert (one.passed, one.drop, one.certain) == (False, None, None)
    assert one.reason.startswith(said)


def test_what_was_not_measured_fails() -> None:
    first, second = report({NDCG: [0.5]}), report({TOKENS: [1.0]})
    found = difference(NDCG, first, second, paired(first, second), restricted=False, seed=0)
    [one] = judge([Tolerance(metric=NDCG, tolerance=1)], [found])
    assert (one.passed, one.reason) == (False, "not measured in the other run")


def test_statistics_of_the_whole_run() -> None:
    assert whole(10.0, 12.0, 2).passed is True
    assert whole(10.0, 12.0, 1).passed is False
    assert whole(10.0, 9.0, 0).passed is True
    assert whole(10.0, None, 99).reason == "no value in the other run: nothing to say"


def test_tolerances_are_read_from_their_text() -> None:
    assert parse([f"{NDCG}:0.02", "latency/total_p95_ms:5"]) == {NDCG: 0.02, "latency/total_p95_ms": 5.0}
    assert parse([]) == {}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([NDCG], "expected METRIC:TOLERANCE such as ranking/ndcg_at_10:0.02, got 'ranking/ndcg_at_10'"),
        ([f"{NDCG}:"], "expected METRIC:TOLERANCE"),
        ([":0.02"], "expected METRIC:TOLERANCE"),
        ([f"{NDCG}:-0.1"], "expected METRIC:TOLERANCE"),
        ([f"{NDCG}:nan"], "expected METRIC:TOLERANCE"),
        ([f"{NDCG}:inf"], "expected METRIC:TOLERANCE"),
        ([f"{NDCG}:1", f"{NDCG}:2"], "ranking/ndcg_at_10 is named twice"),
        (["latency/drift:1"], "no direction of latency/drift is better"),
    ],
)
def test_tolerances_that_cannot_be_read(texts: list[str], said: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        tolerated(parse(texts))
    assert said in str(caught.value)


def test_a_tolerance_of_no_metric_that_exists() -> None:
    wanted: list[Any] = [Tolerance(metric="ranking/ndcg_at10", tolerance=0)]
    with pytest.raises(ExperimentError, match="no metric 'ranking/ndcg_at10'; did you mean 'ranking/ndcg_at_10'"):
        check_names(wanted, [NDCG], [TOKENS])
    check_names([Tolerance(metric=TOKENS, tolerance=0)], [NDCG], [TOKENS])
