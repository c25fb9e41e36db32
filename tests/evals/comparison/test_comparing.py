"""Two runs by the door `compare`: what is paired, how scores differ, what forbids it, what moved, what is tolerated."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from evals.comparison.comparing import ComparisonOptions, compare, pair
from evals.comparison.differences import WHOLE_RUN
from evals.comparison.mismatches import changes
from evals.comparison.records import Comparison, Difference
from evals.comparison.sections import render
from evals.errors import ReportError
from evals.judge.tasks import PRECISION
from evals.report.model import FailedValue, Report
from evals.stats import paired
from tests.support.reports import FALSE_ANSWER, HIT, NDCG, P95, TOKENS, Score, hit, judge, report, row, run
from tests.support.results import report as report_of
from tests.support.results import sampled_result

VERDICT = "queries/pass_rate"
SCORES: dict[str, Sequence[Score]] = {HIT: [1.0, 0.0]}
NONE: list[Score] = ["unscored"]


def compared(first: Report, second: Report, **options: Any) -> Comparison:
    options.setdefault("metrics", ("*",))
    [made] = compare(run(first), [run(second, "b.json")], ComparisonOptions(**options))
    return made


def difference(first: Report, second: Report, metric: str) -> Difference:
    return next(one for one in compared(first, second).differences if one.metric == metric)


def found(metric: str, baseline: Sequence[Score], other: Sequence[Score]) -> Difference:
    return difference(report({metric: baseline}), report({metric: other}), metric)


def mismatches(first: Report, second: Report) -> dict[str, tuple[str, str]]:
    return {one.what: (one.baseline, one.other) for one in compared(first, second).mismatches}


# Pairs


def test_queries_are_paired_by_id_and_of_other_golden_data_those_whose_case_is_the_same() -> None:
    first = report({HIT: []}, rows=[row(name, {HIT: 1.0}) for name in "abc"], dataset_fingerprint="1" * 64)
    rows = [row("c", {HIT: 1.0}), row("b", {HIT: 1.0}, fingerprint="other"), row("x", {HIT: 1.0})]
    second = report({HIT: []}, rows=rows, dataset_fingerprint="2" * 64)
    pairing = pair(first, second)
    assert [(a.id, b.id) for a, b in pairing.rows] == [("c", "c")]
    assert (pairing.only_baseline, pairing.only_other, pairing.changed) == (("a",), ("x",), ("b",))
    same = report({HIT: []}, rows=rows, dataset_fingerprint="1" * 64)
    assert [a.id for a, _ in pair(first, same).rows] == ["b", "c"]
    nameless = [row("c", {HIT: 1.0}, fingerprint=None)]
    unknown, again = (report({HIT: []}, rows=nameless, dataset_fingerprint=digit * 64) for digit in "34")
    assert pair(first, unknown).changed == pair(unknown, again).changed == ("c",)
    with pytest.raises(ReportError, match="nothing to compare"):
        compared(first, unknown, common=True)


# Differences


def test_a_metric_is_compared_over_the_queries_that_it_scores_in_both() -> None:
    one = found(NDCG, [0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25])
    alone = paired.compare([0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25], 0)
    assert (one.low, one.high, one.p, one.n) == (alone.interval.low, alone.interval.high, alone.p, alone.n)
    assert (one.baseline, one.other, one.difference, one.wins, one.losses) == (0.4375, 0.5, 0.0625, 2, 1)
    lower = found(FALSE_ANSWER, [1.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    assert (lower.better, lower.wins, lower.losses) == ("lower", 2, 1)
    dropped = found(NDCG, [0.5, "unscored", 0.2, "unscored", None], [0.25, 0.5, "unscored", "unscored", None])
    assert (dropped.n, dropped.baseline, dropped.other) == (1, 0.5, 0.25)
    assert (dropped.only_baseline, dropped.only_other, dropped.worst) == (("q2",), ("q1",), None)


@pytest.mark.parametrize(
    ("metric", "baseline", "other", "failed", "worst"),
    [
        (NDCG, [0.5, 0.2, "failed", "failed"], [0.5, "failed", 0.3, "failed"], ("q1", "q2", "q3"), -1.9 / 4),
        (FALSE_ANSWER, [0.0, 0.0, "failed"], [0.0, "failed", 0.0], ("q1", "q2"), 1 / 3),
        (NDCG, [0.5, "unscored"], [0.5, "failed"], ("q1",), 0.0),
        (TOKENS, [500.0, 300.0], [500.0, "failed"], ("q1",), None),  # no ends
    ],
)
def test_failed_scores_count_at_their_end_that_is_worst_for_the_other_run(
    metric: str, baseline: Sequence[Score], other: Sequence[Score], failed: tuple[str, ...], worst: float | None
) -> None:
    one = found(metric, baseline, other)
    assert (one.difference, one.failed) == (0.0, failed)
    assert one.worst == (worst if worst is None else pytest.approx(worst))


def test_a_difference_without_pairs_says_why() -> None:
    for first, second, metric, note, value in (
        (report({NDCG: NONE}), report({NDCG: [0.5]}), NDCG, "no query is scored in both: because", None),
        (report({NDCG: [0.5, 0.5]}), report(SCORES | {NDCG: [0.5, 0.5]}), HIT, "not measured in the baseline", None),
        (report({NDCG: [0.5]}, {P95: 1.0}), report({NDCG: [0.5]}, {P95: 3.0}), P95, WHOLE_RUN, 2.0),
        (report({NDCG: [1]}, {P95: 1.0}), report({NDCG: [1]}, {P95: None}), P95, "no value in the other run: ", None),
    ):
        one = difference(first, second, metric)
        assert one.note.startswith(note) and one.difference == value


def test_p_values_are_adjusted_by_holm_over_all_runs_and_metrics_and_verdicts_follow_them() -> None:
    even: list[Score] = [0.5] * 20
    first, worse = report({NDCG: even, HIT: [1.0] * 20}), report({NDCG: [0.3] * 20, HIT: [1.0] * 20})
    made = compare(run(first), [run(worse, "b"), run(first, "c")], ComparisonOptions(metrics=("ranking/*",)))
    every = [one for each in made for one in each.differences]
    assert [one.p_adjusted for one in every] == paired.holm([one.p for one in every if one.p is not None])
    assert [one.verdict for one in every] == ["", "worse", "", ""]
    assert compared(worse, first).differences[1].verdict == "better"
    assert found(FALSE_ANSWER, [0.0] * 20, [1.0] * 20).verdict == "worse"


def test_metrics_are_the_headline_or_those_asked_for() -> None:
    first = report({"ranking/ndcg_at_3": [0.5], NDCG: [0.5]})
    assert [one.metric for one in compared(first, report({NDCG: [0.4]}), metrics=()).differences] == [NDCG, VERDICT]
    by = compared(first, first, metrics=(), by=("ranking/ndcg_at_3",), tolerances={VERDICT: 1}).differences
    assert {one.metric for one in by} >= {"ranking/ndcg_at_3", VERDICT}
    named = compared(first, first, metrics=("ranking/*",)).differences  # nothing else, unless all are asked for
    assert [one.metric for one in named] == ["ranking/ndcg_at_3", NDCG] and len(compared(first, first).differences) == 3


# Samples of judged queries

LABELS = np.random.default_rng(0).integers(0, 5, 60) / 4
JUDGED = np.clip(LABELS + np.random.default_rng(1).choice([0, 0, 0, 0.25, -0.25], 60), 0, 1)
GAINS = np.clip(JUDGED + 0.25, 0, 1) - JUDGED


def sampled(judged: int, shift: float = 0.0) -> Report:
    """Return a run that judged so many of 60 queries and is better by a shift, as the labels say too."""
    labels = np.clip(LABELS + shift, 0, 1)
    return report_of(sampled_result(np.clip(JUDGED + shift, 0, 1)[:judged].tolist(), labels.tolist()))


def changed(made: Report, **changes: Any) -> Report:
    return Report.model_validate(dict(made) | changes)


def test_samples_are_paired_on_the_queries_judged_in_both_and_corrected_by_the_scores_of_all() -> None:
    for first, value, within, note in (
        (sampled(30), GAINS.mean(), 0.05, "60 queries, corrected by what foretells the judge, weight "),
        (sampled(60), GAINS.mean(), 0.05, "60 queries, corrected by what foretells the judge, weight "),
        (changed(sampled(60), proxies={}), GAINS[:20].mean(), 1e-9, "60 queries, the judged queries alone"),
    ):
        made = difference(first, sampled(20, 0.25), PRECISION)
        assert (made.n, made.only_baseline, made.only_other, made.failed) == (20, (), (), ())
        assert made.note.startswith(f"judged in both: 20 of {note}")
        assert made.difference == pytest.approx(value, abs=within)


def test_queries_that_were_not_drawn_fail_no_tolerance_and_a_failed_score_counts_at_its_worst() -> None:
    for first, second, passed in ((sampled(60), sampled(20, 0.25), True), (sampled(60, 0.25), sampled(20), False)):
        [one] = compared(first, second, tolerances={PRECISION: 0.02}).regressions
        assert one.passed == passed
    first, second = sampled(20), sampled(20, 0.25)
    scores = [FailedValue(failed="Timeout: "), *second.scores[PRECISION][1:]]
    made = difference(first, changed(second, scores={PRECISION: scores}), PRECISION)
    assert made.failed == ("q0",) and made.worst is not None and made.difference is not None
    assert made.worst < made.difference


# What differs besides


def test_what_differs_besides_is_named_and_runs_of_one_kind_have_no_mismatch(snapshot: SnapshotAssertion) -> None:
    assert mismatches(report(SCORES), report(SCORES, started_at="later", duration_s=9.0)) == {}
    versions = {"python": "3.12", "ragas": "0.4.3", "new": "1"}
    changes = {"dataset_fingerprint": "2", "commit": "b", "seed": 1, "embedding": None, "versions": versions}
    rows = [row("q0", {HIT: 1.0}), row("q1", {HIT: 0.0}, relevant={"a": 1, "b": 2})]
    for other in (changes, {"relevance": "returned"}, {"rows": rows}):
        assert mismatches(report(SCORES), report(SCORES, **other)) == snapshot


def test_verdicts_of_two_judges_are_not_compared_and_fail_a_tolerance() -> None:
    first = report({PRECISION: [1.0, 0.0]}, judge=judge())
    second = report({PRECISION: [0.0, 0.0]}, judge=judge(fingerprint="2", parameters={"temperature": 0.5}))
    made = compared(first, second, tolerances={PRECISION: 1})
    assert {one.what: one.baseline for one in made.mismatches} == {"judge: temperature": "0.0"}
    assert made.differences[0].note == made.regressions[0].reason == "given by different judges, so not compared"
    assert not made.regressions[0].passed
    assert compared(first, report({PRECISION: [0.0, 0.0]})).mismatches == []  # one has none: nothing to compare


def test_settings_that_differ_are_named_by_their_place_without_those_on_which_no_score_depends() -> None:
    first = {
        "retriever": {"top_k": 5, "keyword": {"k1": 1.2}},
        "name": "a",
        "baseline": "a.json",
        "judge": {"model": None, "cache_path": 1},
    }
    second = {"retriever": {"top_k": 9, "keyword": {"k1": None}}, "name": "b", "judge": {"model": None, "sample": 3}}
    assert changes(first, second) == [("retriever.top_k", 5, 9, ""), ("retriever.keyword.k1", 1.2, None, "")]
    with_judge = second | {"judge": {"model": "m", "sample": 3, "cache_path": 1}}
    assert [one.what for one in changes(first, with_judge)][2:] == ["judge.model", "judge.sample"]


# What moved


def test_most_moved_first_each_query_once_by_the_metric_that_moved_it_most() -> None:
    first = report({NDCG: [0.5, 0.5, 0.5, 0.5], FALSE_ANSWER: [0.0, 0.0, 1.0, 0.0]})
    second = report({NDCG: [0.9, 0.1, 0.5, 0.5], FALSE_ANSWER: [1.0, 0.0, 0.0, 0.0]})
    moved = compared(first, second, by=(NDCG, FALSE_ANSWER)).moved
    assert [(one.kind, one.baseline.id, one.metric, round(one.gain, 3)) for one in moved] == [
        ("worse", "q0", FALSE_ANSWER, -1.0), ("better", "q2", FALSE_ANSWER, 1.0), ("worse", "q1", NDCG, -0.4),
    ]  # fmt: skip
    assert [one.baseline.id for one in compared(first, second).moved] == ["q1", "q0"]  # ndcg and abstention
    moved = compared(first, second, tolerances={FALSE_ANSWER: 1}).moved
    assert [one.metric for one in moved] == [FALSE_ANSWER, FALSE_ANSWER, NDCG]
    right, wrong = (report({VERDICT: []}, rows=[row("a", {HIT: score})]) for score in (1.0, 0.0))
    assert [(one.kind, one.metric) for one in compared(right, wrong).moved] == [("lost", VERDICT)]
    assert compared(first, first).moved == []


def test_a_moved_query_shows_both_results_and_what_was_best_below_the_threshold() -> None:
    long = f"{'folder/' * 20}page.md:10-20"
    rows = [row("a", {NDCG: 1.0}, retrieved=[hit(1, 0.9, long, 1)])]
    lost = [row("a", {NDCG: 0.0}, retrieved=[], best_below_threshold=[hit(1, 0.2, "b.md:1-2")])]
    made = compared(report({NDCG: []}, rows=rows), report({NDCG: []}, rows=lost))
    shown = render([made], width=100, color=False, queries=1)
    assert "page.md:10-20" in shown and "nothing returned" in shown and "below the threshold 1. b.md" in shown
    assert long in render([made], width=100, color=False, queries=1, whole=True)
    assert max(map(len, shown.splitlines())) <= 100


# Tolerances


def test_a_drop_beyond_the_tolerance_or_unknown_is_a_regression() -> None:
    for metric, tolerance, baseline, other, passed, reason in (
        (NDCG, 0.1, [0.5, 0.5], [0.4, 0.4], True, "there is no interval"),
        (NDCG, 0.0999, [0.5, 0.5], [0.4, 0.4], False, "there is no interval"),
        (NDCG, 0, [0.5], [0.9], True, "there is no interval"),
        (FALSE_ANSWER, 0.4, [0.0, 0.0], [1.0, 0.0], False, "the 95% interval includes 0"),
        (FALSE_ANSWER, 0.4, [1.0, 0.0], [0.0, 0.0], True, "the 95% interval includes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.4 - n / 100 for n in range(20)], False, "the 95% interval excludes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.1] * 4 + [0.8] * 3 + [0.5] * 13, False, "the 95% interval includes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.5] * 19 + ["failed"], False, "the 95% interval includes 0, if all 1 failed"),
        (NDCG, 0.03, [0.5] * 20, [0.5] * 19 + ["failed"], True, "the 95% interval includes 0, if all 1 failed"),
        (TOKENS, 1e9, [500.0] * 40, [500.0] * 39 + ["failed"], False, "1 failed scores leave it open"),
        (NDCG, 0.02, [0.5] * 20, [0.5] * 19 + NONE, True, "the 95% interval includes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.5] * 18 + NONE * 2, False, "2 of 20 queries are scored in one of the runs"),
        (NDCG, 0, [0.5] + NONE * 9, [0.5] + NONE * 9, True, "there is no interval"),
        (NDCG, 1, NONE, [0.5], False, "no query is scored in both"),
    ):
        [one] = compared(
            report({metric: baseline}), report({metric: other}), tolerances={metric: tolerance}
        ).regressions
        assert (one.passed, one.reason[: len(reason)]) == (passed, reason)


def test_a_metric_that_neither_run_has_fails_its_tolerance() -> None:
    [absent] = compared(report(SCORES), report(SCORES), tolerances={NDCG: 0.1}).regressions
    assert (absent.passed, absent.drop) == (False, None) and "not measured in the baseline nor" in absent.reason
