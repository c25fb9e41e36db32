from collections.abc import Sequence
from typing import Any

import pytest

from evals.comparison.differences import WHOLE_RUN, adjust, choose, difference
from evals.errors import ReportError
from evals.report.model import Difference
from evals.stats.paired import compare, holm
from tests.support.reports import FALSE_ANSWER, HIT, NDCG, P95, TOKENS, Score, paired, report

VERDICT = "queries/pass_rate"


def found(metric: str, baseline: Sequence[Score], other: Sequence[Score], **settings: Any) -> Difference:
    first, second = report({metric: baseline}), report({metric: other})
    return difference(metric, first, second, paired(first, second), **{"restricted": False, "seed": 0} | settings)


def test_a_metric_that_scores_queries_is_compared_over_them() -> None:
    one = found(NDCG, [0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25])
    assert one.paired == compare([0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25], 0)
    assert (one.baseline, one.other, one.difference, one.better) == (0.4375, 0.5, 0.0625, "higher")
    assert (one.wins, one.losses) == (2, 1)


def test_where_lower_is_better_a_fall_is_a_win() -> None:
    one = found(FALSE_ANSWER, [1.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    assert (one.better, one.wins, one.losses) == ("lower", 2, 1)


def test_only_queries_scored_in_both_count_and_the_others_are_named() -> None:
    one = found(NDCG, [0.5, "unscored", 0.2, "unscored", None], [0.25, 0.5, "unscored", "unscored", None])
    assert one.paired is not None
    assert (one.paired.n, one.baseline, one.other) == (1, 0.5, 0.25)
    assert (one.only_baseline, one.only_other, one.failed, one.worst) == (("q2",), ("q1",), (), None)


def test_failed_scores_are_named_and_bounded() -> None:
    """0.5 and 0.5 are even; q1 failed in the other (0 at worst), q2 in the baseline (1 at worst), q3 in both."""
    one = found(NDCG, [0.5, 0.2, "failed", "failed"], [0.5, "failed", 0.3, "failed"])
    assert (one.difference, one.failed) == (0.0, ("q1", "q2", "q3"))
    assert one.worst == pytest.approx((0 - 0.2 - 0.7 - 1) / 4)


def test_where_lower_is_better_a_failed_score_is_1_at_worst() -> None:
    one = found(FALSE_ANSWER, [0.0, 0.0, "failed"], [0.0, "failed", 0.0])
    assert one.worst == pytest.approx(1 / 3)


def test_a_failed_score_against_an_unscored_one_bounds_nothing() -> None:
    assert found(NDCG, [0.5, "unscored"], [0.5, "failed"]).worst == 0.0


def test_scores_without_ends_have_no_worst_case() -> None:
    one = found(TOKENS, [500.0, 300.0], [500.0, "failed"])
    assert (one.difference, one.failed, one.worst) == (0.0, ("q1",), None)


@pytest.mark.parametrize(
    ("baseline", "other", "note"),
    [
        (["unscored"], [0.5], "no query is scored in both: because"),
        ([0.5], ["failed"], "no query is scored in both: because"),
        ([0.5, None], [None, 0.5], "no query is scored in both: they are over other queries"),
    ],
)
def test_nothing_scored_in_both(baseline: Sequence[Score], other: Sequence[Score], note: str) -> None:
    one = found(NDCG, baseline, other)
    assert (one.paired, one.difference, one.note) == (None, None, note)


def test_a_metric_that_one_run_did_not_measure() -> None:
    first, second = report({NDCG: [0.5]}), report({HIT: [1.0]})
    queries = paired(first, second)
    assert difference(NDCG, first, second, queries, restricted=False, seed=0).note == "not measured in the other run"
    assert difference(HIT, first, second, queries, restricted=False, seed=0).note == "not measured in the baseline"
    both = difference(TOKENS, first, second, queries, restricted=False, seed=0)
    assert (both.note, both.difference) == ("not measured in the baseline nor in the other run", None)


def test_a_statistic_of_the_whole_run_is_not_paired() -> None:
    first, second = report({NDCG: [0.5]}, {P95: 3.0}), report({NDCG: [0.5]}, {P95: 2.0})
    one = difference(P95, first, second, paired(first, second), restricted=False, seed=0)
    assert (one.baseline, one.other, one.difference, one.paired, one.note) == (3.0, 2.0, -1.0, None, WHOLE_RUN)


def test_a_statistic_of_the_whole_run_is_not_restricted_to_some_queries() -> None:
    first, second = report({NDCG: [0.5]}, {P95: 3.0}), report({NDCG: [0.5]}, {P95: 2.0})
    one = difference(P95, first, second, paired(first, second), restricted=True, seed=0)
    assert one.difference is None
    assert "cannot be restricted to the common queries" in one.note


def test_a_statistic_without_a_value_says_why() -> None:
    first, second = report({NDCG: [0.5]}, {P95: 3.0}), report({NDCG: [0.5]}, {P95: None})
    one = difference(P95, first, second, paired(first, second), restricted=False, seed=0)
    assert (one.difference, one.note) == (None, "no value in the other run: nothing to say")


def test_the_pass_rate_is_compared_by_the_queries_outcomes() -> None:
    first, second = report({HIT: [1.0, 1.0, 0.0]}), report({HIT: [1.0, 0.0, 0.0]})
    one = difference(VERDICT, first, second, paired(first, second), restricted=False, seed=0)
    assert one.paired is not None
    assert (one.baseline, one.other) == pytest.approx((2 / 3, 1 / 3))
    assert (one.losses, one.paired.n) == (1, 3)


def test_p_values_are_adjusted_over_all_runs_and_metrics() -> None:
    few = found(NDCG, [0.1 * n for n in range(8)], [0.1 * n + 0.05 for n in range(8)])
    some = found(NDCG, [0.5, 0.2], [0.1, 0.4])
    whole = Difference(metric=P95, better="lower", baseline=1.0, other=2.0)
    adjusted = adjust([[few, whole], [some]])
    assert few.paired and some.paired
    expected = holm([few.paired.p, some.paired.p])
    assert [[one.p_adjusted for one in family] for family in adjusted] == [[expected[0], None], [expected[1]]]
    assert expected[0] == 2 * few.paired.p < 0.02


def test_metrics_are_chosen_by_pattern_in_the_order_of_the_reports() -> None:
    reports = [report({NDCG: [0.5], HIT: [1.0]}), report({TOKENS: [9.0], NDCG: [0.5]})]
    assert choose(reports, ["*"]) == [NDCG, HIT, VERDICT, TOKENS]
    assert choose(reports, [TOKENS, "ranking/*"]) == [NDCG, HIT, TOKENS]
    assert choose(reports, []) == []
    with pytest.raises(ReportError, match="no metric 'rankng/\\*' in these runs; did you mean 'ranking/"):
        choose(reports, ["ranking/*", "rankng/*"])
