from typing import Any

import pytest

from evals.comparison.comparing import ComparisonOptions, compare
from evals.comparison.regressions import Tolerance
from evals.comparison.sections import render
from tests.support.reports import FALSE_ANSWER, HIT, NDCG, P95, Score, hit, report, row, run

LOW: list[Score] = [0.2 + n / 100 for n in range(20)]
HIGH: list[Score] = [0.6 + n / 50 for n in range(20)]


def shown(baseline: Any, other: Any, wanted: ComparisonOptions | None = None, **options: Any) -> str:
    found = compare(run(baseline, "a.json"), [run(other, "b.json")], wanted or ComparisonOptions())
    return render(found, **{"width": 120, "color": False, "queries": 5} | options)


def line(text: str, start: str) -> str:
    return next(one.rstrip() for one in text.split("\n") if one.strip().startswith(start))


def test_the_head_says_which_runs() -> None:
    text = shown(report({NDCG: LOW}), report({NDCG: HIGH}, name="wider"))
    assert line(text, "baseline").split() == [
        "baseline", "by", "hand", "20", "queries", "·", "2026-01-02", "03:04", "·", "a.json",
    ]  # fmt: skip
    assert line(text, "other").split()[:2] == ["other", "wider"]


def test_what_differs_besides_stands_before_the_figures() -> None:
    first = report({NDCG: LOW}, config={"retriever": {"top_k": 3, "filters": None}})
    second = report({NDCG: HIGH}, config={"retriever": {"top_k": 5, "filters": "a = [b]"}}, commit="def")
    text = shown(first, second)
    assert line(text, "retriever.top_k").split() == ["retriever.top_k", "3", "→", "5"]
    assert line(text, "retriever.filters").split() == ["retriever.filters", "not", "set", "→", "a", "=", "[b]"]
    assert line(text, "commit").split() == ["commit", "abc", "→", "def"]
    assert text.index("retriever.top_k") < text.index("commit") < text.index("95% interval")


def test_runs_that_differ_in_nothing_else() -> None:
    text = shown(report({NDCG: LOW}), report({NDCG: HIGH}))
    assert "Settings, golden data, collection, versions and commit are the same." in text


def test_a_metric_has_both_values_the_difference_and_what_to_think_of_it() -> None:
    text = shown(report({NDCG: LOW, HIT: [1.0] * 20}), report({NDCG: HIGH, HIT: [1.0] * 20}))
    found = line(text, NDCG).split()
    assert found[:4] == [NDCG, "0.295", "0.790", "+0.495"]
    assert found[4].startswith("+0.4") and found[6].startswith("+0.5")
    assert found[7:] == ["<0.0001", "<0.0001", "20/0/0", "20", "better"]
    assert line(text, HIT).split() == [
        HIT, "1.000", "1.000", "+0.000", "-0.161", "…", "+0.161", "1.0000", "1.0000", "0/20/0", "20",
    ]  # fmt: skip
    assert "Holm: p adjusted over all 3 tests" in " ".join(text.split())


def test_a_narrow_terminal_shows_the_rest_in_a_second_table_and_cuts_nothing() -> None:
    name = "ragas/nonllm_context_precision"
    text = shown(report({NDCG: LOW, name: LOW}), report({NDCG: HIGH, name: HIGH}), width=80)
    first, second = (one.split() for one in text.splitlines() if one.startswith(name[:20]))
    assert first == [name, "0.295", "0.790", "+0.495", "better"]
    assert second[-4:] == ["<0.0001", "<0.0001", "20/0/0", "20"]
    table = text.partition("metric")[2].partition("Difference:")[0]
    assert "…" not in table.replace(" … ", "") and all(len(one.rstrip()) <= 80 for one in text.splitlines())


def test_where_no_terminal_shows_it_nothing_is_cut() -> None:
    source = f"{'a-very-long-folder/' * 8}page.md:1-2"
    first = report({NDCG: []}, rows=[row("a", {NDCG: 0.5}, retrieved=[hit(1, 0.5, source)])])
    second = report({NDCG: []}, rows=[row("a", {NDCG: 0.7}, retrieved=[hit(1, 0.5, "b.md:1-2"), hit(2, 0.4, source)])])
    text = shown(first, second, width=80, whole=True)
    assert text.count(source) == 2 and source not in shown(first, second, width=80)
    assert len([one for one in text.splitlines() if one.startswith(NDCG)]) == 1


def test_rows_and_columns_that_say_nothing_are_left_out() -> None:
    text = shown(report({NDCG: LOW}, {P95: None}), report({NDCG: LOW}, {P95: None}))
    assert not [one for one in text.splitlines() if one.startswith(P95)]
    alone = shown(report({}, {P95: 3.0}, rows=[row("a", {})]), report({}, {P95: 4.0}, rows=[row("a", {})]))
    header = line(alone, "metric").split()
    assert header[:4] == ["metric", "baseline", "other", "difference"]


def test_worse_is_worse_in_the_metrics_own_direction() -> None:
    assert line(shown(report({NDCG: HIGH}), report({NDCG: LOW})), NDCG).endswith("worse")
    zeros: list[Score] = [0.0] * 20
    assert line(shown(report({FALSE_ANSWER: zeros}), report({FALSE_ANSWER: [1.0] * 20})), FALSE_ANSWER).endswith(
        "worse"
    )
    assert line(shown(report({FALSE_ANSWER: [1.0] * 20}), report({FALSE_ANSWER: zeros})), FALSE_ANSWER).endswith(
        "better"
    )


def test_what_is_not_proved_is_called_neither() -> None:
    found = line(shown(report({NDCG: [0.5, 0.5]}), report({NDCG: [0.1, 0.4]})), NDCG).split()
    assert found[4:9] == ["–", "0.5000", "1.0000", "0/0/2", "2"]
    assert "worse" not in found


def test_dropped_and_failed_queries_stand_beside_the_metric() -> None:
    first, second = report({NDCG: [0.5, "failed", 0.5, 0.5]}), report({NDCG: [0.5, 0.5, "unscored", 0.5]})
    found = " ".join(shown(first, second, width=300).split())
    assert "1 scored in the baseline only, 1 in the other only; 1 failed, at worst -0.167" in found


def test_a_statistic_of_the_whole_run_has_no_interval_and_the_legend_says_why() -> None:
    text = shown(report({NDCG: LOW}, {P95: 3.0}), report({NDCG: HIGH}, {P95: 2.0}))
    assert line(text, P95).split() == [P95, "3.0", "2.0", "-1.0", "–", "–", "–", "–", "–"]
    assert "statistics of the whole run" in " ".join(text.split())
    assert "whole run" not in shown(report({NDCG: LOW}), report({NDCG: HIGH}))


def test_the_queries_that_moved_show_both_results_side_by_side() -> None:
    found = [hit(1, 0.9, "b.md:1-2"), hit(2, 0.8, "a.md:1-2", 1)]
    first = report({NDCG: []}, rows=[row("[q]", {NDCG: 0.5}, query="why [so]?", retrieved=found)])
    second = report({NDCG: []}, rows=[row("[q]", {NDCG: 1.0}, query="why [so]?")])
    text = shown(first, second)
    assert "Queries that moved most, 1 of 1, by ranking/ndcg_at_10" in text
    assert line(text, "[q]") == "  [q] why [so]?"
    assert line(text, "ranking/ndcg_at_10 0.500 → 1.000").endswith("better by 0.500")
    assert line(text, "1. 0.900").split() == ["1.", "0.900", "b.md:1-2", "1.", "0.500", "✓", "a.md:1-2"]
    assert line(text, "2. 0.800").split() == ["2.", "0.800", "✓", "a.md:1-2"]


def test_ranks_that_are_the_same_in_both_results_give_way_to_those_that_differ() -> None:
    short = [hit(rank, 1 - rank / 10, f"p{rank}.md:1-2") for rank in range(1, 7)]
    longer = [*short[:5], *(hit(rank, 0.1, f"new{rank}.md:1-2", 1) for rank in (6, 7))]
    first = report({NDCG: []}, rows=[row("q", {NDCG: 0.5}, retrieved=short)])
    text = shown(first, report({NDCG: []}, rows=[row("q", {NDCG: 1.0}, retrieved=longer)]))
    assert line(text, "1 to 5").split() == "1 to 5 the same 1 to 5 the same".split()
    assert line(text, "6. ").split() == ["6.", "0.400", "p6.md:1-2", "6.", "0.100", "✓", "new6.md:1-2"]
    assert line(text, "7. ").split() == ["7.", "0.100", "✓", "new7.md:1-2"]
    assert "p1.md" not in text


def test_where_nothing_was_returned_the_best_below_the_threshold_is_shown() -> None:
    below = [hit(1, 0.29, "x.md:1-2", 1), hit(2, 0.2, "y.md:1-2")]
    empty = row("q0", {NDCG: 0.0}, retrieved=[], best_below_threshold=below)
    text = shown(report({NDCG: [1.0]}), report({NDCG: []}, rows=[empty]))
    assert line(text, "1. 0.500").split() == ["1.", "0.500", "✓", "a.md:1-2", "nothing", "returned"]
    assert line(text, "below the threshold").split() == ["below", "the", "threshold", "1.", "0.290", "✓", "x.md:1-2"]


@pytest.mark.parametrize("width", [100, 160])
def test_of_a_long_source_the_end_is_shown_within_the_width(width: int) -> None:
    far = [hit(1, 0.9, f"{'a-folder/' * 20}page.md:10-20")]
    first = report({NDCG: []}, rows=[row("q0", {NDCG: 0.0}, retrieved=far)])
    text = shown(first, report({NDCG: [1.0]}), width=width)
    assert "page.md:10-20" in line(text, "1. 0.900")
    assert max(len(one.rstrip()) for one in text.split("\n")) <= width


def test_as_many_queries_as_wanted_and_none_when_none_moved() -> None:
    first, second = report({NDCG: LOW}), report({NDCG: HIGH})
    assert "2 of 20" in shown(first, second, queries=2)
    assert "moved" not in shown(first, second, queries=0)
    assert "No query moved." in shown(first, report({NDCG: LOW}, seed=1))


def test_a_restriction_is_said_before_the_figures() -> None:
    first = report({NDCG: []}, rows=[row("a", {NDCG: 0.5}), row("b", {NDCG: 0.5})], dataset_fingerprint="1")
    second = report({NDCG: []}, rows=[row("b", {NDCG: 0.4})], dataset_fingerprint="2")
    text = shown(first, second, ComparisonOptions(common=True))
    said = "Only the 1 queries that are the same in both runs are compared (--common); 1 are left out."
    assert text.index(said) < text.index("difference")
    assert "2 queries, 1 → 1 queries, 2" in text


def test_tolerated_drops_and_what_came_of_them() -> None:
    wanted = ComparisonOptions(tolerances=(Tolerance(metric=NDCG, tolerance=0.02), Tolerance(metric=P95, tolerance=1)))
    text = shown(report({NDCG: HIGH}, {P95: 3.0}), report({NDCG: LOW}, {P95: None}), wanted)
    assert line(text, f"FAIL  {NDCG}") == (
        "  FAIL  ranking/ndcg_at_10  drop +0.495, tolerated 0.02  (the 95% interval excludes 0)"
    )
    assert line(text, f"FAIL  {P95}").startswith(
        "  FAIL  latency/total_p95_ms  drop unknown, tolerated 1  (no value in"
    )
    passed = shown(report({NDCG: LOW}), report({NDCG: HIGH}), ComparisonOptions(tolerances=wanted.tolerances[:1]))
    assert line(passed, "pass").startswith("  pass  ranking/ndcg_at_10  drop -0.495, tolerated 0.02")


def test_colour_only_when_wanted() -> None:
    first, second = report({NDCG: LOW}), report({NDCG: HIGH})
    assert "\x1b[" in shown(first, second, color=True)
    assert "\x1b[" not in shown(first, second)


def test_several_runs_one_after_another() -> None:
    runs = [run(report({NDCG: values}, name=name), name) for name, values in
            (("base", LOW), ("second", HIGH), ("third", LOW[::-1]))]  # fmt: skip
    text = render(compare(runs[0], runs[1:], ComparisonOptions()), width=120, color=False, queries=1)
    assert text.count("baseline  base") == 2
    assert text.index("other     second") < text.index("other     third")
    assert " ".join(text.split()).count("adjusted over all 4 tests") == 2
