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
from urllib.parse import quote as in_address

import yaml

from evals.collect.passes import Progress
from evals.config.experiment import TrackingConfig
from evals.errors import TrackingError
from evals.report.description import description
from evals.report.html import render_page
from evals.report.model import Report
from evals.tracking.store import FOLDER, check_store, local_uri, mlflow_at, run_page, server_of
from evals.tracking.traces import write_traces
from evals.tracking.values import (
    DESCRIPTION_TAG,
    CellRun,
    along_top_k,
    cell_runs,
    first_values,
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
    from mlflow.entities import Metric, Run

log = logging.getLogger(__name__)
UNKNOWN = "error code 404"
REPORT_TAG = "report.sha256"
PARENT = "mlflow.parentRunId"
# Characters of a run's name that MLflow's databases hold.
MAX_NAME = 250
# Most metrics, runs or traces of one request.
BATCH, AT_ONCE = 1_000, 100


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
        run_id = finished or _write(client, experiment, report, text, digest, config.traces, progress)
    address = run_page(server_of(uri), experiment, run_id) if uri.startswith("http") else ""
    return Written(run_id, address, is_new=not finished)


def late_command(file: Path, config: TrackingConfig) -> str:
    """Return the command that writes the run of a report later, to the same place."""
    given = config.model_dump(include={"uri", "experiment", "traces"}, exclude_defaults=True)
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
        except MlflowException as error:
            # Another run has made it on the server just now.
            experiment = client.get_experiment_by_name(name)
            if error.error_code != "RESOURCE_ALREADY_EXISTS" or experiment is None:
                raise
    number = str(experiment.experiment_id)
    if experiment.lifecycle_stage == "deleted":
        raise TrackingError(
            f"the MLflow experiment {quoted(name)} was deleted, and MLflow keeps its name; restore it "
            f"(mlflow experiments restore --experiment-id {number}), or name another with --tracking.experiment"
        )
    return number


def _delete(client: "MlflowClient", run: "Run") -> None:
    """Delete a run with its traces and the runs below it."""
    experiment, run_id = run.info.experiment_id, run.info.run_id
    while traces := client.search_traces(
        locations=[experiment], run_id=run_id, include_spans=False, max_results=AT_ONCE
    ):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])
    while cells := client.search_runs([experiment], f"tags.`{PARENT}` = '{run_id}'", max_results=AT_ONCE):
        for cell in cells:
            client.delete_run(cell.info.run_id)
    client.delete_run(run_id)


def _begin(client: "MlflowClient", experiment: str, name: str, started_ms: int, tags: Mapping[str, str]) -> str:
    """Begin a run, which counts as failed until it is ended as finished: nothing that kills this leaves it running."""
    known = {"mlflow.source.name": "evals.run", **tags}
    run = client.create_run(experiment, start_time=started_ms, run_name=name[:MAX_NAME], tags=known)
    client.set_terminated(run.info.run_id, "FAILED", end_time=started_ms)
    return str(run.info.run_id)


def _write(
    client: "MlflowClient", experiment: str, report: Report, text: str, digest: str, traces: int, progress: Progress
) -> str:
    """Write a run, the traces last; return its id."""
    from mlflow.entities import Param, RunTag
    from mlflow.exceptions import MlflowException

    started = int(datetime.fromisoformat(report.facts.started_at).timestamp() * 1000)
    run_id = _begin(client, experiment, report.run or report.name, started, {REPORT_TAG: digest})
    params = [Param(name, value) for name, value in parameters(report).items()]
    files, known = _artifacts(report, text), tags(report)
    metrics = _metrics(report, started)
    if cells := cell_runs(report):
        ids = _log_cells(client, experiment, run_id, cells, started)
        known[DESCRIPTION_TAG] = _with_link(description(report), _plots_page(experiment, ids))
    shown = [{"path": name, "type": "table"} for name in files if name.startswith("tables/")]
    known["mlflow.loggedArtifacts"] = json.dumps(shown)
    client.log_batch(run_id, metrics[:BATCH], params, [RunTag(name, value) for name, value in known.items()])
    for first in range(BATCH, len(metrics), BATCH):
        client.log_batch(run_id, metrics=metrics[first : first + BATCH])
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(content, encoding="utf-8")
        client.log_artifacts(run_id, folder)
    _log_input(client, run_id, report)
    try:
        write_traces(client, experiment, run_id, report, traces, progress)
    except (MlflowException, NotImplementedError) as error:
        if UNKNOWN not in str(error) and not isinstance(error, NotImplementedError):
            raise
        log.warning("MLflow has no traces of the queries: its server is older, and knows none")
    took = int((report.facts.duration_s or 0) * 1000)
    client.set_terminated(run_id, "FINISHED", end_time=started + took)
    return run_id


def _log_cells(
    client: "MlflowClient", experiment: str, parent: str, cells: Sequence[CellRun], started_ms: int
) -> list[str]:
    """Write a run for each cell, below that of the grid; return their ids.

    They start with the grid, a millisecond before one another, so that a list by time has them below it and in its
    order; the columns of MLflow's list are then those of the grid's run.
    """
    from mlflow.entities import Metric, Param

    ids = []
    for number, cell in enumerate(cells, 1):
        started = started_ms - number
        tags = {PARENT: parent, "cell": str(cell.cell), "role": ", ".join(cell.roles)}
        run_id = _begin(client, experiment, cell.name, started, tags)
        metrics = [Metric(name, value, started, 0) for name, value in first_values(cell.metrics).items()]
        client.log_batch(run_id, metrics, [Param(name, str(value)) for name, value in cell.parameters.items()])
        client.set_terminated(run_id, "FINISHED", end_time=started)
        ids.append(run_id)
    return ids


def _plots_page(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the address of MLflow's plots of runs, relative to a page of the server."""
    runs, experiments = (in_address(json.dumps(ids, separators=(",", ":"))) for ids in (list(run_ids), [experiment_id]))
    return f"#/compare-runs?runs={runs}&experiments={experiments}"


def _metrics(report: Report, started: int) -> "list[Metric]":
    """Return the run's metrics, then those of a grid along top_k, with it as their step."""
    from mlflow.entities import Metric

    along = along_top_k(report.grid) if report.grid else {}
    return [Metric(name, value, started, 0) for name, value in metric_values(report).items()] + [
        Metric(f"by_top_k/{name}", six_digits(value), started, top_k)
        for name, values in along.items()
        for top_k, value in values
    ]


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


def _with_link(text: str, page: str) -> str:
    """Return a grid's description with the plots of its cells behind its first paragraph."""
    verdict, _, rest = text.partition("\n\n")
    return "\n\n".join((verdict, f"[Its cells by threshold and top_k]({page})", rest))


def _log_input(client: "MlflowClient", run_id: str, report: Report) -> None:
    """Name the golden data, which stay where they are, as the run's input."""
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    facts = report.facts
    data = Dataset(
        name=Path(facts.dataset).stem,
        # MLflow's column holds 36 characters.
        digest=facts.dataset_fingerprint[:36],
        source_type="local",
        source=json.dumps({"uri": facts.dataset}),
        profile=json.dumps({"queries": facts.cases}),
    )
    entry = DatasetInput(data, [InputTag("mlflow.data.context", "evaluation")])
    try:
        client.log_inputs(run_id, [entry])
    except MlflowException as error:
        if error.error_code != "BAD_REQUEST":
            raise
        # Another run has entered the same golden data since MLflow looked for it; now it is found there.
        client.log_inputs(run_id, [entry])
