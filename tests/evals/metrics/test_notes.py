"""Notes that qualify the figures of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from syrupy.assertion import SnapshotAssertion

from evals.cases.pages import SourcePageError, SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Observed, Summary
from evals.judge.budget import Usage
from evals.judge.tasks import PRECISION, RECALL, RELEVANCE
from evals.judge.trust import CORRECTED
from evals.judge.verdicts import Judging
from evals.metrics import notes as subject
from evals.metrics.notes import depth_notes, judge_notes
from retrievers.config import RetrieverConfig
from tests.support.observed import PAGE, candidates_of, make_case, make_chunk, observe, results, results_of

JUDGED = Judging(model="cohere:c", verdicts={}, scores={}, claims={})
STOPPED = replace(JUDGED, usage=Usage(stopped="the budget is spent"))
OUTSIDE = observe(results("a"), case=make_case("out", in_scope=False))
SILENT = observe((), case=make_case("out", in_scope=False))


def seen(*ids: str, **case: Any) -> Observation:
    return observe(results(*ids), {"a": 1}, case=make_case(**case))


def graded(found: Observation, **relevance: Any) -> Observation:
    return replace(found, relevance=Relevance(**relevance))


def unlisted() -> Observation:
    """One whose relevance was resolved in what was returned."""
    found = observe(results("a"), case=make_case(evidence=[{"source_url": PAGE, "quote": "text of a"}]))
    return graded(found, grades={"a": 1}, items=(frozenset("a"),), incomplete="cannot be listed")


def asked_in(*queries: str) -> list[Observation]:
    english = "A topic is a named bus over which nodes exchange messages without knowing one another. " * 2
    found = results(make_chunk("x", english))
    return [observe(found, {"a": 1}, case=make_case(f"q{n}", query=query)) for n, query in enumerate(queries)]


DEEPER = RetrieverConfig(top_k=3)
CUT = observe(results("b"), {"a": 1}, candidates=results("b", "a"))
OPEN, ANSWERED = seen("a", relevant_ids={}), seen("a", relevant_ids={}, reference_answer="So.")
USELESS = graded(seen("a", "b", "c"), grades={"a": 1}, irrelevant=frozenset("b"))
NOWHERE = observe(results(make_chunk("a", source_url=None)), {"a": 1})
LACKING = [
    graded(seen("a", case_id=f"q{n}"), grades={f"x{n}": 1, "a": 1}, missing=frozenset([f"x{n}"])) for n in range(4)
]


UNREADABLE = SourcePages({f"{n}.md": SourcePageError(f"{n}.md: not UTF-8") for n in range(7)})
FOREIGN = asked_in("How does it work?", "Was ist ein Topic und wozu brauche ich es?", "什么是话题？")
RUNS: Mapping[str, tuple[Sequence[Observation], Mapping[str, Any]]] = {
    "nothing to say": ([seen("a", "b", "c"), OUTSIDE], {"settings": DEEPER}),
    "none in scope": ([OUTSIDE], {}),
    "none out of scope": ([seen("a")], {}),
    "some without labels": ([seen("a"), ANSWERED, OUTSIDE], {}),
    "all without labels": ([OPEN, ANSWERED, OUTSIDE], {}),
    "of the retriever": ([seen("a"), OUTSIDE], {"retriever_notes": ("one", "two")}),
    "another language": ([*FOREIGN, OUTSIDE], {}),
    "returned twice": ([seen("a", "b", "a", "a"), seen("c", "c"), seen("a", "b"), OUTSIDE], {}),
    "found twice": ([observe(results("a", "b"), {"a": 1}, candidates=results("a", "b", "b", "a", "c")), OUTSIDE], {}),
    "never judged": ([USELESS, seen("x", "y"), OUTSIDE], {}),
    "all judged": ([replace(USELESS, selection=candidates_of(results("b", "a"))), OUTSIDE], {}),
    "lacking": ([*LACKING, OUTSIDE], {}),
    "nothing found": ([seen(), SILENT], {"settings": DEEPER}),
    "fewer than top_k": ([seen("a", "b"), SILENT], {"settings": DEEPER}),
    "as many as top_k": ([seen("a", "b", "c"), SILENT], {"settings": DEEPER}),
    "cut by the threshold": ([CUT, seen("a"), SILENT], {"settings": RetrieverConfig(top_k=2, threshold=0.5)}),
    "cut by something else": ([CUT, seen("a"), SILENT], {"settings": RetrieverConfig(top_k=2)}),
    "without pages": ([NOWHERE, SILENT], {}),
    "unlisted": ([unlisted(), OUTSIDE], {"listed": False}),
    "ids of none": ([seen("b", "c", relevant_ids={"x": 1, "y": 1, "z": 0}), OUTSIDE], {"listed": False}),
    "ids of some": ([seen("b", "x", relevant_ids={"x": 1}), OUTSIDE], {"listed": False}),
    "unreadable pages": ([seen("a"), OUTSIDE], {"sources": UNREADABLE}),
    "no judge": ([seen("a"), OUTSIDE], {"judging": None}),
    "a spent budget": ([seen("a"), OUTSIDE], {"judging": STOPPED}),
}


def notes_of(observations: Sequence[Observation], others: Mapping[str, Any]) -> list[str]:
    given = {"settings": RetrieverConfig(top_k=1), "judging": JUDGED, "sources": None, **others}
    read = [given.pop(name) for name in ("settings", "judging", "sources")]
    observed = Observed(observations=tuple(observations), **given)
    return [*subject.notes(observed, results_of(observations).lists.pool, *read)]


def test_a_run_has_the_notes_that_its_figures_need(snapshot: SnapshotAssertion) -> None:
    assert {name: notes_of(*run) for name, run in RUNS.items()} == snapshot


def test_metrics_that_read_further_than_the_lists_go_are_named() -> None:
    config = RetrieverConfig.model_validate({"top_k": 5, "candidates": 50})
    plain = ["ranking/ndcg_at_5", "candidates/ndcg_at_10", "latency/total_p95_ms_c8", "queries/pass_rate"]
    assert [*depth_notes(plain, config)] == []
    deep = ["ranking/recall_at_10", *plain, "ranking/ndcg_at_10", "candidates/recall_at_100"]
    assert [*depth_notes(deep, config)] == [
        "deeper than top_k 5: ranking/recall_at_10, ranking/ndcg_at_10; what was returned is scored as if nothing "
        "followed it, and candidates/* score what the search found",
        "deeper than the 50 candidates: candidates/recall_at_100",
    ]


def test_judged_metrics_that_nothing_could_be_judged_for_are_named_with_the_reason() -> None:
    why = "the case has no reference answer"
    lacking = [Summary(metric=name, value=None, n=0, n_unscored=3, note=why) for name in (RECALL, PRECISION)]
    few = Summary(metric=CORRECTED, value=None, n=3, note="3 of 3 queries with human verdicts, 15 are needed")
    others = [
        Summary(metric=RELEVANCE, value=None, n=0, n_failed=3, note="Timeout"),
        Summary(metric="cost/judge_usd", value=None, n=0, note="no price"),
        replace(few, note="no case has human_verdicts"),
    ]
    assert [*judge_notes([*lacking, *others, few])] == [
        f"no value of {RECALL}, {PRECISION}: {why}",
        f"no value of {CORRECTED}: 3 of 3 queries with human verdicts, 15 are needed",
    ]
