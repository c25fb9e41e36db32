"""The table of metrics: what each row says, how rows are chosen, scored and averaged; and figures of a run by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import inf, isfinite
from operator import eq, ge, gt, le, lt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.pages import SourcePageError, SourcePages
from evals.collect.observations import (
    Failure,
    Gate,
    Observation,
    Observed,
    Repetition,
    SampledMean,
    Score,
    Summary,
    Unscored,
)
from evals.metrics import METRICS, NEED_A_JUDGE, choose, declared, within
from evals.metrics.criteria import judge, undecided
from evals.metrics.declaration import QueryMetric, RunMetric, metric, own_metric, summarise
from evals.stats import intervals as stats
from retrievers.config import RetrieverConfig
from retrievers.records import StageTimings
from tests.support.observed import candidates_of, make_case, make_context, observe, results, results_of, scored

UNSCORED, FAILED = Unscored(reason="no reference"), Failure(failed="TimeoutError: no answer in 30 s")
SPENT = Unscored(reason="spent", missing=True)


def ranged(low: float, high: float) -> QueryMetric:
    return own_metric(metric("team/m", range=(low, high))(lambda case, chunks: 0.0))


def test_the_direction_of_every_metric_by_hand() -> None:
    times = {name for name in METRICS if name.startswith("latency/")}
    found = {name: declared(name).direction for name in METRICS}
    assert {name for name, way in found.items() if way == "lower"} == times | {
        "content/overlap", "content/duplicate_rate", "scope/false_answer", "scope/false_abstention",
        "scope/max_out_of_scope_score", "determinism/max_score_delta", "cost/context_tokens",
        "cost/judge_calls", "cost/judge_tokens", "cost/judge_usd",
    }  # fmt: skip
    assert {name for name, way in found.items() if way == "neither"} == {"cost/judge_cache_hits"}
    shown = {name for name in times if declared(name).headline == "always"}
    assert shown == {f"latency/total_{each}" for each in ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "p95_ms_c4")}


@pytest.mark.parametrize("name", METRICS)
def test_every_row_has_a_name_that_mlflow_takes_a_line_about_it_and_a_range(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name

    row, (low, high) = declared(name), declared(name).range
    assert row.name == name and name.count("/") == 1
    for suffix in ("", ".ci_low", ".ci_high", ".n", ".n_failed"):
        _validate_metric_name(name + suffix)
    assert 0 < len(row.about) <= 110 and "\n" not in row.about and "{" not in row.about
    assert sum(row.about == other.about for other in METRICS.values()) == 1
    assert low < high and (row.unit != "share" or (low, high) == (0, 1))
    if name.startswith(("ragas/", "ranking/", "candidates/")) and isinstance(row, QueryMetric):
        assert row.scope == "in_scope", "the denominator is every query in scope"


@pytest.mark.parametrize("row", [row for row in METRICS.values() if isinstance(row, QueryMetric)], ids=lambda r: r.name)
def test_a_query_of_another_scope_has_neither_a_score_nor_a_reason_and_moves_no_other(row: QueryMetric) -> None:
    long, text = results(*"abcbd"), "A topic is a bus."
    run = [
        observe(long, {"a": 2, "b": 1, "d": 1, "x": 1}, case=make_case("in", reference_answer=text)),
        observe(results("c", "a"), case=make_case("out", in_scope=False)),
        observe(results("a"), case=make_case("open", relevant_ids={}, expected_topics=["text", "bus"])),
        observe((), {"a": 1}, candidates=long, case=make_case("empty", min_results=2)),
    ]
    context = make_context(required=["title", "source_url"], texts={key: f"text of {key}" for key in "abdx"})
    alone: list[Any] = [row.values(results_of([each]), context)[0] for each in run]
    for order in (run, run[::-1]):
        together = row.values(results_of(order), context)
        scores = [together[place] for place in range(len(order))]
        assert [repr(score) for score in scores] == [repr(alone[run.index(each)]) for each in order]
    for each, score in zip(run, alone, strict=True):
        inside = row.scope == "all" or each.case.in_scope == (row.scope == "in_scope")
        assert inside == (repr(score) != "nan")
        assert not inside or not isinstance(score, float) or row.range[0] <= score <= row.range[1]


def test_a_page_that_cannot_be_read_fails_what_it_would_tell() -> None:
    def on(page: str) -> Observation:
        [hit] = results("a")
        placed = replace(hit, chunk=replace(hit.chunk, source_url=f"/docs/{page}", heading="Topics"))
        return observe([placed], {"a": 1}, case=make_case(page))

    sources = SourcePages({"/docs/broken": SourcePageError("broken.md: not UTF-8")})
    context = make_context(required=["source_url"], sources=sources)
    unread = Failure(failed="SourcePageError: source page broken.md: not UTF-8")
    for name in ("content/verbatim", "content/heading_in_source", "metadata/accuracy"):
        assert scored(name, [on("broken"), on("gone")], context) == [unread, 0.0]
    assert scored("metadata/completeness", [on("broken")], context) == [1.0]
    assert scored("queries/pass_rate", [on("broken")], context) == [0.0]


@pytest.mark.parametrize(
    ("scores", "value", "note", "counts", "bounds"),
    [
        ([], None, "no query of this kind", (0, 0, 0, 0), (None, None)),
        ([UNSCORED, UNSCORED], None, "no reference", (0, 2, 0, 0), (None, None)),
        ([FAILED, FAILED], None, "TimeoutError: no answer in 30 s", (0, 0, 2, 0), (0.0, 1.0)),
        # What is missing counts in the bounds, and what does not exist does not.
        ([1.0, 0.5, SPENT, FAILED, UNSCORED], 0.75, None, (2, 2, 1, 1), (1.5 / 4, 3.5 / 4)),
        ([0.5] * 19 + [1.0, FAILED], 10.5 / 20, None, (20, 0, 1, 0), (0.5, 11.5 / 21)),
        ([0.5] * 18 + [1.0, FAILED], 10 / 19, None, (19, 0, 1, 0), (0.5, 11 / 20)),
    ],
)
def test_unscored_and_failed_stay_out_of_the_mean_but_beside_it(
    scores: list[Score], value: float | None, note: str | None, counts: tuple[int, ...], bounds: tuple[Any, ...]
) -> None:
    found = summarise(ranged(0, 1), scores)
    assert (found.value, found.n, found.n_unscored, found.n_failed, found.n_missing) == (value, *counts)
    assert (found.bound_low, found.bound_high) == pytest.approx(bounds)
    assert note is None or found.note == note
    unusable = found.value is not None and found.n_failed > 0.05 * (found.n + found.n_failed)
    assert found.note.startswith("unusable, as more than 5% failed: TimeoutError: no answer in 30 s") == unusable


SCORES = st.lists(st.one_of(st.floats(0, 1), st.just(UNSCORED), st.just(FAILED)), max_size=30)


@given(SCORES, st.sampled_from([0, -1, -inf]), st.sampled_from([1, 5, inf]))
def test_counts_add_up_bounds_hold_the_mean_and_nothing_is_nan(scores: list[Score], low: float, high: float) -> None:
    found = summarise(ranged(low, high), scores)
    assert found.n + found.n_unscored + found.n_failed == len(scores)
    figures = (found.value, found.ci_low, found.ci_high, found.bound_low, found.bound_high)
    assert all(figure is None or isfinite(figure) for figure in figures)
    assert (found.value is None) == (found.n == 0)
    for bound, end in ((found.bound_low, low), (found.bound_high, high)):
        assert (bound is None) == (found.n_failed == 0 or not isfinite(end))
        filled = [score if isinstance(score, float) else end for score in scores if score != UNSCORED]
        assert bound is None or bound == pytest.approx(sum(filled) / len(filled), abs=1e-12)
    assert found.ci_low is not None or found.note
    if found.ci_low is not None and found.ci_high is not None and isfinite(high - low):
        assert low <= found.ci_low <= found.ci_high <= high


FIVE, FOUR = (RetrieverConfig(top_k=top_k, candidates=50) for top_k in (5, 4))
RANKING = [name for name in METRICS if name.startswith("ranking/")]


@pytest.mark.parametrize(
    ("patterns", "levels", "others", "chosen"),
    [
        (["*"], [1, 4], {"judged": True}, [*METRICS]),
        (["*"], [1, 4], {}, [name for name in METRICS if name not in NEED_A_JUDGE]),
        (["scope/*", "ranking/recall_*", "ranking/recall_at_5"], [1],
         {}, [*(f"ranking/recall_at_{k}" for k in (1, 3, 5, 10)), *(n for n in METRICS if n.startswith("scope/"))]),
        (["ranking/*"], [1], {"reach": FIVE}, RANKING),
        (["ranking/*", "ranking/ndcg_at_10"], [1], {"reach": FOUR},
         [n for n in RANKING if not n.endswith("_5")]),
        (["candidates/recall_*"], [1], {"reach": FIVE}, ["candidates/recall_at_10"]),
    ],
)  # fmt: skip
def test_patterns_choose(patterns: list[str], levels: list[int], others: dict[str, Any], chosen: list[str]) -> None:
    made = choose(patterns, levels, **others)
    assert {*made} == {*chosen}
    assert [*made] == [name for name in choose(["*"], levels, judged=True) if name in made], "in the order of the table"


def test_what_is_returned_is_read_at_top_k_and_no_further_unless_it_is_named() -> None:
    metrics = choose(["ranking/*", "candidates/*"], [1])
    for top_k, depths in {4: (1, 3, 4), 10: (1, 3, 5, 10), 20: (1, 3, 5, 10, 20)}.items():
        found = within(metrics, RetrieverConfig(top_k=top_k, candidates=50), ["ranking/map_at_10"])
        assert {n for n in found if n.startswith("ranking/recall_at")} == {f"ranking/recall_at_{k}" for k in depths}
        assert "ranking/map_at_10" in found and ("ranking/expected_top3_in_5" in found) == (top_k > 4)
        assert {n for n in metrics if n.startswith("candidates")} - found.keys() == {
            "candidates/recall_at_100", "candidates/hit_rate_at_100"
        }  # fmt: skip


# Figures of a run by hand: scope, times and repetitions, criteria to pass or fail


def of_run(name: str, observed: Observed) -> Summary:
    metric = declared(name)
    assert isinstance(metric, RunMetric)
    return metric.summarise(observed, make_context())


def over(name: str, observations: Sequence[Observation]) -> Summary:
    metric = METRICS[name]
    if isinstance(metric, QueryMetric):
        return summarise(metric, scored(name, observations))
    return of_run(name, Observed(observations=tuple(observations)))


INSIDE = ("scope/false_abstention", "scope/enough_results", "scope/relevant_above_half")


def asked(*, in_scope: bool, best: float | None, returned: bool) -> Observation:
    candidates = () if best is None else results("a", "b", scores=[best, best / 2])
    case = make_case(in_scope=in_scope)
    return observe(candidates if returned else (), {"a": 1} if in_scope else {}, candidates=candidates, case=case)


RUN = (
    asked(in_scope=True, best=0.9, returned=True),
    asked(in_scope=True, best=0.5, returned=True),
    asked(in_scope=True, best=0.2, returned=False),
    asked(in_scope=False, best=0.5, returned=True),
    asked(in_scope=False, best=0.2, returned=False),
)


@pytest.mark.parametrize(
    ("name", "value", "n"),
    [
        ("scope/abstention", 1 / 2, 2),
        ("scope/false_answer", 1 / 2, 2),
        ("scope/false_abstention", 1 / 3, 3),
        ("scope/enough_results", 2 / 3, 3),
        ("scope/relevant_above_half", 1 / 3, 3),
        ("scope/auroc", (1 + 1 + 0.5 + 1 + 0 + 0.5) / 6, 5),
        ("scope/max_out_of_scope_score", 0.5, 2),
    ],
)
def test_hand_computed_and_without_its_queries_a_reason(name: str, value: float, n: int) -> None:
    found = over(name, RUN)
    assert found.value == pytest.approx(value) and found.n == n
    without = over(name, [o for o in RUN if o.case.in_scope != (name in INSIDE)])
    assert (without.value, without.n) == (None, 0)
    assert without.note in ("no query of this kind", "needs in-scope and out-of-scope queries")


def test_only_a_relevant_chunk_is_a_relevant_one_above_half() -> None:
    seen = [observe(results("a", "b", scores=[0.9, cosine]), {"b": 1}) for cosine in (0.4, 0.5, 0.51)]
    assert scored("scope/relevant_above_half", seen) == [0.0, 0.0, 1.0]


def test_the_auroc_has_the_interval_of_the_best_scores_of_each_scope() -> None:
    found, expected = over("scope/auroc", RUN), stats.auroc_interval([0.9, 0.5, 0.2], [0.5, 0.2])
    assert (found.ci_low, found.ci_high) == pytest.approx((expected.low, expected.high))
    assert found.note == "3 in scope, 2 out of scope"


@pytest.mark.parametrize("best", [0.5, None])
@pytest.mark.parametrize("name", ["scope/auroc", "scope/max_out_of_scope_score"])
def test_a_retriever_without_cosines_has_no_figure_even_where_it_found_nothing(name: str, best: float | None) -> None:
    asked_of_it = [asked(in_scope=inside, best=best, returned=False) for inside in (True, False)]
    without = [replace(o, candidates=candidates_of(o.candidates, no_cosine="it gives no scores")) for o in asked_of_it]
    assert [o.top_score for o in without] == [None, None]
    found = over(name, without)
    assert (found.value, found.n, found.note) == (None, 0, "it gives no scores")
    assert found.n_unscored == (2 if name == "scope/auroc" else 1)
    assert over("scope/abstention", without).value == 1.0


TIMES = tuple(float(n) for n in range(1, 101))


def timed(*totals: float, queries: int | None = None) -> Observed:
    timings = (StageTimings(embed_ms=total / 10, total_ms=total) for total in totals)
    calls = tuple((f"q{n % (queries or len(totals))}", of_call) for n, of_call in enumerate(timings))
    return Observed(observations=(), latency={1: calls})


@pytest.mark.parametrize(
    ("statistic", "value", "interval"),
    [
        ("mean", 50.5, stats.mean_interval(TIMES, shares=False)),
        ("p50", 50.5, stats.percentile_interval(TIMES, 0.5)),
        ("p95", 95.05, stats.percentile_interval(TIMES, 0.95)),
        ("p99", 99.01, stats.percentile_interval(TIMES, 0.99)),
    ],
)
def test_figures_of_a_stage_have_their_intervals(statistic: str, value: float, interval: stats.Interval) -> None:
    found, embedding = (of_run(f"latency/{stage}_{statistic}_ms", timed(*TIMES[::-1])) for stage in ("total", "embed"))
    assert (found.metric, found.n, found.note) == (f"latency/total_{statistic}_ms", 100, interval.note)
    assert (found.value, embedding.value) == pytest.approx((value, value / 10), abs=1e-9)
    assert (found.ci_low, found.ci_high) == (interval.low, interval.high)
    assert declared(found.metric).range == (0, inf)


def test_calling_the_same_queries_more_often_does_not_narrow_the_interval_of_the_mean() -> None:
    own = tuple(np.random.default_rng(0).exponential(10, 12).tolist())
    once, often = (of_run("latency/total_mean_ms", timed(*own * count, queries=12)) for count in (1, 100))
    assert often.n == 1_200
    few, many = ((each.value, each.ci_low, each.ci_high) for each in (once, often))
    assert many == pytest.approx(few, rel=0.01)


@pytest.mark.parametrize(
    ("name", "observed", "note"),
    [
        ("latency/rerank_p50_ms", timed(*TIMES), "no rerank stage ran"),
        ("latency/total_p95_ms_c4", timed(*TIMES), "not measured at concurrency 4"),
        ("determinism/rate", timed(*TIMES), "no query was repeated"),
        ("determinism/max_score_delta", timed(*TIMES), "no query was repeated"),
        *((name, Observed(observations=(), unmeasured="it is read from a file"), "it is read from a file")
          for name in METRICS if name.startswith(("determinism/", "latency/"))),
    ],
)  # fmt: skip
def test_what_was_not_measured_has_no_figure_but_a_reason(name: str, observed: Observed, note: str) -> None:
    found = of_run(name, observed)
    assert (found.value, found.ci_low, found.n, found.n_failed, found.note) == (None, None, 0, 0, note)


@pytest.mark.parametrize(
    ("calls", "same", "queries", "largest"),
    [
        ([("a", False, 0.0), ("a", False, 0.0), ("b", False, 0.0)], 2, 2, 0.0),
        # One change in three repetitions makes a query different; n is what was asked, not how often.
        ([("a", False, 0.0), ("b", False, 0.0), ("b", True, 0.25), ("b", False, 0.0)], 1, 2, 0.25),
        ([("a", False, None), ("b", True, None)], 1, 2, None),
    ],
)
def test_repeats_and_the_largest_change_of_scores(calls: list[Any], same: int, queries: int, largest: Any) -> None:
    made = Observed(observations=(), repetitions=tuple(Repetition(*call) for call in calls))
    rate, change = (of_run(f"determinism/{name}", made) for name in ("rate", "max_score_delta"))
    expected = stats.wilson(same, queries)
    assert (rate.value, rate.n, rate.note) == (same / queries, queries, "")
    assert (rate.ci_low, rate.ci_high) == (expected.low, expected.high)
    note = "the retriever gives no scores" if largest is None else "a maximum has no interval"
    assert (change.value, change.n + change.n_unscored, change.ci_low, change.note) == (largest, len(calls), None, note)


COMPARED: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq}


def figure(value: float | None, low: float | None = None, high: float | None = None, **fields: Any) -> Summary:
    return Summary(metric="m", value=value, n=10, bound_low=low, bound_high=high, **fields)


def gate(condition: str, found: Summary | None) -> Gate:
    [made] = judge({"m": condition}, [found] if found else [])
    return made


@pytest.mark.parametrize("symbol", COMPARED)
def test_it_passes_where_every_figure_that_failed_scores_leave_open_would_and_shows_the_worst(symbol: str) -> None:
    for low, value, high in combinations_with_replacement([0.4, 0.5, 0.6], 3):
        for ends in ((), (low, high)):
            figures = [value, *ends]
            met = [COMPARED[symbol](figure, 0.5) for figure in figures]
            found = gate(f"{symbol} 0.5", figure(value, *ends, n_failed=len(ends)))
            could = any(met) or (symbol == "==" and bool(ends) and low < 0.5 < high)
            assert (found.passed, found.undecided) == (all(met), could and not all(met))
            assert found.reason == (
                "" if all(met) else "2 scores that failed or are missing leave it open" if could else "not met"
            )
            if symbol == "==":
                assert abs(found.figure - 0.5) == max(abs(figure - 0.5) for figure in figures)  # type: ignore[operator]
            else:
                assert found.figure == (max if symbol[0] == "<" else min)(figures)


LOST = "scores that failed or are missing leave it open"
SAMPLED = SampledMean(queries=66, proxy="labels", weight=0.5)
OF_SAMPLE = "10 of 66 queries are judged"
ALL_WOULD = f"{OF_SAMPLE}; judging all would give 0.300 … 0.600 (95%)"


@pytest.mark.parametrize(
    ("found", "condition", "verdict", "figure", "reason"),
    [
        (None, "< 1", "FAIL", None, "the metric is absent"),
        (figure(None, note="no stage ran"), ">= 0", "FAIL", None, "no value: no stage ran"),
        (figure(None, 0.0, 1.0, n_missing=10, note="spent"), ">= 0.5", "undecided", None, "no value: spent"),
        (figure(0.6, 0.3, 0.8, n_missing=5, n_failed=1), ">= 0.5", "undecided", 0.3, f"6 {LOST}"),
        # A range without an upper end.
        (figure(5.0, 2.0, None, n_failed=1), ">= 2", "pass", 2.0, ""),
        (figure(5.0, 2.0, None, n_failed=1), "<= 9", "undecided", 5.0, f"1 {LOST}"),
        (figure(0.4, 0.3, 0.6, sampled=SAMPLED), ">= 0.3", "pass", 0.4, ALL_WOULD),
        (figure(0.4, 0.3, 0.6, sampled=SAMPLED), ">= 0.7", "FAIL", 0.4, f"{ALL_WOULD}: not met"),
        (figure(0.4, 0.3, 0.6, sampled=SAMPLED), ">= 0.4", "undecided", 0.4,
         f"{ALL_WOULD}: the others leave it open"),
        *((figure(0.4, *ends, sampled=SAMPLED), ">= 0.2", "undecided", 0.4,
           f"{OF_SAMPLE}, too few for an interval") for ends in ((), (None, 0.9))),
    ],
)  # fmt: skip
def test_what_is_missing_or_not_judged_may_leave_it_undecided(
    found: Summary | None, condition: str, verdict: str, figure: float | None, reason: str
) -> None:
    made = gate(condition, found)
    assert (made.answer, made.figure, made.reason) == (verdict, figure, reason)
    [nothing] = undecided([made], "the collection changed")
    assert (nothing.answer, nothing.reason) == ("undecided", "the collection changed"), "it cannot be relied on"
