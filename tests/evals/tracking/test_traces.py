"""Traces written into SQLite by the real client, and read back."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace

from evals import tracking
from evals.collect.observations import LatencyPass
from evals.errors import TrackingError
from evals.metrics.run_result import RunResult
from evals.report.traces import traces
from retrievers.records import StageTimings
from tests.support.results import report, result
from tests.support.tracking import start

MANY = 60
"""Several times the fifteen connections at which MLflow's own workers begin to lose rows."""


def timed() -> RunResult:
    """The run by hand, with single calls and a reference answer."""
    made = result()
    ids = tuple(o.case.id for o in made.observed.observations)
    timings = StageTimings(embed_ms=0.25, search_ms=1.5, rerank_ms=2.0, total_ms=4.0)
    observations = tuple(
        replace(o, case=o.case.model_copy(update={"reference_answer": "It turns."}) if o.case.id == "right" else o.case)
        for o in made.observed.observations
    )
    latency = (LatencyPass(concurrency=1, query_ids=ids, timings=(timings,) * len(ids)),)
    return replace(made, observed=replace(made.observed, observations=observations, latency=latency))


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


def test_the_retrieval_holds_query_and_documents(found: list[Trace]) -> None:
    root = found[2].data.spans[0]
    assert (root.name, root.span_type, root.parent_id) == ("retrieve", "RETRIEVER", None)
    assert root.inputs == {"query": "query right"}
    assert [document["id"] for document in root.outputs] == ["a", "b"]
    assert root.outputs[0]["page_content"] == "text of a"
    assert root.outputs[0]["metadata"]["score"] == 0.9
    assert root.get_attribute("timing") == "a single call"


def test_stages_are_spans_of_the_measured_durations_within_it(found: list[Trace]) -> None:
    root, *stages = found[0].data.spans
    spans = {span.name: (span.start_time_ns, span.end_time_ns) for span in (root, *stages)}
    assert list(spans) == ["retrieve", "embed", "search", "rerank"]
    durations = {name: (end - start) / 1e6 for name, (start, end) in spans.items() if end is not None}
    assert durations == {"retrieve": 4.0, "embed": 0.25, "search": 1.5, "rerank": 2.0}
    assert {span.parent_id for span in stages} == {root.span_id}
    assert spans["embed"][0] == root.start_time_ns
    assert spans["search"][0] == spans["embed"][1] and spans["rerank"][0] == spans["search"][1]


def test_scores_are_assessments_with_their_reasons_tied_to_the_run(found: list[Trace]) -> None:
    wrong, empty, right = ({one.name: one for one in trace.info.assessments} for trace in found)
    assert (wrong["outcome"].value, wrong["outcome"].rationale) == ("FAILURE", "out of scope, but 1 chunk was returned")
    assert {name: one.value for name, one in right.items()} == {
        "outcome": "SUCCESS", "ranking/hit_rate_at_5": 1.0, "ragas/id_context_recall": 0.5,
        "reference answer": "It turns.",
    }  # fmt: skip
    failed = empty["ragas/id_context_recall"]
    assert failed.value is None
    assert (failed.error.error_code, failed.error.error_message) == ("ValueError", "no contexts")
    assert {one.source.source_type for one in right.values()} == {"CODE", "HUMAN"}
    assert {one.run_id for one in right.values()} == {found[0].info.trace_metadata["mlflow.sourceRun"]}


@pytest.mark.slow
def test_none_of_many_is_lost(uri: str) -> None:
    tracker = start("many", uri=uri)
    three = traces(report(timed()), timed().observed, 3)
    tracker.log_traces([replace(three[n % 3], query_id=f"q{n}") for n in range(MANY)])
    found = read(tracker)
    assert [trace.info.client_request_id for trace in found] == [f"q{n}" for n in range(MANY)]
    assert [len(trace.data.spans) for trace in found] == [4] * MANY
    counts = [len(three[n % 3].feedback) + (three[n % 3].reference is not None) for n in range(MANY)]
    assert [len(trace.info.assessments) for trace in found] == counts


def test_what_is_not_there_when_read_back_is_said(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracing.client import TracingClient

    written = TracingClient.log_spans

    def losing(self: TracingClient, location: str, spans: list[Any]) -> Any:
        return written(self, location, spans[:-1] if "wrong" in str(spans[0].attributes) else spans)

    monkeypatch.setattr(TracingClient, "log_spans", losing)
    tracker = start("losing", uri=uri)
    with pytest.raises(TrackingError, match=r"MLflow kept 2 of 3 traces whole, not \['wrong'\]"):
        tracker.log_traces(traces(report(timed()), timed().observed, 3))


def test_no_traces_ask_nothing_of_mlflow(uri: str) -> None:
    tracker = start("none", uri=uri)
    tracker.log_traces([])
    assert read(tracker) == []
