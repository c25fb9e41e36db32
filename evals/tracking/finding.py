"""Runs from MLflow: found by id, name or tag, with their reports. Nothing is written, no database is made."""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evals.errors import TrackingError
from evals.report.comparison.records import Tracked
from evals.report.parsing import MOST_BYTES
from evals.tracking.addresses import server_of
from evals.tracking.client import connection
from evals.tracking.store import FOLDER, check_database, database_file
from evals.tracking.tracker import NO_REPORT, REPORT_TAG
from retrievers.config.text_files import read_text
from retrievers.errors import nearest
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

REPORT, FACTS = "report.json", "facts.json"
RUN_ID = re.compile(r"[0-9a-f]{32}")
TAG = re.compile(r"tag:([\w ./:-]+?)(?:=(.*))?")
PARENT = "mlflow.parentRunId"
# Number of runs to search, the newest first.
MOST = 1_000
LISTED = 10
NEWEST = 3
# Tag to the fact's dotted name; `version.NAME` besides.
FORMER = {
    "dataset.fingerprint": "dataset_fingerprint",
    "collection.fingerprint": "collection.fingerprint",
    "collection.points": "collection.points",
    "retriever": "retriever",
    "relevance": "relevance",
    "judge.provider": "judge.provider",
    "judge.fingerprint": "judge.fingerprint",
}
VERSION = "version."


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedRun:
    """A run in MLflow, and its report's text."""

    place: Tracked
    name: str
    report: str

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.place.run_id


def read_run(reference: str, uri: str | None, experiment: str) -> TrackedRun:
    """Find a run and read its report.

    Args:
        reference: A run's id (looked for in all experiments), its name, or `tag:KEY` or `tag:KEY=VALUE`, which is the
            newest run of the experiment that has the tag.
        uri: Address of MLflow; the database under ./mlruns when None.
        experiment: Name of the experiment in which names and tags are looked for.

    Raises:
        ConfigError: The local database is damaged.
        TrackingError: There is no such run, or more than one; it has no report; MLflow failed.
    """
    uri = uri or f"sqlite:///{(FOLDER / 'mlflow.db').resolve()}"
    _check_there(uri, reference)
    check_database(uri)
    with connection(uri) as client:
        run = _find(client, reference, experiment, redacted(uri))
        report = _report(client, run)
        tracked = Tracked(server_of(uri), run.info.experiment_id, run.info.run_id)
        return TrackedRun(place=tracked, name=run.info.run_name or "", report=report)


def find_reported(client: "MlflowClient", experiment: str, digest: str, run_id: str, name: str) -> "MlflowRun | None":
    """Find the run of a report, a finished one first: by its tag, by an id that was kept, or by its name.

    Args:
        client: Client of MLflow.
        experiment: Name of its experiment.
        digest: SHA-256 of the report's text.
        run_id: Id of the run, where it is known; one that has another report is not meant.
        name: Name of the run; one that has a report is that run only where the report is the same.
    """
    existing = client.get_experiment_by_name(experiment)
    if existing is None:
        return None
    within = [str(existing.experiment_id)]
    runs = _search(client, within, f"tags.`{REPORT_TAG}` = '{digest}'")
    if not runs and RUN_ID.fullmatch(run_id):
        begun = _search(client, within, f"attributes.run_id = '{run_id}'")
        runs = [run for run in begun if run.data.tags.get(REPORT_TAG, NO_REPORT) == NO_REPORT]
    if not runs and name:
        untagged = [run for run in _named(client, within, name) if REPORT_TAG not in run.data.tags]
        runs = [run for run in untagged if PARENT not in run.data.tags and _may_be(client, run, digest)]
    return min(runs, key=lambda run: run.info.status != "FINISHED", default=None)


def _may_be(client: "MlflowClient", run: "MlflowRun", digest: str) -> bool:
    """Return True for an unfinished run, and for a finished one with that report."""
    if run.info.status != "FINISHED":
        return True
    with contextlib.suppress(TrackingError):
        return hashlib.sha256(_report(client, run).encode()).hexdigest() == digest
    return False


def _check_there(uri: str, reference: str) -> None:
    """Refuse a database that does not exist, which MLflow would make."""
    file = database_file(uri)
    if file is not None and not file.is_file():
        raise TrackingError(
            f"{quoted(reference)}: no such file, and no MLflow runs either ({file} does not exist); give a "
            "report's file, go where evals.run was started, or name another store with --tracking.uri"
        )


def _find(client: "MlflowClient", reference: str, experiment: str, address: str) -> "MlflowRun":
    if RUN_ID.fullmatch(reference):
        everywhere = [entry.experiment_id for entry in client.search_experiments()]
        runs = _search(client, everywhere, f"attributes.run_id = '{reference}'")
        if runs:
            return runs[0]
    within = [_experiment_id(client, experiment, address)]
    tag = TAG.fullmatch(reference)
    if tag:
        return _tagged(client, within, tag[1], tag[2], f"in experiment {experiment!r} at {address}")
    runs = _named(client, within, reference)
    if len(runs) > 1:
        listed = [_described(run) for run in runs[:LISTED]]
        more = [f"… and {len(runs) - LISTED} more"] if len(runs) > LISTED else []
        raise TrackingError(
            "\n  ".join([f"{len(runs)} runs are called {quoted(reference)}; give an id:", *listed, *more])
        )
    if not runs:
        raise TrackingError(
            f"no run with the id or name {quoted(reference)} in experiment {experiment!r} at {address}, and no file "
            f"of that name{_near(reference, _search(client, within))}"
        )
    return runs[0]


def _near(reference: str, every: Sequence["MlflowRun"]) -> str:
    """Return the runs nearest to the reference, or else the newest; not cells of a grid, which have no report."""
    runs = [run for run in every if PARENT not in run.data.tags]
    near = nearest(reference, [name for run in runs for name in (run.info.run_name or "", run.info.run_id)])
    newest = list(dict.fromkeys(run.info.run_name or run.info.run_id for run in runs))[:NEWEST]
    return near or (f"; the newest are {', '.join(map(repr, newest))}" if newest else "; it has no runs")


def _experiment_id(client: "MlflowClient", name: str, address: str) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        names = [item.name for item in client.search_experiments()]
        raise TrackingError(f"MLflow at {address} has no experiment {quoted(name)}{nearest(name, names)}")
    return str(experiment.experiment_id)


def _tagged(client: "MlflowClient", within: Sequence[str], key: str, value: str | None, address: str) -> "MlflowRun":
    runs = _search(client, within, "" if _is_former(key) else f"tags.`{key}` LIKE '%'")
    for run in runs:
        of_run = run.data.tags[key] if key in run.data.tags else _fact(client, run, key)
        if of_run is not None and value in (None, of_run):
            return run
    tags = [name for run in _search(client, within) for name in run.data.tags if not name.startswith("mlflow.")]
    near = "" if runs else nearest(key, [*tags, *FORMER])
    tag = key if value is None else f"{key}={value}"
    raise TrackingError(
        f"no run {address} is tagged {quoted(tag)}{near}; set it on a run's page in "
        f"the MLflow UI, or by MlflowClient(...).set_tag(run_id, {key!r}, {value or 'true'!r})"
    )


def _fact(client: "MlflowClient", run: "MlflowRun", key: str) -> str | None:
    """Return what a run has in its artifact of facts in place of a tag; None for a tag that it never was."""
    if (
        not _is_former(key)
        or PARENT in run.data.tags
        or FACTS not in {item.path for item in client.list_artifacts(run.info.run_id)}
    ):
        return None
    with TemporaryDirectory() as folder:
        file = Path(client.download_artifacts(run.info.run_id, FACTS, folder))
        return _former_tag(key, json.loads(read_text(file, "facts of evals.run", MOST_BYTES, TrackingError)))


def _named(client: "MlflowClient", within: Sequence[str], name: str) -> list["MlflowRun"]:
    # MLflow's filter cannot hold a name with both kinds of quotes.
    quote = next((mark for mark in "'\"" if mark not in name), "")
    query = f"attributes.run_name = {quote}{name}{quote}" if quote else ""
    return [run for run in _search(client, within, query) if run.info.run_name == name]


def _search(client: "MlflowClient", within: Sequence[str], query: str = "") -> list["MlflowRun"]:
    """Return the newest runs, of those that a filter lets through."""
    return list(client.search_runs(within, query, max_results=MOST, order_by=["attributes.start_time DESC"]))


def _report(client: "MlflowClient", run: "MlflowRun") -> str:
    run_id = run.info.run_id
    artifacts = {item.path for item in client.list_artifacts(run_id)}
    if REPORT not in artifacts:
        parent = run.data.tags.get(PARENT)
        why = f"it is a part of run {parent}, and has values only" if parent else f"its status is {run.info.status}"
        raise TrackingError(f"run {run_id} ({run.info.run_name}) has no artifact {REPORT}, so no scores: {why}")
    with TemporaryDirectory() as folder:
        file = Path(client.download_artifacts(run_id, REPORT, folder))
        return read_text(file, "a report of evals.run", MOST_BYTES, TrackingError)


def _described(run: "MlflowRun") -> str:
    started = datetime.fromtimestamp(run.info.start_time / 1000, UTC)
    return f"{run.info.run_id}  {started:%Y-%m-%d %H:%M:%S} UTC  {run.info.status}"


def _is_former(tag: str) -> bool:
    """Return True for a tag that a run has as a fact instead."""
    return tag in FORMER or tag.startswith(VERSION)


def _former_tag(tag: str, facts: Mapping[str, Any]) -> str | None:
    """Return the value that a former tag would have; None where the fact is not known.

    Args:
        tag: One for which `is_former` is true.
        facts: The run's artifact `facts.json`.
    """
    if tag.startswith(VERSION):
        value = facts.get("versions", {}).get(tag.removeprefix(VERSION))
    else:
        section, _, name = FORMER[tag].rpartition(".")
        value = ((facts.get(section) or {}) if section else facts).get(name)
    return None if value is None else str(value)
