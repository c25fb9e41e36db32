"""Traces written into SQLite by the real client, and read back."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace, TraceInfo

from evals import tracking
from evals.collect.observations import Failure, LatencyPass, Score
from evals.grid.measure import Measured
from evals.report.traces import traces
from evals.tracking.traces import BATCH
from retrievers.records import StageTimings
from tests.support.mlflow_server import mlflow_server
from tests.support.results import report, result
from tests.support.tracking import start

MANY = 60
"""Several times the fifteen connections at which MLflow's own workers begin to lose rows."""


def timed() -> Measured:
    """The run by hand, with single calls and a reference answer."""
    made = result()
    ids = tuple(o.case.id for o in made.observed.observations)
    timings = StageTimings(embed_ms=0.25, search_ms=1.5, rerank_ms=2.0, total_ms=4.0)
    observations = tuple(
        replace(o, case=o.case.model_copy(update={"reference_answer": "It turns."}) if o.case.id == "right" else o.case)
        for o in made.observed.observations
    )
    latency = (LatencyPass(concurrency=1, query_ids=ids, timings=(timings,) * len(ids)),)
    ndcg: dict[str, dict[str, Score]] = {
        "ranking/ndcg_at_3": {"right": 0.5, "empty": Failure(type="ValueError", message="no contexts")}
    }
    scores = {**made.scores, **ndcg}
    return replace(made, scores=scores, observed=replace(made.observed, observations=observations, latency=latency))


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> str:
    return f"sqlite:///{shutil.copy(mlflow_database, tmp_path_factory.mktemp('traces'))}"


def read(tracker: tracking.Tracker) -> list[Trace]:
    """The traces of a run, as its page shows them."""
    client = MlflowClient(tracking_uri=tracker.uri)
    found: list[Trace] = []
    token: Any = None
    while True:
        page = client.search_traces(
            locations=[tracker.experiment_id],
            filter_string=f"attributes.run_id = '{tracker.run_id}'",
            max_results=50,
            order_by=["timestamp_ms DESC"],
            page_token=token,
        )
        found += page
        token = page.token
        if not token:
            return found


@pytest.fixture(scope="module")
def found(uri: str) -> list[Trace]:
    tracker = start("three", uri=uri)
    tracker.log_traces(traces(report(timed()), timed().observed, 3))
    tracker.end("FINISHED")
    return read(tracker)


def test_a_run_has_the_traces_that_were_wanted_the_worst_first(found: list[Trace]) -> None:
    assert [trace.info.client_request_id for trace in found] == ["wrong", "empty", "right"]
    assert [trace.info.request_preview for trace in found] == ["query wrong", "query empty", "query right"]
    assert {trace.info.state.value for trace in found} == {"OK"}


def test_the_root_holds_query_and_answer_and_the_retrieval_the_documents(found: list[Trace]) -> None:
    root, retrieval, *_ = found[2].data.spans
    assert (root.name, root.span_type, root.parent_id) == ("answer", "CHAIN", None)
    assert root.inputs == retrieval.inputs == {"query": "query right"}
    assert root.outputs == found[2].info.response_preview
    assert root.get_attribute("timing") == "a single call"
    assert (retrieval.name, retrieval.span_type, retrieval.parent_id) == ("retrieve", "RETRIEVER", root.span_id)
    assert [document["id"] for document in retrieval.outputs] == ["a", "b"]
    assert retrieval.outputs[0]["page_content"] == "text of a"
    assert retrieval.outputs[0]["metadata"]["score"] == 0.9


def test_stages_are_spans_of_the_measured_durations_within_it(found: list[Trace]) -> None:
    _, retrieval, *stages = found[0].data.spans
    spans = {span.name: (span.start_time_ns, span.end_time_ns) for span in (retrieval, *stages)}
    assert list(spans) == ["retrieve", "embed", "search", "rerank"]
    durations = {name: (end - start) / 1e6 for name, (start, end) in spans.items() if end is not None}
    assert durations == {"retrieve": 4.0, "embed": 0.25, "search": 1.5, "rerank": 2.0}
    assert {span.parent_id for span in stages} == {retrieval.span_id}
    assert spans["embed"][0] == retrieval.start_time_ns
    assert spans["search"][0] == spans["embed"][1] and spans["rerank"][0] == spans["search"][1]


def test_assessments_have_their_reasons_and_are_tied_to_the_run(found: list[Trace]) -> None:
    wrong, _, right = ({one.name: one for one in trace.info.assessments} for trace in found)
    assert wrong["case_passed"].value == "no"
    assert wrong["case_passed"].rationale == "FAILURE; out of scope, but 1 chunk was returned"
    assert {name: one.value for name, one in right.items()} == {
        "case_passed": "yes", "first_relevant_rank": 1, "ndcg": 0.5, "scope_right": "yes",
        "expected": {"answer": "It turns.", "relevant_chunks": {"a": 2, "c": 1}},
    }  # fmt: skip
    assert {one.source.source_type for one in right.values()} == {"CODE", "HUMAN"}
    assert {one.run_id for one in right.values()} == {found[0].info.trace_metadata["mlflow.sourceRun"]}


def test_traces_of_two_runs_have_their_assessments_in_both(uri: str) -> None:
    """MLflow hides in a run the assessments that name another."""
    first, second = start("first", uri=uri), start("second", uri=uri)
    first.log_traces(traces(report(timed()), timed().observed, 3), [first.run_id, second.run_id])
    for found in (read(first), read(second)):
        assert [trace.info.client_request_id for trace in found] == ["wrong", "empty", "right"]
        assert {one.run_id for trace in found for one in trace.info.assessments} == {None}


def test_a_second_run_that_cannot_have_them_costs_a_line_and_no_trace(
    uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(client: MlflowClient, trace_ids: list[str], run_id: str) -> None:
        raise ValueError("no second run")

    monkeypatch.setattr(MlflowClient, "link_traces_to_run", refused)
    tracker = start("alone", uri=uri)
    tracker.log_traces(traces(report(timed()), timed().observed, 3), [tracker.run_id, "0" * 32])
    assert len(read(tracker)) == 3
    said = "MLflow has 3 of 3 traces of the queries, not linked to all of their runs (ValueError: no second run)"
    assert said in caplog.text


def test_a_score_that_failed_is_an_error_of_its_assessment(found: list[Trace]) -> None:
    [failed] = [one for one in found[1].info.assessments if one.name == "ndcg"]
    assert failed.value is None
    assert (failed.error.error_code, failed.error.error_message) == ("ValueError", "no contexts")


@pytest.mark.slow
def test_none_of_many_is_lost(uri: str) -> None:
    tracker = start("many", uri=uri)
    three = traces(report(timed()), timed().observed, 3)
    tracker.log_traces([replace(three[n % 3], query_id=f"q{n}") for n in range(MANY)])
    found = read(tracker)
    assert [trace.info.client_request_id for trace in found] == [f"q{n}" for n in range(MANY)]
    assert [len(trace.data.spans) for trace in found] == [5] * MANY
    counts = [len(three[n % 3].feedback) + 1 for n in range(MANY)]
    assert [len(trace.info.assessments) for trace in found] == counts


def test_a_trace_that_fails_costs_itself_and_a_line(
    uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from mlflow.tracing.client import TracingClient

    begun = TracingClient.start_trace

    def failing(self: TracingClient, info: TraceInfo) -> TraceInfo:
        if info.client_request_id == "wrong":
            raise ValueError("not this one")
        return begun(self, info)

    monkeypatch.setattr(TracingClient, "start_trace", failing)
    tracker = start("losing", uri=uri)
    tracker.log_traces(traces(report(timed()), timed().observed, 3))
    assert [trace.info.client_request_id for trace in read(tracker)] == ["empty", "right"]
    assert "MLflow has 2 of 3 traces of the queries (ValueError: not this one)" in caplog.text


def test_a_server_without_traces_is_asked_for_one_batch_and_costs_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with mlflow_server() as server:
        tracker = start("old", uri=server.url)
        server.refuse = ("traces",)
        [first, *_] = traces(report(timed()), timed().observed, 3)
        tracker.log_traces([replace(first, query_id=f"q{n}") for n in range(MANY)])
        asked = [path for path, _ in server.requests if path.endswith("traces")]
    assert 0 < len(asked) <= BATCH
    assert f"MLflow has 0 of {MANY} traces of the queries (" in caplog.text


def test_no_traces_ask_nothing_of_mlflow(uri: str) -> None:
    tracker = start("none", uri=uri)
    tracker.log_traces([])
    assert read(tracker) == []
