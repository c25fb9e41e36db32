"""The worst queries of a run as traces."""

from dataclasses import replace

from evals.collect.observations import Failure, LatencyPass
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics.run_result import RunResult
from evals.report.traces import Feedback, QueryTrace, traces
from retrievers.records import StageTimings
from tests.support.judged import judging
from tests.support.results import report, result


def traces_of(run: RunResult, most: int) -> list[QueryTrace]:
    return traces(report(run), run.observed, most)


def test_the_worst_come_first_and_no_more_than_wanted() -> None:
    assert [one.query_id for one in traces_of(result(), 10)] == ["wrong", "empty", "right"]
    assert [one.query_id for one in traces_of(result(), 2)] == ["wrong", "empty"]
    assert traces_of(result(), 0) == []


def test_documents_are_what_was_returned_with_id_score_and_grade() -> None:
    *_, right = traces_of(result(), 3)
    first, second = right.documents
    assert (first["page_content"], first["id"]) == ("text of a", "a")
    expected = {"chunk_id": "a", "rank": 1, "score": 0.9, "score.semantic": 0.9, "grade": 2, "source": "a.md:1-2"}
    assert expected.items() <= first["metadata"].items()
    assert second["metadata"]["grade"] == 0
    assert traces_of(result(), 2)[1].documents == ()


def test_the_outcome_has_its_reasons_and_every_value_or_failure_is_there() -> None:
    wrong, empty, right = traces_of(result(), 3)
    assert wrong.feedback == (
        Feedback(name="outcome", value="FAILURE", reason="out of scope, but 1 chunk was returned"),
        Feedback(name="scope/abstention", value=0.0),
    )
    assert empty.feedback[0].reason == "returned 0 chunks, expected at least 1; and more; and yet more"
    assert empty.feedback[2] == Feedback(
        name="ragas/id_context_recall", value=None, failure=Failure(type="ValueError", message="no contexts")
    )
    assert [one.name for one in right.feedback] == ["outcome", "ranking/hit_rate_at_5", "ragas/id_context_recall"]


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


def test_what_the_judge_says_is_of_the_judge_with_its_reasons() -> None:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): ChunkVerdict(verdict=0, reason="It does not."),
        },
        claims={("right", ("a", "b")): (Claim(statement="It turns.", attributed=1, reason="It says so."),)},
        supports={("right", "b"): (Claim(statement="It flies.", attributed=0, reason="No."),)},
    )
    names = tuple(f"ragas/llm_{name}" for name in ("context_precision", "context_recall", "context_relevance"))
    names += ("ragas/llm_claim_recall",)
    made = result(judging=said, scores={name: {"right": 1.0} for name in names})
    *_, right = traces_of(made, 3)
    assert [(one.name, one.value, one.reason) for one in right.feedback[1:]] == [
        (names[0], 1.0, "1. useful: It helps.\n2. useless: It does not."),
        (names[1], 1.0, "supported: It turns. (It says so.)"),
        (names[2], 1.0, ""),
        (names[3], 1.0, "2. not supported: It flies. (No.)"),
    ]
    assert {one.source for one in right.feedback[1:]} == {("LLM_JUDGE", said.model)}
