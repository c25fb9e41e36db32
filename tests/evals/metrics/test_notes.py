"""Notes that qualify the figures of a run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evals.cases.relevance import Relevance
from evals.collect.observations import Failure, LatencyPass, Observation, Observed, Unscored
from evals.judge.budget import Usage
from evals.judge.verdicts import ChunkVerdict, Judging
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
    return subject.notes(observed, results_of(observations).lists.pool, top_k, judging)


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
        "alone, and the judge's are over all that it can grade"
    ]
    assert said(open_, answered) == [
        "2 of 2 in-scope queries have no labels (evidence or relevant_ids): metrics by labels have no value, and the "
        "judge's are over all that it can grade",
        "1 queries have neither labels nor a reference_answer: ragas/llm_context_relevance alone scores them",
    ]


def test_what_the_retriever_says_of_itself_is_passed_on() -> None:
    assert said(seen("a"), retriever_notes=("one", "two")) == ["one", "two"]


def test_metrics_that_read_further_than_the_lists_go_are_named() -> None:
    config = RetrieverConfig.model_validate({"top_k": 5, "candidates": 50})
    plain = ["ranking/ndcg_at_5", "candidates/ndcg_at_10", "latency/total_p95_ms_c8", "queries/pass_rate"]
    assert depth_notes(plain, config) == []
    deep = ["ranking/recall_at_10", *plain, "ranking/ndcg_at_10", "candidates/recall_at_100"]
    assert depth_notes(deep, config) == [
        "deeper than top_k 5: ranking/recall_at_10, ranking/ndcg_at_10; what was returned is scored as if nothing "
        "followed it, and candidates/* score what the search found",
        "deeper than the 50 candidates: candidates/recall_at_100",
    ]


def test_returned_chunks_with_a_bad_address_or_number_are_named() -> None:
    chunks = [
        make_chunk("x", source_url="docs/a", chunk_index=0, total_chunks=2),
        make_chunk("y", source_url="/docs/b c", chunk_index=2, total_chunks=2),
    ]
    found = observe(results(*chunks), {"a": 1}, case=make_case())
    assert said(found, found) == [
        "metadata/url_format: 2 of 3 returned chunks at fault: 'docs/a' is neither absolute nor site-relative; "
        "'/docs/b c' holds a blank",
        "metadata/chunk_sequence: 2 of 3 returned chunks at fault: chunk 'y' has chunk_index 2, expected 0 to 1; chunk "
        "'a' has no chunk_index",
    ]


def test_names_of_files_in_place_of_addresses_are_no_fault() -> None:
    chunks = [make_chunk(name, source_url=f"{name}.md") for name in "xyz"]
    assert not [note for note in notes(observe(results(*chunks), {"x": 1})) if "url_format" in note]


def test_of_many_faults_two_are_shown() -> None:
    chunks = [make_chunk(f"c{number}", source_url=f"docs/{number}") for number in range(9)]
    [note] = said(observe(results(*chunks), {"c1": 1}, case=make_case()))
    assert note.startswith("metadata/url_format: 9 of 10 returned chunks at fault: 'docs/0' is")
    assert note.endswith("; 'docs/1' is neither absolute nor site-relative; and 7 more")


def test_chunks_without_addresses_are_no_fault_of_each_and_said_once() -> None:
    bare = observe(results(make_chunk("a", source_url=None)), {"a": 1}, case=make_case())
    [note] = notes(bare, replace(bare, case=OUTSIDE.case))
    assert note.startswith("no returned chunk says which page it is from: results are identified by chunk id")
    assert said(bare) == []


def test_queries_in_another_language_are_named() -> None:
    english = make_chunk(
        "x", "A topic is a named bus over which nodes exchange messages without knowing one another. " * 2
    )
    queries = {"q1": "How does a topic work?", "q2": "Was ist ein Topic und wozu brauche ich es?", "q3": "什么是话题？"}
    asked = [observe(results(english), {"a": 1}, case=make_case(name, query=q)) for name, q in queries.items()]
    assert said(*asked) == ["apparently in another language than the chunks: q2 (German), q3 (Chinese)"]


def test_of_many_queries_a_thousand_at_most_are_looked_at_for_their_language() -> None:
    english = observe(results(make_chunk("x", "A topic is a named bus of nodes. " * 4)), {"a": 1}, case=make_case())
    german = replace(english, case=make_case("de", query="Was ist ein Topic und wozu brauche ich es?"))
    assert said(*[english] * 1_000, german) == [
        "apparently in another language than the chunks: de (German) (of 501 queries looked at)"
    ]


def test_repeated_chunks_are_counted_in_what_was_returned() -> None:
    repeating = [seen("a", "b", "a", "a"), seen("c", "c"), seen("a", "b")]
    assert said(*repeating) == [
        "3 chunks were returned more than once for the same query (2 queries): each counts once, at its first place"
    ]
    deeper = observe(results("a", "b"), {"a": 1}, candidates=results("a", "b", "b", "a", "c", "c"))
    assert said(deeper) == []


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
        "4 of 5 relevant chunks are not in the collection and count as not retrieved: 'x0' (case q0), 'x1' (case q1), "
        "'x2' (case q2) …"
    ]


@pytest.mark.parametrize(("found", "noted"), [((), False), (("a", "b"), True), (("a", "b", "c"), False)])
def test_fewer_than_asked_for(found: Sequence[str], noted: bool) -> None:
    nothing = observe((), case=make_case("out", in_scope=False))
    expected = ["the retriever finds at most 2 chunks, fewer than top_k 3"] if noted else []
    assert notes(seen(*found), nothing, top_k=3) == expected


def test_results_that_differ_under_concurrency() -> None:
    differing = tuple(f"q{n}" for n in range(7))
    [note] = said(seen("a"), latency=(LatencyPass(concurrency=4, query_ids=(), timings=(), differing=differing),))
    assert note == "at concurrency 4 the results of 7 queries differ from the serial ones: q0, q1, q2, q3, q4"


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

    def test_addresses_that_never_agree_are_a_sign_of_another_spelling(self) -> None:
        _, note = said(self.unlisted("https://docs/page"), listed=False)
        assert "no returned chunk is from a page that evidence names: returned '/docs/page', evidence 'https://" in note
        assert len(said(self.unlisted("https://docs/page"), self.unlisted(), listed=False)) == 1

    def test_ids_that_never_agree_likewise(self) -> None:
        [note] = said(seen("b", "c", relevant_ids={"x": 1, "y": 1, "z": 0}), listed=False)
        assert note.startswith("none of the 2 relevant_ids was returned for any query: returned 'a', expected 'x'")
        assert said(seen("b", "x", relevant_ids={"x": 1}), listed=False) == []

    def test_of_a_listed_collection_nothing_is_said(self) -> None:
        assert said(self.unlisted("https://docs/page")) == []


@pytest.mark.parametrize(
    ("judging", "note"),
    [
        (None, "there is no judge (judge.model): no LLM-graded metric was computed"),
        (replace(JUDGED, usage=Usage(stopped="the budget is spent")), "not everything was judged: the budget is spent"),
    ],
)
def test_a_judge_that_is_missing_or_was_stopped(judging: Judging | None, note: str) -> None:
    assert said(seen("a"), judging=judging) == [note]


LENGTHS = [100 + 10 * place for place in range(40)]
ASKED = observe(
    candidates=results(*(make_chunk(f"c{place}", "x" * n) for place, n in enumerate(LENGTHS))),
    grades={"a": 1},
    case=make_case("asked"),
)
FAILED, GIVEN = Failure(type="Timeout", message="too long"), ChunkVerdict(verdict=1, reason="It helps.")
UNBOUGHT = Unscored(reason="the budget is spent", missing=True)


@pytest.mark.parametrize(
    ("outcomes", "which"),
    [
        ([GIVEN] * 28 + [FAILED] * 12, "longer"),
        ([FAILED] * 12 + [GIVEN] * 28, "shorter"),
        ([FAILED, GIVEN, GIVEN, GIVEN] * 10, ""),  # of any length
        ([GIVEN] * 31 + [FAILED] * 9, ""),  # fewer than ten say nothing
        ([GIVEN] * 28 + [UNBOUGHT] * 12, ""),  # which a budget did not buy is random
    ],
)
def test_verdicts_that_fail_on_long_or_short_chunks_are_not_missing_at_random(outcomes: list[Any], which: str) -> None:
    verdicts = {("asked", f"c{place}"): outcome for place, outcome in enumerate(outcomes)}
    found = [note for note in said(ASKED, judging=replace(JUDGED, verdicts=verdicts)) if "not at random" in note]
    medians = {"longer": "435 characters, 235", "shorter": "155 characters, 355"}
    assert len(found) == bool(which)
    for note in found:
        assert f"the 12 chunks whose verdict failed are {which} than the 28 that were judged" in note
        assert f"(median {medians[which]})" in note
