"""Completing the run of a kept report in MLflow: one that was never begun, or was left half written."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evals.config.experiment import TrackingConfig
from evals.errors import TrackingError
from evals.report.comparison.records import Run
from evals.report.traces import QueryTrace
from evals.tracking.client import connection
from evals.tracking.finding import find_reported
from evals.tracking.marks import Mark, marked
from evals.tracking.references import open_run
from evals.tracking.starting import start
from evals.tracking.store import FOLDER, check_database, local_uri
from evals.tracking.tracker import MISSING_TRACES, Tracker
from evals.tracking.views import discard, kept, log_views
from retrievers.text.secrets import redacted

log = logging.getLogger(__name__)
AT_ONCE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """The complete run of a report.

    Attributes:
        run_id: Its id in MLflow.
        address: Its page on a server; empty for a local database.
        written: False where it was complete before.
        lacks_traces: True where traces failed again.
    """

    run_id: str
    address: str
    written: bool
    lacks_traces: bool = False


def complete(file: Path, config: TrackingConfig) -> Completed:
    """Write what the run of a report lacks in MLflow; nothing where it is complete.

    The report may be somebody else's: it is data alone. Where it names another store, a line says so.

    The views that were kept beside the report bring whole texts, stage times, figures and cells' runs; where they are
    gone, those stay out. A mark is removed even where traces fail again.

    Args:
        file: The report.
        config: The store, as the user names it.

    Raises:
        ConfigError: The local store cannot be used.
        ReportError: The report cannot be read.
        TrackingError: MLflow failed or has not taken all traces, its address is not known, or another process writes
            the run at this moment.
    """
    if config.uri and "***" in config.uri:
        raise TrackingError(f"{redacted(config.uri)}: holds no credentials; write them in place of ***")
    run = open_run(str(file.absolute()), None, "")
    _say_difference(run, config)
    check_database(config.uri)
    try:
        with marked(file) as mark:
            if mark is None:
                raise TrackingError(f"{file}: another process writes its run to MLflow at this moment")
            done = _completed(run, config, mark)
            if not done.lacks_traces:
                discard(file)
            mark.remove()
            if done.lacks_traces:
                raise TrackingError(f"MLflow has the run of {file} ({done.run_id}), but not all traces of its queries")
            return done
    except OSError as error:
        raise TrackingError(f"{file}: cannot be marked as being logged ({error.strerror})") from error


def _say_difference(run: Run, config: TrackingConfig) -> None:
    recorded = run.report.config.get("tracking")
    named = {"uri": None} | (recorded if isinstance(recorded, dict) else {})
    settings = {name: value for name, value in config.model_dump().items() if name in ("uri", "experiment")}
    if different := [name for name, value in settings.items() if named.get(name, value) != value]:
        log.warning(
            "%s names another place: %s; its run is written to %s, as flags, environment and defaults say",
            run.reference,
            *(
                ", ".join(f"tracking.{name} {places.get(name) or str(FOLDER)}" for name in different)
                for places in (named, settings)
            ),
        )


def _completed(run: Run, config: TrackingConfig, mark: Mark) -> Completed:
    report, uri = run.report, config.uri or local_uri(FOLDER)
    with connection(uri) as client:
        reported = find_reported(client, config.experiment, run.digest, mark.run_id, report.run)
        if reported is None:
            begun = datetime.fromisoformat(report.facts.started_at).timestamp()
            retriever = report.facts.retriever or ""
            tracker = start(config, report.run or report.name, report.config, retriever, started_ms=int(begun * 1000))
        else:
            tracker = Tracker(client, reported.info.run_id, reported.info.experiment_id, uri)
            if reported.info.status == "FINISHED":
                written = MISSING_TRACES in reported.data.tags
                if written:
                    _write_missing(tracker, kept(Path(run.origin), report, run.digest, config.traces).traces)
                return _done(tracker, written=written)
            _remove_traces(tracker)
            _remove_cells(tracker)
    status = "FAILED"
    try:
        tracker.log(report, None, run.digest)
        text = Path(run.origin).read_text(encoding="utf-8")
        log_views(tracker, report, text, kept(Path(run.origin), report, run.digest, config.traces), _unseen)
        status = "FINISHED"
    finally:
        tracker.end(status)
    return _done(tracker, written=True)


def _done(tracker: Tracker, *, written: bool) -> Completed:
    lacking = tracker.lacks_traces
    return Completed(run_id=tracker.run_id, address=tracker.address, written=written, lacks_traces=lacking)


def _unseen(stage: str, done: int, total: int, detail: str = "") -> None:
    """Show no progress."""


def _write_missing(tracker: Tracker, traces: Sequence[QueryTrace]) -> None:
    """Write the traces of a finished run that failed, in place of those that were left without spans."""
    from mlflow.tracing.client import TracingClient

    every, whole = _queries(tracker, include_spans=False), _queries(tracker, include_spans=True)
    if hollow := sorted(every.keys() - whole.keys()):
        TracingClient(tracker.uri).delete_traces(tracker.experiment_id, trace_ids=hollow)
    there = set(whole.values())
    tracker.log_traces([trace for trace in traces if trace.query_id not in there])
    if not tracker.lacks_traces:
        tracker.client.delete_tag(tracker.run_id, MISSING_TRACES)


def _remove_traces(tracker: Tracker) -> None:
    """Remove all traces of a run: some may lack their spans."""
    from mlflow.tracing.client import TracingClient

    store, experiment = TracingClient(tracker.uri), tracker.experiment_id
    while traces := store.search_traces(
        locations=[experiment], run_id=tracker.run_id, include_spans=False, max_results=AT_ONCE
    ):
        if not store.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces]):
            return


def _remove_cells(tracker: Tracker) -> None:
    """Remove the runs below a grid's run, with their traces."""
    within = [tracker.experiment_id]
    query = f"tags.`mlflow.parentRunId` = '{tracker.run_id}'"
    while cells := tracker.client.search_runs(within, query, max_results=AT_ONCE):
        for cell in cells:
            _remove_traces(Tracker(tracker.client, cell.info.run_id, tracker.experiment_id, tracker.uri))
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
