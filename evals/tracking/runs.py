"""A saved report to a run in MLflow: live, late and again alike."""

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from evals.collect.passes import Progress
from evals.config.experiment import TrackingConfig
from evals.errors import TrackingError
from evals.report.html import render_page
from evals.report.model import Report
from evals.tracking.store import FOLDER, check_store, local_uri, mlflow_at, run_page, server_of
from evals.tracking.traces import write_traces
from evals.tracking.values import (
    cell_runs,
    curves,
    grid_table,
    metric_values,
    metrics_table,
    parameters,
    queries_table,
    six_digits,
    tags,
)
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

log = logging.getLogger(__name__)
UNKNOWN = "error code 404"
REPORT_TAG = "report.sha256"
PARENT = "mlflow.parentRunId"
# Characters of a run's name that MLflow's databases hold.
MAX_NAME = 250
# Most runs or traces of one request.
AT_ONCE = 100
# Most metrics of one request.
MOST_METRICS = 1_000


class Written(NamedTuple):
    """The run of a report in MLflow: its id, its page on a server (empty for a database), False where it was there."""

    run_id: str
    address: str
    is_new: bool


def write_run(report: Report, text: str, config: TrackingConfig, progress: Progress) -> Written:
    """Write the run of a saved report, unless it is there; one that was left unfinished is deleted and written again.

    Nothing but the report is read, so that it makes no difference when and by whom this is called. A run counts as
    failed until MLflow has all of it, and is found again by the digest of the report.

    Args:
        report: The report.
        text: Its text, as it was saved.
        config: The store, as the one who writes names it.
        progress: Called as traces are written.

    Raises:
        ConfigError: The local store cannot be used.
        TrackingError: MLflow failed.
    """
    check_store(config)
    digest, uri = hashlib.sha256(text.encode()).hexdigest(), config.uri or local_uri(FOLDER)
    with mlflow_at(uri, writing=True) as client:
        experiment = _experiment(client, config)
        runs = client.search_runs([experiment], f"tags.`{REPORT_TAG}` = '{digest}'", max_results=AT_ONCE)
        finished = next((run.info.run_id for run in runs if run.info.status == "FINISHED"), "")
        if not finished:
            for run in runs:
                _delete(client, run)
        run_id = finished or _write(client, experiment, report, text, {REPORT_TAG: digest}, progress)
    address = run_page(server_of(uri), experiment, run_id) if uri.startswith("http") else ""
    return Written(run_id, address, is_new=not finished)


def late_command(file: Path, config: TrackingConfig) -> str:
    """Return the command that writes the run of a report later, to the same place."""
    given = config.model_dump(include={"uri", "experiment"}, exclude_defaults=True)
    flags = [f"--tracking.{name} {quote(redacted(str(value)))}" for name, value in given.items() if value is not None]
    # That command takes its store from the environment too.
    here = ["MLFLOW_TRACKING_URI="] if os.environ.get("MLFLOW_TRACKING_URI") and not config.uri else []
    return " ".join([*here, "python -m evals.tracking", quote(str(file)), *flags])


def _experiment(client: "MlflowClient", config: TrackingConfig) -> str:
    """Return the id of the experiment, which is made where there is none.

    Raises:
        TrackingError: It was deleted; its name stays taken.
    """
    from mlflow.exceptions import MlflowException

    name, location = config.experiment, None if config.uri else (FOLDER / "artifacts").resolve().as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            experiment = client.get_experiment_by_name(name)
            if experiment is None:  # else another run has made it on the server just now
                raise
    if experiment.lifecycle_stage == "deleted":
        raise TrackingError(
            f"the MLflow experiment {quoted(name)} was deleted, and MLflow keeps its name; restore it (mlflow "
            f"experiments restore --experiment-id {experiment.experiment_id}), or name another with "
            "--tracking.experiment"
        )
    return str(experiment.experiment_id)


def _delete(client: "MlflowClient", run: "Run") -> None:
    """Delete a run with its traces and the runs below it."""
    experiment, run_id = run.info.experiment_id, run.info.run_id
    while traces := client.search_traces(
        locations=[experiment], run_id=run_id, include_spans=False, max_results=AT_ONCE
    ):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])
    for cell in client.search_runs([experiment], f"tags.`{PARENT}` = '{run_id}'", max_results=AT_ONCE):
        client.delete_run(cell.info.run_id)
    client.delete_run(run_id)


def _write(
    client: "MlflowClient",
    experiment: str,
    report: Report,
    text: str,
    digest: Mapping[str, str],
    progress: Progress,
) -> str:
    """Write a run, the traces last; return its id."""
    from mlflow.entities import Metric
    from mlflow.exceptions import MlflowException

    started = int(datetime.fromisoformat(report.facts.started_at).timestamp() * 1000)
    run_id = _begin(client, experiment, report.run or report.name, started, digest)
    # Cells start with the grid, a millisecond before one another: a list by time has them below it, in its order.
    for number, cell in enumerate(cell_runs(report), 1):
        about = {PARENT: run_id, "cell": str(cell.cell), "role": ", ".join(cell.roles)}
        cell_id = _begin(client, experiment, cell.name, started - number, about)
        _log(client, cell_id, started - number, cell.metrics, cell.parameters, {})
        client.set_terminated(cell_id, "FINISHED", end_time=started - number)
    files = _artifacts(report, text)
    shown = [{"path": name, "type": "table"} for name in files if name.startswith("tables/")]
    known = tags(report) | {"mlflow.loggedArtifacts": json.dumps(shown)}
    _log(client, run_id, started, metric_values(report), parameters(report), known)
    points = [Metric(name, six_digits(value), started, step) for name, step, value in curves(report)]
    for first in range(0, len(points), MOST_METRICS):
        client.log_batch(run_id, metrics=points[first : first + MOST_METRICS])
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(content, encoding="utf-8")
        client.log_artifacts(run_id, folder)
    try:
        write_traces(client, experiment, run_id, report, progress)
    except (MlflowException, NotImplementedError) as error:
        if UNKNOWN not in str(error) and not isinstance(error, NotImplementedError):
            raise
        log.warning("MLflow has no traces of the queries: its server is older, and knows none")
    client.set_terminated(run_id, "FINISHED", end_time=started + int((report.facts.duration_s or 0) * 1000))
    return run_id


def _begin(client: "MlflowClient", experiment: str, name: str, started_ms: int, tags: Mapping[str, str]) -> str:
    """Begin a run, which counts as failed until it is ended as finished: nothing that kills this leaves it running."""
    known = {"mlflow.source.name": "evals.run", **tags}
    run = client.create_run(experiment, start_time=started_ms, run_name=name[:MAX_NAME], tags=known)
    client.set_terminated(run.info.run_id, "FAILED", end_time=started_ms)
    return str(run.info.run_id)


def _log(
    client: "MlflowClient",
    run_id: str,
    started_ms: int,
    metrics: Mapping[str, float],
    parameters: Mapping[str, Any],
    tags: Mapping[str, str],
) -> None:
    from mlflow.entities import Metric, Param, RunTag

    client.log_batch(
        run_id,
        [Metric(name, six_digits(value), started_ms, 0) for name, value in metrics.items()],
        [Param(name, str(value)) for name, value in parameters.items()],
        [RunTag(name, value) for name, value in tags.items()],
    )


def _artifacts(report: Report, text: str) -> dict[str, str]:
    """Return the files of a run by name: MLflow lists them by it, the page first."""
    rows = {"metrics": metrics_table(report), "queries": queries_table(report)}
    rows |= {"grid": grid_table(report.grid)} if report.grid else {}
    return {
        "report.html": render_page(report),
        "report.json": text,
        "settings.yaml": yaml.safe_dump(report.config, sort_keys=False),
        **{f"tables/{name}.json": _table(table) for name, table in rows.items()},
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table as MLflow loads and shows it."""
    columns = list(rows[0]) if rows else []
    return json.dumps({"columns": columns, "data": [list(row.values()) for row in rows]})
