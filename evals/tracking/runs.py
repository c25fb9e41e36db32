"""From a saved report to a run in MLflow, at the end of the run itself or later by a command."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from getpass import getuser
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from evals.collect.passes import Progress
from evals.comparison.sections import Comparison
from evals.config.experiment import TrackingConfig
from evals.errors import TrackingError
from evals.report.html import render_page
from evals.report.model import Report
from evals.tracking.store import PARENT, check_store, database_file, mlflow_at, tracking_uri
from evals.tracking.traces import traces
from evals.tracking.values import (
    Figure,
    cell_runs,
    compared_figures,
    curves,
    grid_table,
    metric_values,
    metrics_table,
    parameters,
    queries_table,
    tags,
)
from retrievers.text import digest
from retrievers.text.shown import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Run

REPORT_TAG = "report.sha256"
# Most characters of a run's name in MLflow's databases.
MAX_NAME = 250
# Characters of a dataset's digest in MLflow.
DIGEST = 8
# Most runs, traces or figures of one request.
AT_ONCE = 100
# Traces that are written together.
BATCH = 24


class Written(NamedTuple):
    """The run of a report in MLflow: id, page on a server (empty for a database), and True if it was written now."""

    run_id: str
    address: str
    is_new: bool


def write_run(report: Report, text: str, config: TrackingConfig, progress: Progress) -> Written:
    """Write the run of a saved report, unless MLflow has it. An unfinished run is deleted and written again.

    Only the report is read, so that the run is the same whenever it is written. It is found again by the digest of the
    report. It counts as failed until MLflow has all of it.

    Args:
        report: The report.
        text: Text of the report, as it was saved.
        config: The store of runs and the experiment.
        progress: Called as traces are written.

    Raises:
        ConfigError: The address is a path, or the local store cannot be used.
        TrackingError: MLflow failed.
    """
    check_store(config)
    sha256, uri = digest(text), tracking_uri(config.uri)
    with mlflow_at(uri, writing=True) as client:
        experiment = _experiment(client, config)
        runs = client.search_runs([experiment], f"tags.`{REPORT_TAG}` = '{sha256}'", max_results=AT_ONCE)
        run_id = next((run.info.run_id for run in runs if run.info.status == "FINISHED"), "")
        is_new = not run_id
        if is_new:
            for run in runs:
                _delete(client, run)
            started = int(datetime.fromisoformat(report.facts.started_at).timestamp() * 1000)
            about = tags(report) | {REPORT_TAG: sha256}
            with _one_transaction(client):  # whatever kills this process, the run is failed and not running
                run_id = _begin(client, experiment, report.run or report.name, started, about)
                client.set_terminated(run_id, "FAILED", end_time=started)
            client.log_inputs(run_id, [_dataset(report)])
            _write_values(client, experiment, run_id, report, text, started)
            _write_traces(client, experiment, run_id, report, progress)
            client.set_terminated(run_id, "FINISHED", end_time=started + int((report.facts.duration_s or 0) * 1000))
    page = f"{redacted(uri).rstrip('/')}/#/experiments/{experiment}/runs/{run_id}"
    return Written(run_id, page if uri.startswith("http") else "", is_new)


def log_comparisons(comparisons: Sequence[Comparison], config: TrackingConfig) -> None:
    """Write differences to the compared runs, by the keys of MLflow's own `compare_evaluations` (from 3.18 on).

    Args:
        comparisons: Comparisons of runs that are in MLflow.
        config: Store and experiment of the runs.

    Raises:
        ConfigError: The address is a path, or the local store was copied or moved.
        TrackingError: A run is not in MLflow, or MLflow failed.
    """
    for run in (run for comparison in comparisons for run in (comparison.baseline, comparison.other)):
        if run.run_id is None:
            raise TrackingError(f"--track: expected runs in MLflow, by id or name; got {run.reference!r}")
    check_store(config)
    with mlflow_at(tracking_uri(config.uri), writing=True) as client:
        for comparison in comparisons:
            baseline, other = str(comparison.baseline.run_id), str(comparison.other.run_id)
            key = f"compare/{baseline[:8]}"  # MLflow names a baseline by so many characters
            _log(client, other, int(time.time() * 1000), compared_figures(comparison, key), {})
            client.log_dict(other, {"baseline_run_id": baseline}, f"{key}.json")


def late_command(file: Path, config: TrackingConfig) -> str:
    """Return the command that writes the run of a report later, to the same store."""
    flags = ["--tracking.uri", quote(redacted(config.uri))] if config.uri else []
    return " ".join(["python -m evals.tracking", quote(str(file)), *flags])


def _dataset(report: Report) -> "DatasetInput":
    """Return the golden data as MLflow's list of runs shows them: file and split, with the fingerprint."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    path, split = report.facts.dataset, report.config.get("dataset", {}).get("split")
    name = f"{Path(path).name}{f' ({split})' * bool(split)}"
    dataset = Dataset(name, report.facts.dataset_fingerprint[:DIGEST], "local", json.dumps({"uri": path}))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


def _experiment(client: "MlflowClient", config: TrackingConfig) -> str:
    """Return the id of the experiment, which is made if it does not exist.

    Raises:
        TrackingError: The experiment was deleted. Its name stays taken.
    """
    from mlflow.exceptions import MlflowException

    name, file = config.experiment, database_file(tracking_uri(config.uri))
    # Without a location, MLflow would keep artifacts in ./mlruns, wherever the database is.
    location = None if file is None else (file.resolve().parent / "artifacts").as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            experiment = client.get_experiment_by_name(name)
            if experiment is None:  # if it exists now, another run has made it meanwhile
                raise
    if experiment.lifecycle_stage == "deleted":
        raise TrackingError(f"the MLflow experiment {name!r} was deleted; name another with --tracking.experiment")
    return str(experiment.experiment_id)


def _delete(client: "MlflowClient", run: "Run") -> None:
    """Delete a run with its traces and the runs below it."""
    experiment, run_id = run.info.experiment_id, run.info.run_id
    of_run = {"locations": [experiment], "run_id": run_id, "include_spans": False, "max_results": AT_ONCE}
    while traces_left := client.search_traces(**of_run):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces_left])
    for cell in client.search_runs([experiment], f"tags.`{PARENT}` = '{run_id}'", max_results=AT_ONCE):
        client.delete_run(cell.info.run_id)
    client.delete_run(run_id)


def _write_values(
    client: "MlflowClient", experiment: str, run_id: str, report: Report, text: str, started: int
) -> None:
    """Write the cells of a grid as runs, then metrics, parameters and files of the run."""
    dataset = tags(report)["dataset"]
    with _one_transaction(client):
        # Each cell starts a millisecond before the last one, so that a list by time has the grid first, then its cells.
        for number, cell in enumerate(cell_runs(report), 1):
            about = {PARENT: run_id, "cell": str(cell.cell), "role": "cell", "dataset": dataset}
            cell_id = _begin(client, experiment, cell.name, started - number, about)
            client.set_terminated(cell_id, "FINISHED", end_time=started - number)
            client.log_inputs(cell_id, [_dataset(report)])
            _log(client, cell_id, started - number, cell.figures, cell.parameters)
    figures = [(name, 0, value) for name, value in metric_values(report).items()]
    _log(client, run_id, started, [*figures, *curves(report)], parameters(report))
    for name, content in _artifacts(report, text).items():
        client.log_text(run_id, content, name)


def _write_traces(client: "MlflowClient", experiment: str, run_id: str, report: Report, progress: Progress) -> None:
    """Write queries as traces, the last part of a run.

    MLflow's public functions write traces in the background, and only log what fails. So batches are written by its
    internal client, which waits. A test reads them back with the version in requirements.lock.
    """
    from mlflow.tracing.client import TracingClient

    store = TracingClient(client.tracking_uri)
    of_queries = traces(report, experiment, run_id)
    for first in range(0, len(of_queries), BATCH):
        batch = of_queries[first : first + BATCH]
        with _one_transaction(client):
            for info, _ in batch:
                store.start_trace(info)
            store.log_spans(experiment, [span for _, spans in batch for span in spans])
        progress("traces", first + len(batch), len(of_queries))


@contextmanager
def _one_transaction(client: "MlflowClient") -> Iterator[None]:
    """Let a database write all of a block in one transaction. Each transaction waits at least 13 ms for the disk."""
    from mlflow.tracing.client import TracingClient

    store = TracingClient(client.tracking_uri).store
    sessions = getattr(store, "ManagedSessionMaker", None)
    if sessions is None:  # the store is a server
        yield
        return
    try:
        with sessions(read_only=False) as session:
            store.ManagedSessionMaker = lambda **_: nullcontext(session)
            yield
    finally:
        store.ManagedSessionMaker = sessions


def _begin(client: "MlflowClient", experiment: str, name: str, started_ms: int, tags: Mapping[str, str]) -> str:
    known = {"mlflow.source.name": "evals.run", **tags}
    with suppress(OSError, KeyError):  # in a container the user may have no name
        known["mlflow.user"] = getuser()
    run = client.create_run(experiment, start_time=started_ms, run_name=name[:MAX_NAME], tags=known)
    return str(run.info.run_id)


def _log(
    client: "MlflowClient", run_id: str, at_ms: int, figures: Iterable[Figure], parameters: Mapping[str, Any]
) -> None:
    from mlflow.entities import Metric, Param

    client.log_batch(run_id, params=[Param(name, str(value)) for name, value in parameters.items()])
    # MLflow shows six digits. Counts stay whole.
    shown = (
        (name, value if float(value).is_integer() else float(f"{value:.6g}"), step) for name, step, value in figures
    )
    points = [Metric(name, value, at_ms, step) for name, value, step in shown]
    for first in range(0, len(points), AT_ONCE):
        client.log_batch(run_id, metrics=points[first : first + AT_ONCE])


def _artifacts(report: Report, text: str) -> dict[str, str]:
    """Return the files of a run by name. MLflow lists them by name, so that the page comes first."""
    tables = {"metrics": metrics_table(report), "queries": queries_table(report)}
    tables |= {"grid": grid_table(report.grid)} if report.grid else {}
    return {
        "report.html": render_page(report),
        "report.json": text,
        "settings.yaml": yaml.safe_dump(report.config, sort_keys=False),
        **{f"tables/{name}.json": _table(rows) for name, rows in tables.items()},
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table in the JSON that MLflow loads and shows."""
    return json.dumps({"columns": [*rows[0]] if rows else [], "data": [[*row.values()] for row in rows]})
