"""References to runs: the file of a report, or a run's id, name or tag in MLflow. Nothing is written."""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evals.comparison.records import Run, Tracked
from evals.errors import ReportError, TrackingError
from evals.report.explored import cell_report
from evals.report.model import Report
from evals.report.parsing import MOST_BYTES, parse
from evals.tracking.store import FOLDER, SQLITE, check_database, database_file, mlflow_at, server_of
from retrievers.config.files import read_text
from retrievers.errors import nearest
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

REPORT = "report.json"
RUN_ID = re.compile(r"[0-9a-f]{32}")
TAG = re.compile(r"tag:([\w ./:-]+?)(?:=(.*))?")
PARENT = "mlflow.parentRunId"
# Number of runs to search, the newest first.
MOST = 1_000
LISTED, NEWEST = 10, 3


def open_run(reference: str, uri: str | None, experiment: str) -> Run:
    """Find a run and read its report.

    Args:
        reference: A file, or an MLflow run's id (looked for in all experiments), its name, or `tag:KEY` or
            `tag:KEY=VALUE`, which is the newest run of the experiment that has the tag. An existing file comes first;
            what ends in `.json` is a file, and what follows a `#` in it a cell of its grid (`grid.json#k8-t0.3`).
        uri: Address of MLflow; the database under ./mlruns when None.
        experiment: Name of the experiment in which names and tags are looked for.

    Raises:
        ConfigError: The local database is damaged.
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
        TrackingError: MLflow has no such run, or several, or it has no report; or MLflow failed.
    """
    file, (before, mark, cell) = Path(reference), reference.rpartition("#")
    if mark and before.endswith(".json") and not _is_there(file):
        report, text = read_report(Path(before))
        return _run(reference, reference, made := cell_report(report, cell), f"{text}#{made.name}", made.name)
    if file.suffix == ".json" or _is_there(file):
        report, text = read_report(file)
        return _run(str(file), str(file), report, text, report.name)
    uri = uri or f"{SQLITE}{(FOLDER / 'mlflow.db').resolve()}"
    if (database := database_file(uri)) is not None and not database.is_file():  # MLflow would make it
        raise TrackingError(
            f"{quoted(reference)}: no such file, and no MLflow runs either ({database} does not exist); give a "
            "report's file, go where evals.run was started, or name another store with --tracking.uri"
        )
    check_database(uri)
    with mlflow_at(uri) as client:
        run = _find(client, reference, experiment, redacted(uri))
        text = _text(client, run)
    origin, name = f"MLflow run {run.info.run_id}", run.info.run_name
    tracked = Tracked(server_of(uri), run.info.experiment_id, run.info.run_id)
    return _run(reference, origin, report := parse(text, origin), text, name or report.name, tracked)


def read_report(file: Path) -> tuple[Report, str]:
    """Return the report of a file, and its text.

    Raises:
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
    """
    try:
        text = read_text(file, "a report of evals.run", MOST_BYTES, ReportError)
    except ReportError as error:
        near = ""
        with suppress(OSError, ValueError):
            near = "" if file.exists() else nearest(file.name, (other.name for other in file.parent.glob("*.json")))
        raise ReportError(f"{error}{near}") from None
    return parse(text, str(file)), text


def refuse_repeated(runs: Sequence[Run]) -> None:
    """Check that no run is given twice, under any name.

    Raises:
        ReportError: One is.
    """
    first_of: dict[str, Run] = {}
    for run in runs:
        first = first_of.setdefault(run.digest, run)
        if first is not run:
            raise ReportError(
                f"{run.reference!r} and {first.reference!r} are the same run ({first.origin}); give two different ones"
            )


def _run(reference: str, origin: str, report: Report, text: str, name: str, tracked: Tracked | None = None) -> Run:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Run(reference=reference, origin=origin, name=name, report=report, digest=digest, tracked=tracked)


def _is_there(file: Path) -> bool:
    # The name of a run may be too long for a file name.
    with suppress(OSError, ValueError):
        return file.exists() and not file.is_dir()
    return False


def _find(client: "MlflowClient", reference: str, experiment: str, address: str) -> "MlflowRun":
    if RUN_ID.fullmatch(reference):
        everywhere = [entry.experiment_id for entry in client.search_experiments()]
        if runs := _search(client, everywhere, f"attributes.run_id = '{reference}'"):
            return runs[0]
    existing, place = client.get_experiment_by_name(experiment), f"in experiment {experiment!r} at {address}"
    if existing is None:
        names = [item.name for item in client.search_experiments()]
        raise TrackingError(f"MLflow at {address} has no experiment {quoted(experiment)}{nearest(experiment, names)}")
    within = [str(existing.experiment_id)]
    if tag := TAG.fullmatch(reference):
        return _tagged(client, within, tag[1], tag[2], place)
    # MLflow's filter cannot hold a name with both kinds of quotes.
    quote = next((mark for mark in "'\"" if mark not in reference), "")
    named = f"attributes.run_name = {quote}{reference}{quote}" if quote else ""
    runs = [run for run in _search(client, within, named) if run.info.run_name == reference]
    if len(runs) > 1:
        listed = [_described(run) for run in runs[:LISTED]]
        more = [f"… and {len(runs) - LISTED} more"] if len(runs) > LISTED else []
        raise TrackingError(
            "\n  ".join([f"{len(runs)} runs are called {quoted(reference)}; give an id:", *listed, *more])
        )
    if not runs:
        raise TrackingError(
            f"no run with the id or name {quoted(reference)} {place}, and no file of that name"
            f"{_near(reference, _search(client, within))}"
        )
    return runs[0]


def _tagged(client: "MlflowClient", within: Sequence[str], key: str, value: str | None, place: str) -> "MlflowRun":
    runs = _search(client, within, f"tags.`{key}` LIKE '%'")
    for run in runs:
        if value in (None, run.data.tags[key]):
            return run
    tags = [name for run in _search(client, within) for name in run.data.tags if not name.startswith("mlflow.")]
    raise TrackingError(
        f"no run {place} is tagged {quoted(key if value is None else f'{key}={value}')}"
        f"{'' if runs else nearest(key, tags)}; set it on a run's page in the MLflow UI, or by "
        f"MlflowClient(...).set_tag(run_id, {key!r}, {value or 'true'!r})"
    )


def _near(reference: str, every: Sequence["MlflowRun"]) -> str:
    """Return the runs nearest to the reference, or else the newest; not cells of a grid, which have no report."""
    runs = [run for run in every if PARENT not in run.data.tags]
    near = nearest(reference, [name for run in runs for name in (run.info.run_name or "", run.info.run_id)])
    newest = list(dict.fromkeys(run.info.run_name or run.info.run_id for run in runs))[:NEWEST]
    return near or (f"; the newest are {', '.join(map(repr, newest))}" if newest else "; it has no runs")


def _search(client: "MlflowClient", within: Sequence[str], query: str = "") -> list["MlflowRun"]:
    """Return the newest runs, of those that a filter lets through."""
    return list(client.search_runs(within, query, max_results=MOST, order_by=["attributes.start_time DESC"]))


def _text(client: "MlflowClient", run: "MlflowRun") -> str:
    run_id = run.info.run_id
    if REPORT not in {item.path for item in client.list_artifacts(run_id)}:
        parent = run.data.tags.get(PARENT)
        why = f"it is a part of run {parent}, and has values only" if parent else f"its status is {run.info.status}"
        raise TrackingError(f"run {run_id} ({run.info.run_name}) has no artifact {REPORT}, so no scores: {why}")
    with TemporaryDirectory() as folder:
        file = Path(client.download_artifacts(run_id, REPORT, folder))
        return read_text(file, "a report of evals.run", MOST_BYTES, TrackingError)


def _described(run: "MlflowRun") -> str:
    started = datetime.fromtimestamp(run.info.start_time / 1000, UTC)
    return f"{run.info.run_id}  {started:%Y-%m-%d %H:%M:%S} UTC  {run.info.status}"
