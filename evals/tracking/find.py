"""References to runs: the file of a report, or a run's id or name in MLflow. Nothing is written."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evals.comparison.records import Run
from evals.errors import ReportError, TrackingError
from evals.report.model import Report
from evals.report.parsing import MOST_BYTES, cell_report, parse
from evals.tracking.store import PARENT, existing_uri, mlflow_at
from retrievers.config.files import read_text
from retrievers.errors import nearest
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

REPORT = "report.json"
RUN_ID = re.compile(r"[0-9a-f]{32}")
# Most runs that are searched, the newest first.
MOST = 1_000
# Most runs of one name that are listed.
LISTED = 10


def open_run(reference: str, uri: str | None, experiment: str) -> Run:
    """Find a run and read its report.

    Args:
        reference: A file, or a cell of its grid (`grid.json#k8-t0.3`); or an MLflow run's id (looked for in all
            experiments) or its name. An existing file comes first; what ends in `.json` is a file.
        uri: Address of MLflow; the database under ./mlruns when None.
        experiment: Name of the experiment in which names are looked for.

    Raises:
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
        TrackingError: MLflow has no such run, or several, or it has no report; or MLflow failed.
    """
    file, is_there = Path(reference), False
    before, _, cell = reference.rpartition("#")
    with suppress(OSError, ValueError):  # the name of a run may be too long for a file name
        is_there = file.exists() and not file.is_dir()
    if before.endswith(".json") and not is_there:
        return Run.of(cell_report(read_report(Path(before))[0], cell), reference=reference, origin=reference)
    if reference.endswith(".json") or is_there:
        return Run.of(read_report(file)[0], reference=str(file), origin=str(file))
    uri = existing_uri(uri, f"{quoted(reference)}: no such file, and no MLflow runs either")
    with mlflow_at(uri) as client, TemporaryDirectory() as folder:
        run = _find(client, reference, experiment, redacted(uri))
        if REPORT not in {item.path for item in client.list_artifacts(run.info.run_id)}:
            parent = run.data.tags.get(PARENT)
            why = f"it is a part of run {parent}, and has values only" if parent else f"its status is {run.info.status}"
            raise TrackingError(f"run {run.info.run_id} ({run.info.run_name}) has no report, so no scores: {why}")
        kept = Path(client.download_artifacts(run.info.run_id, REPORT, folder))
        text = read_text(kept, "a report of evals.run", MOST_BYTES, TrackingError)
    origin = f"MLflow run {run.info.run_id}"
    place = {"reference": reference, "origin": origin, "name": run.info.run_name, "run_id": run.info.run_id}
    return Run.of(parse(text, origin), **place)


def read_report(file: Path) -> tuple[Report, str]:
    """Return the report of a file, and its text.

    Raises:
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
    """
    try:
        text = read_text(file, "a report of evals.run", MOST_BYTES, ReportError)
    except ReportError as error:
        near = "" if file.exists() else nearest(file.name, (other.name for other in file.parent.glob("*.json")))
        raise ReportError(f"{error}{near}") from None
    return parse(text, str(file)), text


def _find(client: "MlflowClient", reference: str, experiment: str, address: str) -> "MlflowRun":
    if RUN_ID.fullmatch(reference):
        return client.get_run(reference)
    every = {one.name: one.experiment_id for one in client.search_experiments()}
    if experiment not in every:
        near = nearest(experiment, every)
        raise TrackingError(f"MLflow at {address} has no experiment {quoted(experiment)}{near}")
    runs = client.search_runs([every[experiment]], max_results=MOST, order_by=["attributes.start_time DESC"])
    fitting = [run for run in runs if run.info.run_name == reference]
    if len(fitting) > 1:
        listed = [f"{run.info.run_id}  {_started(run)}  {run.info.status}" for run in fitting[:LISTED]]
        raise TrackingError("\n  ".join([f"{len(fitting)} runs are called {quoted(reference)}; give an id:", *listed]))
    if not fitting:
        # Cells of a grid have no report.
        runs = [run for run in runs if PARENT not in run.data.tags]
        near = nearest(reference, [name for run in runs for name in (run.info.run_name, run.info.run_id)])
        what = f"no run has the id or name {quoted(reference)} in experiment {experiment!r}"
        raise TrackingError(f"{what} at {address}, and no file is called so{near}")
    return fitting[0]


def _started(run: "MlflowRun") -> str:
    return f"{datetime.fromtimestamp(run.info.start_time / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
