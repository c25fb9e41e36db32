"""The table of metrics: what each row says of itself, how rows are chosen, scored all at once and averaged."""

from math import inf, isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.pages import SourcePageError, SourcePages
from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.metrics import METRICS, NEED_A_JUDGE, QueryMetric, choose, declared
from evals.metrics.declaration import metric, own_metric, summarise
from retrievers.config import RetrieverConfig
from tests.support.observed import make_case, make_chunk, make_context, observe, results, results_of, scored

UNSCORED, FAILED = Unscored(reason="no reference"), Failure(type="TimeoutError", message="no answer in 30 s")
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
    """One in scope, one out of scope, one without labels, in this order and the other way round, and each alone."""
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
        chunk = make_chunk("a", source_url=f"/docs/{page}", heading="Topics")
        return observe(results(chunk), {"a": 1}, case=make_case(page))

    sources = SourcePages({"/docs/broken": SourcePageError("broken.md: not UTF-8")})
    context = make_context(required=["source_url"], sources=sources)
    unread = Failure(type="SourcePageError", message="source page broken.md: not UTF-8")
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
    assert found.note.startswith("unusable, as more than 5% failed") == unusable


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


FIVE, FOUR = (RetrieverConfig(top_k=top_k, candidates=50) for top_k in (5, 4))
RANKING = [name for name in METRICS if name.startswith("ranking/")]


@pytest.mark.parametrize(
    ("patterns", "levels", "others", "chosen"),
    [
        (["*"], [1, 4], {"judged": True}, [*METRICS]),
        (["*"], [1, 4], {}, [name for name in METRICS if name not in NEED_A_JUDGE]),
        (["scope/*", "ranking/recall_*", "ranking/recall_at_5"], [1],
         {}, [*(f"ranking/recall_at_{k}" for k in (1, 3, 5, 10)), *(n for n in METRICS if n.startswith("scope/"))]),
        (["ranking/*"], [1], {"reach": FIVE}, [name for name in RANKING if not name.endswith("_10")]),
        (["ranking/*", "ranking/ndcg_at_10"], [1], {"reach": FOUR},
         [n for n in RANKING if n == "ranking/ndcg_at_10" or not n.endswith(("_10", "_5"))]),
        (["candidates/recall_*"], [1], {"reach": FIVE}, ["candidates/recall_at_10"]),
    ],
)  # fmt: skip
def test_patterns_choose(patterns: list[str], levels: list[int], others: dict[str, Any], chosen: list[str]) -> None:
    made = choose(patterns, levels, **others)
    assert {*made} == {*chosen}
    assert [*made] == [name for name in choose(["*"], levels, judged=True) if name in made], "in the order of the table"
