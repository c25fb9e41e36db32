"""The store of runs: a database with a folder of artifacts below `FOLDER`, or the one at a given address.

MLflow prints nothing here, and its errors become errors of `evals`. A reference to a run is the file of a report, or
the id or name of a run in MLflow. Reading a run writes nothing.
"""

import contextlib
import logging
import os
import re
import shlex
import sqlite3
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from evals.config.experiment import TrackingConfig
from evals.config.files import probe
from evals.errors import ReportError, TrackingError
from retrievers.config.files import file_lock, read_text
from retrievers.errors import ConfigError, RetrievalError, nearest
from retrievers.text.shown import quoted, redacted, remember_password

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

    from evals.comparison.records import Run
    from evals.report.model import Report

FOLDER = Path("mlruns")
DATABASE = FOLDER / "mlflow.db"
# Tag of a run below another run: the id of that run.
PARENT = "mlflow.parentRunId"
SQLITE = "sqlite:///"
# MLflow must not send telemetry, and not print an address, which may have credentials.
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
# Nor must it wait for a server for minutes in a run. Variables of the user go before these.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# Name of the report among the artifacts of a run.
REPORT = "report.json"
RUN_ID = re.compile(r"[0-9a-f]{32}")
# Most runs among which a name is looked for, the newest first.
MOST = 1_000
# Most runs of one name that a message lists.
LISTED = 10


def check_store(config: TrackingConfig) -> None:
    """Make sure that runs can be written to a local store. MLflow is not imported, and nothing is left behind.

    Raises:
        ConfigError: The address is a path, or the local folder cannot be written, or was copied or moved.
    """
    if tracking_uri(config.uri) == config.uri:
        return
    try:
        probe(FOLDER)
        if DATABASE.exists():  # MLflow would try to open it for two minutes
            DATABASE.open("ab").close()
    except OSError as error:
        place = DATABASE if DATABASE.exists() else FOLDER
        raise ConfigError(
            f"{place}: cannot be written ({error.strerror}); runs are logged there: free it, name another store with "
            "--tracking.uri, or switch it off with --tracking.enabled false"
        ) from error
    _check_place(config.experiment)


def tracking_uri(given: str | None = None) -> str:
    """Return the given address of a store, or that of the database below `FOLDER`.

    Raises:
        ConfigError: The given address is a path, where MLflow writes no runs any more.
    """
    if given and "://" not in given and not given.startswith("databricks"):
        expected = "tracking.uri: expected an address such as sqlite:///mlflow.db"
        raise ConfigError(f"{expected}, got {quoted(given)} (evals.run --tracking.enabled false logs nothing)")
    return given or sqlite_uri(DATABASE.resolve())


def sqlite_uri(file: Path) -> str:
    """Return the address of a database, in which `%` begins an escape and `?` the options."""
    return SQLITE + str(file).replace("%", "%25").replace("?", "%3F")


def existing_uri(uri: str | None, what: str) -> str:
    """Return the address of a store (by default the local database) after checking that a local database exists.

    Args:
        uri: The address; None for the local database.
        what: What is looked for, for the message.

    Raises:
        ConfigError: The address is a path.
        TrackingError: The database does not exist. MLflow would make it.
    """
    uri = tracking_uri(uri)
    if (file := database_file(uri)) is not None and not file.is_file():
        raise TrackingError(
            f"{what}: {file} does not exist; go where evals.run was started, or name the store with --tracking.uri"
        )
    return uri


def database_file(uri: str) -> Path | None:
    """Return the file of an SQLite address; None for any other address."""
    return Path(unquote(uri.removeprefix(SQLITE).partition("?")[0])) if uri.startswith(SQLITE) else None


@contextlib.contextmanager
def mlflow_at(uri: str, *, writing: bool = False) -> Iterator["MlflowClient"]:
    """Yield a client of MLflow that prints nothing. Errors within the block become errors of `evals`.

    Args:
        uri: The address.
        writing: Let no other process write to the database meanwhile. Two that create it at once can break it for good.

    Raises:
        TrackingError: MLflow failed within the block.
    """
    os.environ.update(QUIET)
    remember_password(uri)
    try:
        # The import of MLflow sets the levels of the loggers that are silenced.
        from mlflow import MlflowClient

        with _silence(), contextlib.ExitStack() as stack:
            if writing and (file := database_file(uri)) is not None:  # a server needs no lock
                file.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(file_lock(file.with_name(f".{file.name}.lock")))
                if not file.exists():
                    _make_database(file)
            yield MlflowClient(tracking_uri=uri)
    except RetrievalError:
        raise
    except Exception as error:  # MLflow raises its own errors, and those of SQLAlchemy and requests
        cause = redacted(next(iter(str(error).strip().splitlines()), ""))[:600]
        raise TrackingError(f"MLflow at {redacted(uri)} failed: {type(error).__name__}: {cause}") from error


def _make_database(file: Path) -> None:
    """Make a database under a new name, and move it when it is finished.

    MLflow can neither finish nor replace a database that an interrupted run has begun to make.
    """
    from mlflow import MlflowClient

    new = file.with_name(f".{file.name}.new.{time.time_ns()}")
    try:
        MlflowClient(tracking_uri=sqlite_uri(new)).search_experiments(max_results=1)
        new.replace(file)
    finally:  # of this one, if the disk is full, and of one that was killed
        for unfinished in file.parent.glob(f".{file.name}.new.*"):
            unfinished.unlink()


def ui_command(uri: str | None) -> str:
    """Return the command that shows the runs of a database."""
    return f"python -m evals ui{f' --tracking.uri {shlex.quote(redacted(uri))}' if uri else ''}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep warnings, and the logs of MLflow, alembic and SQLAlchemy, off the terminal, and wait as `PATIENCE` says."""
    ours = {name: value for name, value in PATIENCE.items() if name not in os.environ}
    levels = {logger: logger.level for logger in map(logging.getLogger, ("mlflow", "alembic", "sqlalchemy"))}
    try:
        os.environ.update(ours)
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for name in ours:
            os.environ.pop(name, None)  # another thread may have set it, too
        for logger, level in levels.items():
            logger.setLevel(level)


def _check_place(experiment: str) -> None:
    """Refuse a store that was copied or moved: MLflow would go on writing artifacts into the folder of the original."""
    place = expected = (FOLDER / "artifacts").resolve()
    query = "SELECT artifact_location FROM experiments WHERE name = ?"
    with contextlib.suppress(sqlite3.DatabaseError):  # it does not exist yet, is locked, or lacks MLflow's tables
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(DATABASE))}?mode=ro", uri=True)) as connection:
            for (uri,) in connection.execute(query, [experiment]):
                place = Path(unquote(urlsplit(uri).path))
    # If the folder of artifacts has another name, the user has chosen its place.
    if place.parts[-2:] != expected.parts[-2:] or place.resolve() == expected:
        return
    raise ConfigError(
        f"{DATABASE}: was copied or moved: it keeps the artifacts of experiment {experiment!r} in {place}, expected "
        f"{expected}; move {FOLDER} away, and the next run begins a new store"
    )


def open_run(reference: str, uri: str | None, experiment: str) -> "Run":
    """Find a run and read its report.

    Args:
        reference: File of a report, its folder, or a cell of its grid (`grid.json#k8-t0.3`); or the id of a run in
            MLflow, in any experiment, or its name. An existing file goes before a run; a reference that ends in `.json`
            is a file.
        uri: Address of MLflow; None for the database under ./mlruns.
        experiment: Name of the experiment in which names are looked for.

    Raises:
        ReportError: The file is missing or unreadable, or its report cannot be read.
        TrackingError: MLflow has no such run, or several, or the run has no report; or MLflow failed.
    """
    from evals.comparison.records import Run
    from evals.report.parsing import MOST_BYTES, cell_report, parse

    file, is_file = Path(reference), False
    before, _, cell = reference.rpartition("#")
    with suppress(OSError, ValueError):  # the name of a run may be too long for a file name
        file = file / REPORT if (file / REPORT).is_file() else file
        is_file = file.exists() and not file.is_dir()
    if before.endswith(".json") and not is_file:
        return Run.of(cell_report(read_report(Path(before))[0], cell), reference=reference, origin=reference)
    if reference.endswith(".json") or is_file:
        return Run.of(read_report(file)[0], reference=str(file), origin=str(file))
    uri = existing_uri(uri, f"{quoted(reference)}: no such file, and no MLflow runs either")
    with mlflow_at(uri) as client, TemporaryDirectory() as folder:
        run = _find(client, reference, experiment, redacted(uri))
        if REPORT not in {item.path for item in client.list_artifacts(run.info.run_id)}:
            parent = run.data.tags.get(PARENT)
            why = f"it is a part of run {parent}, and has values only" if parent else f"its status is {run.info.status}"
            raise TrackingError(f"run {run.info.run_name} has no report in {run.info.artifact_uri}: {why}")
        copy = Path(client.download_artifacts(run.info.run_id, REPORT, folder))
        text = read_text(copy, "a report of evals.run", MOST_BYTES, TrackingError)
    origin = f"MLflow run {run.info.run_id}"
    place = {"reference": reference, "origin": origin, "name": run.info.run_name, "run_id": run.info.run_id}
    return Run.of(parse(text, origin), **place)


def read_report(file: Path) -> tuple["Report", str]:
    """Return the report of a file, and its text.

    Raises:
        ReportError: The file is missing or unreadable, or its report cannot be read.
    """
    from evals.report.parsing import MOST_BYTES, parse

    try:
        text = read_text(file, "a report of evals.run", MOST_BYTES, ReportError)
    except ReportError as error:
        near = "" if file.exists() else nearest(file.name, (other.name for other in file.parent.glob("*.json")))
        raise ReportError(f"{error}{near}") from None
    return parse(text, str(file)), text


def _find(client: "MlflowClient", reference: str, experiment: str, address: str) -> "MlflowRun":
    if RUN_ID.fullmatch(reference):
        return client.get_run(reference)
    ids = {entry.name: entry.experiment_id for entry in client.search_experiments()}
    if experiment not in ids:
        near = nearest(experiment, ids)
        raise TrackingError(f"MLflow at {address} has no experiment {quoted(experiment)}{near}")
    runs = client.search_runs([ids[experiment]], max_results=MOST, order_by=["attributes.start_time DESC"])
    fitting = [run for run in runs if run.info.run_name == reference]
    if len(fitting) > 1:
        listed = []
        for run in fitting[:LISTED]:
            started = datetime.fromtimestamp(run.info.start_time / 1000, UTC)
            listed.append(f"{run.info.run_id}  {started:%Y-%m-%d %H:%M:%S} UTC  {run.info.status}")
        raise TrackingError("\n  ".join([f"{len(fitting)} runs are called {quoted(reference)}; give an id:", *listed]))
    if not fitting:
        # The cells of a grid, which have no report, are not proposed.
        runs = [run for run in runs if PARENT not in run.data.tags]
        near = nearest(reference, [name for run in runs for name in (run.info.run_name, run.info.run_id)])
        what = f"no run has the id or name {quoted(reference)} in experiment {experiment!r}"
        raise TrackingError(f"{what} at {address}, and no file is called so{near}")
    return fitting[0]
