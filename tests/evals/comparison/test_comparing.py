from typing import Any

import pytest

from evals.comparison.comparing import ComparisonOptions, compare
from evals.comparison.regressions import Tolerance
from evals.errors import ExperimentError, ReportError
from tests.support.reports import HIT, NDCG, P95, TOKENS, judge, report, row, run

FIRST = run(report({NDCG: [0.5, 0.5, 0.5], HIT: [1.0, 1.0, 0.0]}, {P95: 3.0}), "first.json")
SECOND = run(report({NDCG: [0.5, 0.1, 0.9], HIT: [1.0, 0.0, 0.0]}, {P95: 2.0}, seed=5), "second.json")
THIRD = run(report({NDCG: [0.5, 0.5, 0.6], TOKENS: [9.0, 9.0, 9.0]}), "third.json")


def rows(*names: str) -> list[dict[str, Any]]:
    return [row(name, {NDCG: 0.5}) for name in names]


def test_every_run_is_compared_with_the_baseline() -> None:
    first, second = compare(FIRST, [SECOND, THIRD], ComparisonOptions())
    assert (first.baseline, first.other, second.baseline, second.other) == (FIRST, SECOND, FIRST, THIRD)
    assert [one.metric for one in first.differences] == [one.metric for one in second.differences]
    assert [one.what for one in first.mismatches] == ["seed"]
    assert (first.restricted, first.regressions) == (False, [])
    assert [move.baseline.id for move in first.moved] == ["q1", "q2"]


def test_p_values_are_adjusted_over_all_of_them() -> None:
    alone = compare(FIRST, [SECOND], ComparisonOptions(metrics=(NDCG,)))[0].differences[0]
    together = compare(FIRST, [SECOND, THIRD], ComparisonOptions(metrics=(NDCG, HIT)))[0].differences[0]
    assert alone.paired and together.paired
    assert (alone.p_adjusted, together.paired.p) == (alone.paired.p, alone.paired.p)
    assert together.p_adjusted == min(1.0, 3 * alone.paired.p)


def test_by_default_the_metrics_are_those_that_a_run_shows() -> None:
    [found] = compare(FIRST, [SECOND], ComparisonOptions())
    assert [one.metric for one in found.differences] == [NDCG, HIT, P95, "queries/pass_rate"]
    hidden = [run(report({"ranking/precision_at_3": values}), str(values)) for values in ([0.5], [0.6])]
    [found] = compare(hidden[0], hidden[1:], ComparisonOptions())
    assert [one.metric for one in found.differences] == ["queries/pass_rate"]


def test_metrics_by_which_something_is_asked_are_compared_too() -> None:
    wanted = ComparisonOptions(metrics=(HIT,), by=(NDCG,), tolerances=(Tolerance(metric=P95, tolerance=0),))
    [found] = compare(FIRST, [SECOND], wanted)
    assert [one.metric for one in found.differences] == [HIT, NDCG, P95]
    assert [one.passed for one in found.regressions] == [True]
    assert {move.metric for move in found.moved} == {NDCG}


def test_queries_are_ordered_by_the_metric_with_a_tolerance() -> None:
    [found] = compare(FIRST, [SECOND], ComparisonOptions(tolerances=(Tolerance(metric=HIT, tolerance=0.5),)))
    assert {move.metric for move in found.moved} == {HIT}


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ReportError, match="no metric 'rankng"):
        compare(FIRST, [SECOND], ComparisonOptions(metrics=("rankng*",)))
    with pytest.raises(ReportError, match="no metric 'nothing'"):
        compare(FIRST, [SECOND], ComparisonOptions(by=("nothing",)))
    with pytest.raises(ExperimentError, match="no metric 'ranking/ndcg'; did you mean"):
        compare(FIRST, [SECOND], ComparisonOptions(tolerances=(Tolerance(metric="ranking/ndcg", tolerance=0),)))


def test_a_metric_that_neither_run_measured_fails_its_tolerance() -> None:
    [found] = compare(
        FIRST, [SECOND], ComparisonOptions(tolerances=(Tolerance(metric="content/verbatim", tolerance=1),))
    )
    assert [one.reason for one in found.regressions] == ["not measured in the baseline nor in the other run"]


def test_other_golden_data_are_refused_with_every_mismatch_and_the_remedy() -> None:
    first = run(report({NDCG: [0.5]}, rows=rows("a", "b"), dataset_fingerprint="1"), "one.json")
    second = run(report({NDCG: [0.5]}, rows=rows("b", "c"), dataset_fingerprint="2", seed=3), "two.json")
    with pytest.raises(ReportError) as caught:
        compare(first, [second], ComparisonOptions())
    assert str(caught.value).splitlines() == [
        "'two.json' must not be compared with 'one.json':",
        "  golden data: 2 queries, 1 → 2 queries, 2 (1 only in the baseline (a), 1 only in the other (c))",
        "  seed: 0 → 3",
        "  --common compares on the 1 queries that are the same in both",
    ]
    [found] = compare(first, [second], ComparisonOptions(common=True))
    assert found.restricted
    assert [a.id for a, _ in found.pairing.rows] == ["b"]
    assert found.differences[0].paired and found.differences[0].paired.n == 1


def test_nothing_in_common_is_refused_even_when_restricted() -> None:
    first = run(report({NDCG: [0.5]}, rows=rows("a"), dataset_fingerprint="1"), "one.json")
    second = run(report({NDCG: [0.5]}, rows=rows("c"), dataset_fingerprint="2"), "two.json")
    with pytest.raises(ReportError, match="no query is the same in both, so there is nothing to compare"):
        compare(first, [second], ComparisonOptions(common=True))


def test_what_different_judges_said_is_not_compared_and_fails_its_tolerance() -> None:
    precision = "ragas/llm_context_precision"
    first, second = (
        run(report({NDCG: [0.5], precision: [0.5]}, judge=judge(fingerprint=name)), name) for name in ("one", "two")
    )
    [found] = compare(first, [second], ComparisonOptions(tolerances=(Tolerance(metric=precision, tolerance=1),)))
    by_name = {one.metric: one for one in found.differences}
    assert (by_name[precision].difference, by_name[precision].paired) == (None, None)
    assert by_name[NDCG].difference == 0.0
    assert [one.reason for one in found.regressions] == ["given by different judges, so not compared"]
    [same] = compare(first, [run(first.report, "again")], ComparisonOptions())
    assert {one.metric: one.difference for one in same.differences}[precision] == 0.0


def test_restricting_what_is_the_same_anyway_restricts_nothing() -> None:
    [found] = compare(FIRST, [SECOND], ComparisonOptions(common=True))
    assert not found.restricted


def test_one_query_only() -> None:
    first, second = (run(report({NDCG: [value], HIT: [1.0]}), str(value)) for value in (0.5, 0.25))
    [found] = compare(first, [second], ComparisonOptions())
    assert {one.note for one in found.differences} == {"not computable: fewer than two queries"}
    assert {one.p_adjusted for one in found.differences} == {1.0}
