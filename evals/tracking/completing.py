"""Completing the run of a kept report in MLflow: one that was never begun, or was left half written."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evals.config.experiment import DatasetConfig, TrackingConfig
from evals.errors import DatasetError, ReportError, TrackingError
from evals.golden.loading import GoldenSet, load_golden
from evals.report.comparison.records import Run
from evals.report.model import Report
from evals.tracking.client import connection
from evals.tracking.finding import find_reported
from evals.tracking.marks import Mark, marked, reports_marked
from evals.tracking.references import open_run
from evals.tracking.rewritten_traces import remove_cells, remove_traces, write_missing
from evals.tracking.starting import start
from evals.tracking.store import FOLDER, check_database, local_uri
from evals.tracking.tracker import MISSING_TRACES, Tracker
from evals.tracking.views import discard, kept, log_views
from retrievers.config import RetrieverConfig
from retrievers.store.location import portable_settings
from retrievers.text.secrets import redacted

log = logging.getLogger(__name__)
# Most earlier runs that a run completes: each takes seconds.
MOST_EARLIER = 10


class BeingLoggedError(TrackingError):
    """Another process writes the run at this moment."""


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


def complete(file: Path, uri: str | None = None, experiment: str | None = None) -> Completed:
    """Write what the run of a report lacks in MLflow; nothing where it is complete.

    The views that were kept beside the report bring whole texts, stage times, figures and cells' runs; where they are
    gone, those stay out. A mark is removed even where traces fail again, so that what MLflow refuses for good is tried
    once unasked.

    Args:
        file: The report.
        uri: Address of MLflow in place of the one that the report names.
        experiment: Experiment in place of the one that the report names.

    Raises:
        ConfigError: The local store cannot be used.
        ReportError: The report cannot be read.
        TrackingError: MLflow failed or has not taken all traces, its address is not known, or another process writes
            the run at this moment.
    """
    run = open_run(str(file.absolute()), None, "")
    config = _config(run.report, uri, experiment)
    if config.uri and "***" in config.uri:
        raise TrackingError(f"{file}: holds no credentials of {config.uri}; name it with --tracking.uri")
    check_database(config.uri)
    try:
        with marked(file) as mark:
            if mark is None:
                raise BeingLoggedError(f"{file}: another process writes its run to MLflow at this moment")
            done = _completed(run, config, mark)
            if not done.lacks_traces:
                discard(file)
            mark.remove()
            if done.lacks_traces:
                raise TrackingError(f"MLflow has the run of {file} ({done.run_id}), but not all traces of its queries")
            return done
    except OSError as error:
        raise TrackingError(f"{file}: cannot be marked as being logged ({error.strerror})") from error


def complete_earlier(folder: Path, config: TrackingConfig) -> Iterator[str]:
    """Complete the runs of marked reports that belong to the same store; yield a line for each.

    A run whose process lives is left to it. The first failure of MLflow ends it.

    Args:
        folder: The folder of the reports.
        config: Settings of tracking of the run that ended; its address has the credentials.
    """
    for file in reports_marked(folder)[:MOST_EARLIER]:
        try:
            recorded = _config(open_run(str(file), None, "").report, None, None).uri
            if (recorded or "") != redacted(config.uri or ""):
                continue
        except ReportError as error:
            yield f"{file} is marked as not logged to MLflow, and cannot be read: {error}"
            continue
        try:
            done = complete(file, config.uri)
        except BeingLoggedError:
            continue
        except TrackingError as error:
            yield f"the run of {file} is still not complete in MLflow: {error}"
            return
        if done.written:
            yield f"MLflow now has the whole run of {file}, which had been left incomplete (run {done.run_id})"


def _config(report: Report, uri: str | None, experiment: str | None) -> TrackingConfig:
    recorded = TrackingConfig.model_validate(report.config.get("tracking", {}))
    settings = {"uri": uri, "experiment": experiment}
    return recorded.model_copy(update={name: value for name, value in settings.items() if value})


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
                    write_missing(tracker, kept(Path(run.origin), report, run.digest, config.traces).traces)
                return _done(tracker, written=written)
            remove_traces(tracker)
            remove_cells(tracker)
    status = "FAILED"
    try:
        tracker.log(report, _golden(report), run.digest)
        text = Path(run.origin).read_text(encoding="utf-8")
        log_views(tracker, report, text, kept(Path(run.origin), report, run.digest, config.traces), _unseen)
        _register(tracker, report, config)
        status = "FINISHED"
    finally:
        tracker.end(status)
    return _done(tracker, written=True)


def _done(tracker: Tracker, *, written: bool) -> Completed:
    lacking = tracker.lacks_traces
    return Completed(run_id=tracker.run_id, address=tracker.address, written=written, lacks_traces=lacking)


def _register(tracker: Tracker, report: Report, config: TrackingConfig) -> None:
    """Register the retriever of a report if it was asked for, unless the run has done so."""
    unranked = report.grid is not None and report.grid.choice is None
    query = f"run_id = '{tracker.run_id}'"
    if config.register_as and not unranked and not tracker.client.search_model_versions(query):
        retriever = RetrieverConfig.model_validate(report.config["retriever"])
        tracker.register(portable_settings(retriever), config.register_as)


def _unseen(stage: str, done: int, total: int, detail: str = "") -> None:
    """Show no progress."""


def _golden(report: Report) -> GoldenSet | None:
    """Return the golden queries of a report; None where they can no longer be had as they were."""
    try:
        golden = load_golden(DatasetConfig.model_validate(report.config["dataset"]))
    except (DatasetError, ValueError, KeyError):
        return None
    return golden if golden.fingerprint == report.facts.dataset_fingerprint else None
