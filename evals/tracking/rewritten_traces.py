"""Traces and cells of a run that has some already: traces that are missing, and what is removed."""

from collections.abc import Sequence

from evals.report.traces import QueryTrace
from evals.tracking.tracker import MISSING_TRACES, Tracker

AT_ONCE = 100


def write_missing(tracker: Tracker, traces: Sequence[QueryTrace]) -> None:
    """Write the traces of a finished run that failed, in place of those that were left without spans."""
    from mlflow.tracing.client import TracingClient

    every, whole = _queries(tracker, include_spans=False), _queries(tracker, include_spans=True)
    if hollow := sorted(every.keys() - whole.keys()):
        TracingClient(tracker.uri).delete_traces(tracker.experiment_id, trace_ids=hollow)
    there = set(whole.values())
    tracker.log_traces([trace for trace in traces if trace.query_id not in there])
    if not tracker.lacks_traces:
        tracker.client.delete_tag(tracker.run_id, MISSING_TRACES)


def remove_traces(tracker: Tracker) -> None:
    """Remove all traces of a run: some may lack their spans."""
    from mlflow.tracing.client import TracingClient

    store, experiment = TracingClient(tracker.uri), tracker.experiment_id
    while traces := store.search_traces(
        locations=[experiment], run_id=tracker.run_id, include_spans=False, max_results=AT_ONCE
    ):
        if not store.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces]):
            return


def remove_cells(tracker: Tracker) -> None:
    """Remove the runs below a grid's run, with their traces."""
    within = [tracker.experiment_id]
    query = f"tags.`mlflow.parentRunId` = '{tracker.run_id}'"
    while cells := tracker.client.search_runs(within, query, max_results=AT_ONCE):
        for cell in cells:
            remove_traces(Tracker(tracker.client, cell.info.run_id, tracker.experiment_id, tracker.uri))
            tracker.client.delete_run(cell.info.run_id)


def _queries(tracker: Tracker, *, include_spans: bool) -> dict[str, str]:
    """Return the ids of a run's traces to those of their queries; with spans, only the traces that have some."""
    from mlflow.tracing.client import TracingClient

    store, queries, token = TracingClient(tracker.uri), dict[str, str](), ""
    while True:
        page = store.search_traces(
            locations=[tracker.experiment_id],
            run_id=tracker.run_id,
            include_spans=include_spans,
            max_results=AT_ONCE,
            page_token=token or None,
        )
        queries |= {
            trace.info.trace_id: trace.info.client_request_id for trace in page if trace.data.spans or not include_spans
        }
        if not (token := page.token):
            return queries
