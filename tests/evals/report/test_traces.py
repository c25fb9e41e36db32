"""Queries of a run as traces."""

from dataclasses import replace
from hashlib import sha256

import pytest

from evals.collect.observations import Failure, LatencyPass, Observed
from evals.grid.measure import Measured
from evals.judge.verdicts import ChunkVerdict
from evals.report.traces import FIRST_RELEVANT, HUMAN, JUDGED, NDCG, PASSED, RECALL, SCOPE, QueryTrace, traces
from retrievers.records import StageTimings
from tests.support.judged import judging
from tests.support.results import report, result


def traces_of(run: Measured, most: int) -> list[QueryTrace]:
    return traces(report(run), run.observed, most)


def test_all_come_the_worst_first() -> None:
    assert [one.query_id for one in traces_of(result(), 10)] == ["wrong", "empty", "right"]
    assert traces_of(result(), 0) == []


def test_of_more_queries_than_wanted_the_same_are_taken_in_every_run() -> None:
    [kept] = traces_of(result(), 1)
    assert kept.query_id == min(("right", "wrong", "empty"), key=lambda name: sha256(name.encode()).hexdigest())
    turned = result()
    observed = Observed(observations=tuple(reversed(turned.observed.observations)))
    assert [one.query_id for one in traces_of(replace(turned, observed=observed), 1)] == [kept.query_id]


def test_the_answer_is_a_short_list_with_a_mark_at_what_is_relevant() -> None:
    wrong, empty, right = traces_of(result(), 3)
    lines = right.answer.splitlines()
    assert [line[:10] for line in lines] == ["1. 0.900 ✓", "2. 0.500  "]
    assert wrong.answer.startswith("1. 0.800  ")
    assert empty.answer == "nothing"


def test_expected_are_the_relevant_chunks_by_grade() -> None:
    wrong, _, right = traces_of(result(), 3)
    assert list(right.expected["relevant_chunks"].items()) == [("a", 2), ("c", 1)]
    assert wrong.expected == {"relevant_chunks": {}}


def test_documents_are_what_was_returned_with_id_score_and_grade() -> None:
    *_, right = traces_of(result(), 3)
    first, second = right.documents
    assert (first["page_content"], first["id"]) == ("text of a", "a")
    expected = {"chunk_id": "a", "rank": 1, "score": 0.9, "score.semantic": 0.9, "grade": 2, "doc_uri": "a.md:1-2"}
    assert expected.items() <= first["metadata"].items()
    assert second["metadata"]["grade"] == 0
    assert traces_of(result(), 3)[1].documents == ()


def values(trace: QueryTrace) -> dict[str, object]:
    return {one.name: one.value for one in trace.feedback}


def test_assessments_are_the_verdict_and_what_it_rests_on() -> None:
    scores = {"ranking/ndcg_at_1": {"right": 0.3}, "ranking/ndcg_at_3": {"right": 0.5}}
    scores |= {"ranking/recall_at_3": {"right": 0.25}}
    made = result()
    wrong, empty, right = traces_of(replace(made, scores={**made.scores, **scores}), 3)
    assert values(right) == {
        "case_passed": "yes", "first_relevant_rank": 1, "ndcg": 0.5, "recall": 0.25, "scope_right": "yes",
    }  # fmt: skip
    assert [one.reason for one in right.feedback][2:4] == ["ranking/ndcg_at_3", "ranking/recall_at_3"]
    assert values(wrong) == {"case_passed": "no", "scope_right": "no"}
    assert wrong.feedback[0].reason == "FAILURE; out of scope, but 1 chunk was returned"
    assert values(empty) == {"case_passed": "no", "first_relevant_rank": 5, "scope_right": "no"}


def test_names_sort_as_a_reader_asks_which_is_how_mlflow_shows_them() -> None:
    names = [PASSED, FIRST_RELEVANT, HUMAN, JUDGED, NDCG, RECALL, SCOPE]
    assert names == sorted(names)


def test_a_score_that_failed_says_why() -> None:
    failed = {"ranking/ndcg_at_3": {"right": Failure(type="ValueError", message="no contexts")}}
    *_, right = traces_of(result(scores=failed), 3)
    [ndcg] = [one for one in right.feedback if one.name == NDCG]
    assert (ndcg.value, ndcg.failure) == (None, Failure(type="ValueError", message="no contexts"))


def test_durations_are_of_the_first_single_call_where_calls_were_timed() -> None:
    timings = (
        StageTimings(embed_ms=1.0, search_ms=2.0, total_ms=3.5),
        StageTimings(embed_ms=7.0, search_ms=8.0, total_ms=16.0),
    )
    passes = (
        LatencyPass(concurrency=4, query_ids=("wrong",), timings=(StageTimings(total_ms=99.0),)),
        LatencyPass(concurrency=1, query_ids=("wrong", "wrong"), timings=timings),
    )
    made = result()
    observed = replace(made.observed, latency=passes)
    wrong, empty, _ = traces_of(replace(made, observed=observed), 3)
    assert (wrong.stages, wrong.timing) == ({"embed": 1.0, "search": 2.0, "total": 3.5}, "a single call")
    assert (empty.stages, empty.timing) == ({"total": 1.0}, "the batch")


def test_the_judges_precision_is_of_the_judge_with_its_reasons() -> None:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): ChunkVerdict(verdict=0, reason="It does not."),
        },
    )
    *_, right = traces_of(result(judging=said, scores={"ragas/llm_context_precision": {"right": 1.0}}), 3)
    [judged] = [one for one in right.feedback if one.name == JUDGED]
    assert (judged.value, judged.reason) == (1.0, "1. useful: It helps.\n2. useless: It does not.")
    assert judged.source == ("LLM_JUDGE", said.model)


def test_verdicts_of_people_are_theirs_beside_the_judges_and_six_in_all() -> None:
    """Of `b`, useless, and `a`, useful, in the order a, b: average precision 1; the other way round 1/2."""
    made = result(
        judging=judging(verdicts={("right", "a"): ChunkVerdict(verdict=1, reason="It helps.")}),
        scores={
            name: {"right": 0.25}
            for name in ("ragas/llm_context_precision", "ranking/ndcg_at_3", "ranking/recall_at_3")
        },
    )

    def of_people(verdicts: dict[str, int]) -> QueryTrace:
        observations = [
            replace(one, case=one.case.model_copy(update={"human_verdicts": verdicts, "reference_answer": "It turns."}))
            if one.case.id == "right"
            else one
            for one in made.observed.observations
        ]
        return traces_of(replace(made, observed=replace(made.observed, observations=tuple(observations))), 3)[-1]

    seen = of_people({"a": 0, "b": 1})
    assert list(values(seen)) == [PASSED, FIRST_RELEVANT, HUMAN, JUDGED, NDCG, RECALL]
    said = seen.feedback[2]
    assert said.value == pytest.approx(0.5, abs=1e-9)
    assert (said.reason, said.source[0]) == ("1. useless\n2. useful", "HUMAN")
    assert HUMAN not in values(of_people({"a": 1}))
