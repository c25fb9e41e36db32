"""Notes that qualify the figures of a run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Observed
from evals.judge.budget import Usage
from evals.judge.verdicts import Judging
from evals.metrics import notes as subject
from evals.metrics.notes import depth_notes
from retrievers.config import RetrieverConfig
from tests.support.candidates import candidates_of
from tests.support.observed import PAGE, make_case, make_chunk, observe, results
from tests.support.scored import results_of

JUDGED = Judging(model="cohere:c", verdicts={}, scores={}, claims={})
OUTSIDE = observe(results("a"), case=make_case("out", in_scope=False))


def seen(*ids: str, **case: Any) -> Observation:
    return observe(results(*ids), {"a": 1}, case=make_case(**case))


def notes(*observations: Observation, top_k: int = 1, judging: Judging | None = JUDGED, **values: Any) -> list[str]:
    observed = Observed(observations=observations, **values)
    return [*subject.notes(observed, results_of(observations).lists.pool, top_k, judging)]


def said(*observations: Observation, **values: Any) -> list[str]:
    """Return the notes on a run that has a query out of scope too."""
    return notes(*observations, OUTSIDE, **values)


def test_an_ordinary_run_needs_no_note() -> None:
    assert said(seen("a", "b", "c"), top_k=3) == []


@pytest.mark.parametrize(
    ("observations", "note"),
    [
        ([OUTSIDE], "the golden data holds no in-scope query: metrics over them have no value"),
        ([seen("a")], "the golden data holds no out-of-scope query: metrics over them have no value"),
    ],
)
def test_a_kind_of_query_that_is_missing(observations: Sequence[Observation], note: str) -> None:
    assert notes(*observations) == [note]


def test_queries_without_labels_are_counted_and_those_that_little_can_score() -> None:
    open_, answered = seen("a", relevant_ids={}), seen("a", relevant_ids={}, reference_answer="So.")
    assert said(seen("a"), answered) == [
        "1 of 2 in-scope queries have no labels (evidence or relevant_ids): metrics by labels are over the other 1 "
        "alone"
    ]
    assert said(open_, answered) == [
        "2 of 2 in-scope queries have no labels (evidence or relevant_ids): metrics by labels have no value",
        "1 queries have neither labels nor a reference_answer: ragas/llm_context_relevance alone scores them",
    ]


def test_what_the_retriever_says_of_itself_is_passed_on() -> None:
    assert said(seen("a"), retriever_notes=("one", "two")) == ["one", "two"]


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


def test_queries_in_another_language_are_named() -> None:
    english = make_chunk(
        "x", "A topic is a named bus over which nodes exchange messages without knowing one another. " * 2
    )
    queries = {"q1": "How does a topic work?", "q2": "Was ist ein Topic und wozu brauche ich es?", "q3": "什么是话题？"}
    asked = [observe(results(english), {"a": 1}, case=make_case(name, query=q)) for name, q in queries.items()]
    assert said(*asked) == ["apparently in another language than the chunks: q2 (German), q3 (Chinese)"]


def test_repeated_chunks_are_counted_in_what_was_returned() -> None:
    assert said(seen("a", "b", "a", "a"), seen("c", "c"), seen("a", "b")) == [
        "3 chunks were returned more than once for the same query: each counts once, at its first place"
    ]
    assert said(observe(results("a", "b"), {"a": 1}, candidates=results("a", "b", "b", "a", "c", "c"))) == []


def test_returned_chunks_that_nobody_judged_are_counted_where_some_were_judged_useless() -> None:
    known = replace(seen("a", "b", "c"), relevance=Relevance(grades={"a": 1}, irrelevant=frozenset("b")))
    assert said(known, seen("x", "y")) == ["1 of 3 returned chunks were never judged: they count as not relevant"]
    assert said(replace(known, selection=candidates_of(results("b", "a")))) == []


def test_relevant_chunks_that_are_not_there_are_named() -> None:
    known = [
        replace(
            seen("a", case_id=f"q{n}"), relevance=Relevance(grades={f"x{n}": 1, "a": 1}, missing=frozenset([f"x{n}"]))
        )
        for n in range(4)
    ]
    assert said(*known) == [
        "the collection lacks 4 of 5 relevant chunks, which nothing can retrieve: 'x0' (case q0), 'x1' (case q1), "
        "'x2' (case q2) …"
    ]


@pytest.mark.parametrize(("found", "noted"), [((), False), (("a", "b"), True), (("a", "b", "c"), False)])
def test_fewer_than_asked_for(found: Sequence[str], noted: bool) -> None:
    nothing = observe((), case=make_case("out", in_scope=False))
    expected = ["the retriever finds at most 2 chunks, fewer than top_k 3"] if noted else []
    assert notes(seen(*found), nothing, top_k=3) == expected


class TestUnlisted:
    EVIDENCE = ({"source_url": PAGE, "quote": "text of a"},)

    def unlisted(self, page: str = PAGE) -> Observation:
        case = make_case(evidence=[{"source_url": page, "quote": "text of a"}])
        made = observe(results("a"), {"a": 1}, case=case)
        relevance = Relevance(grades={"a": 1}, items=(frozenset("a"),), incomplete="cannot be listed")
        return Observation(case=made.case, relevance=relevance, candidates=made.candidates, selection=made.selection)

    def test_says_what_relevance_means(self) -> None:
        [note] = said(self.unlisted(), listed=False)
        assert note.startswith("the retriever's chunks cannot be listed: a returned chunk is relevant when it holds at")

    def test_ids_that_never_agree_likewise(self) -> None:
        [note] = said(seen("b", "c", relevant_ids={"x": 1, "y": 1, "z": 0}), listed=False)
        assert note.startswith("none of the 2 relevant_ids was returned for any query: returned 'a', expected 'x'")
        assert said(seen("b", "x", relevant_ids={"x": 1}), listed=False) == []


@pytest.mark.parametrize(
    ("judging", "note"),
    [
        (None, "there is no judge (judge.model): no LLM-graded metric was computed"),
        (replace(JUDGED, usage=Usage(stopped="the budget is spent")), "not everything was judged: the budget is spent"),
    ],
)
def test_a_judge_that_is_missing_or_was_stopped(judging: Judging | None, note: str) -> None:
    assert said(seen("a"), judging=judging) == [note]
