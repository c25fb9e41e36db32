"""Notes that qualify the figures of a run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evals.cases.pages import SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Observed
from evals.judge.budget import Usage
from evals.judge.verdicts import Judging
from evals.metrics import notes as subject
from evals.metrics.notes import depth_notes
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


@pytest.mark.parametrize(
    ("observations", "others", "notes"),
    [
        ([seen("a", "b", "c"), OUTSIDE], {"settings": DEEPER}, []),
        ([OUTSIDE], {}, ["the golden data holds no in-scope query: metrics over them have no value"]),
        ([seen("a")], {}, ["the golden data holds no out-of-scope query: metrics over them have no value"]),
        ([seen("a"), ANSWERED, OUTSIDE], {}, [
            "1 of 2 in-scope queries have no labels (evidence or relevant_ids): metrics by labels are over the other 1 "
            "alone"]),
        ([OPEN, ANSWERED, OUTSIDE], {}, [
            "2 of 2 in-scope queries have no labels (evidence or relevant_ids): metrics by labels have no value",
            "1 queries have neither labels nor a reference_answer: ragas/llm_context_relevance alone scores them"]),
        ([seen("a"), OUTSIDE], {"retriever_notes": ("one", "two")}, ["one", "two"]),
        ([*asked_in("How does it work?", "Was ist ein Topic und wozu brauche ich es?", "什么是话题？"), OUTSIDE], {}, [
            "apparently in another language than the chunks: q1 (German), q2 (Chinese)"]),
        ([seen("a", "b", "a", "a"), seen("c", "c"), seen("a", "b"), OUTSIDE], {}, [
            "3 chunks were returned more than once for the same query: each counts once, at its first place"]),
        ([observe(results("a", "b"), {"a": 1}, candidates=results("a", "b", "b", "a", "c")), OUTSIDE], {}, []),
        ([USELESS, seen("x", "y"), OUTSIDE], {}, [
            "1 of 3 returned chunks were never judged: they count as not relevant"]),
        ([replace(USELESS, selection=candidates_of(results("b", "a"))), OUTSIDE], {}, []),
        ([*LACKING, OUTSIDE], {}, [
            "the collection lacks 4 of 5 relevant chunks, which nothing can retrieve: 'x0' (case q0), 'x1' (case q1), "
            "'x2' (case q2) …"]),
        ([seen(), SILENT], {"settings": DEEPER}, []),
        ([seen("a", "b"), SILENT], {"settings": DEEPER}, ["the retriever finds at most 2 chunks, fewer than top_k 3"]),
        ([seen("a", "b", "c"), SILENT], {"settings": DEEPER}, []),
        ([CUT, seen("a"), SILENT], {"settings": RetrieverConfig(top_k=2, threshold=0.5)}, [
            "the threshold cut relevant chunks of 1 of 2 in-scope queries"]),
        ([CUT, seen("a"), SILENT], {"settings": RetrieverConfig(top_k=2)}, []),
        ([NOWHERE, SILENT], {}, [
            "no returned chunk says which page it is from: results are identified by chunk id and document; is the "
            "address under another key? retriever.metadata.map {source_url: KEY} names it"]),
        ([unlisted(), OUTSIDE], {"listed": False}, [
            "the retriever's chunks cannot be listed: a returned chunk is relevant when it holds at least half of a "
            "quote, and what divides by all relevant chunks has no value; name retriever.store and "
            "retriever.collection if it reads from one"]),
        ([seen("b", "c", relevant_ids={"x": 1, "y": 1, "z": 0}), OUTSIDE], {"listed": False}, [
            "none of the 2 relevant_ids was returned for any query: returned 'a', expected 'x'; are they written alike "
            "(retriever.metadata.map)?"]),
        ([seen("b", "x", relevant_ids={"x": 1}), OUTSIDE], {"listed": False}, []),
        ([seen("a"), OUTSIDE], {"sources": SourcePages([], {f"{n}.md": "not UTF-8" for n in range(7)})}, [
            "7 source pages cannot be read, and what would be checked against them has failed: 0.md: not UTF-8; "
            "1.md: not UTF-8; 2.md: not UTF-8; 3.md: not UTF-8; 4.md: not UTF-8 and 2 more"]),
        ([seen("a"), OUTSIDE], {"judging": None}, [
            "there is no judge (judge.model): no LLM-graded metric was computed"]),
        ([seen("a"), OUTSIDE], {"judging": STOPPED}, ["not everything was judged: the budget is spent"]),
    ],
)  # fmt: skip
def test_a_run_has_the_notes_that_its_figures_need(
    observations: Sequence[Observation], others: dict[str, Any], notes: list[str]
) -> None:
    given = {"settings": RetrieverConfig(top_k=1), "judging": JUDGED, "sources": None, **others}
    read = [given.pop(name) for name in ("settings", "judging", "sources")]
    observed = Observed(observations=tuple(observations), **given)
    assert [*subject.notes(observed, results_of(observations).lists.pool, *read)] == notes


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
