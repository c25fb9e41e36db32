"""References to runs: the file of a report, or a run's id or name in MLflow. Nothing is written."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evals.comparison.records import Run, Tracked
from evals.errors import ReportError, TrackingError
from evals.report.model import Report
from evals.report.parsing import MOST_BYTES, cell_report, parse
from evals.tracking.store import PARENT, check_database, existing_uri, mlflow_at, server_of
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
        reference: A file, or an MLflow run's id (looked for in all experiments) or its name. An existing file comes
            first; what ends in `.json` is a file, and what follows a `#` in it a cell of its grid
            (`grid.json#k8-t0.3`).
        uri: Address of MLflow; the database under ./mlruns when None.
        experiment: Name of the experiment in which names are looked for.

    Raises:
        ConfigError: The local database is damaged.
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
        TrackingError: MLflow has no such run, or several, or it has no report; or MLflow failed.
    """
    file, is_there = Path(reference), False
    before, _, cell = reference.rpartition("#")
    with suppress(OSError, ValueError):  # the name of a run may be too long for a file name
        is_there = file.exists() and not file.is_dir()
    if before.endswith(".json") and not is_there:
        report, text = read_report(Path(before))
        made = cell_report(report, cell)
        return Run.of(made, f"{text}#{made.name}", reference=reference, origin=reference)
    if file.suffix == ".json" or is_there:
        return Run.of(*read_report(file), reference=str(file), origin=str(file))
    uri = existing_uri(uri, f"{quoted(reference)}: no such file, and no MLflow runs either")
    check_database(uri)
    with mlflow_at(uri) as client:
        run = _find(client, reference, experiment, redacted(uri))
        text = _text(client, run)
    origin = f"MLflow run {run.info.run_id}"
    tracked = Tracked(server_of(uri), run.info.experiment_id, run.info.run_id)
    place = {"reference": reference, "origin": origin, "name": run.info.run_name, "tracked": tracked}
    return Run.of(parse(text, origin), text, **place)


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
        if (first := first_of.setdefault(run.digest, run)) is not run:
            raise ReportError(
                f"{run.reference!r} and {first.reference!r} are the same run ({first.origin}); give two different ones"
            )


def _find(client: "MlflowClient", reference: str, experiment: str, address: str) -> "MlflowRun":
    every = {one.name: one.experiment_id for one in client.search_experiments()}
    newest = {"max_results": MOST, "order_by": ["attributes.start_time DESC"]}
    if RUN_ID.fullmatch(reference):
        for run in client.search_runs([*every.values()], f"attributes.run_id = '{reference}'"):
            return run
    if experiment not in every:
        near = nearest(experiment, every)
        raise TrackingError(f"MLflow at {address} has no experiment {quoted(experiment)}{near}")
    within = [every[experiment]]
    # MLflow's filter cannot hold a name with both kinds of quotes.
    quote = next((mark for mark in "'\"" if mark not in reference), "")
    named = f"attributes.run_name = {quote}{reference}{quote}" if quote else ""
    fitting = [run for run in client.search_runs(within, named, **newest) if run.info.run_name == reference]
    if len(fitting) > 1:
        listed = [_described(run) for run in fitting[:LISTED]]
        raise TrackingError("\n  ".join([f"{len(fitting)} runs are called {quoted(reference)}; give an id:", *listed]))
    if not fitting:
        # Cells of a grid have no report.
        runs = [run for run in client.search_runs(within, **newest) if PARENT not in run.data.tags]
        near = nearest(reference, [name for run in runs for name in (run.info.run_name, run.info.run_id)])
        what = f"no run has the id or name {quoted(reference)} in experiment {experiment!r}"
        raise TrackingError(f"{what} at {address}, and no file is called so{near}")
    return fitting[0]


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
