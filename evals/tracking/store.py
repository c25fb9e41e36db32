"""The store of runs: a database with a folder of artifacts below `FOLDER`, or an address.

MLflow is spoken to in silence, and its errors are ours.
"""

import contextlib
import logging
import os
import re
import shlex
import sqlite3
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from evals.config.experiment import TrackingConfig
from evals.config.files import probe
from evals.errors import TrackingError
from retrievers.config.files import file_lock
from retrievers.errors import ConfigError, RetrievalError
from retrievers.text.secrets import redacted, remember_password

if TYPE_CHECKING:
    from mlflow import MlflowClient

FOLDER = Path("mlruns")
# Tag of a run below another one.
PARENT = "mlflow.parentRunId"
PORT = 5000
# Where `evals ui` shows the local runs.
LOCAL = f"http://127.0.0.1:{PORT}"
SQLITE = "sqlite:///"
# Longest time of a check of the database, in seconds, which is enough for about 400 MB.
MAX_CHECK_S = 2.0
# Instructions of SQLite between two looks at the clock.
STEPS = 100_000
# MLflow must neither phone home, nor print the run's address, with any credentials, nor wait for a server for minutes.
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# MLflow's names for the statuses 401 and 403, and how it writes them where the answer is not its own.
REFUSED = re.compile(
    r"error code 40[13]\b|\b40[13] Client Error|unauthori[sz]ed|unauthenticated|permission_denied|forbidden", re.I
)
CREDENTIALS = (
    "; credentials are taken from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or from MLFLOW_TRACKING_TOKEN"
)


def check_store(config: TrackingConfig) -> None:
    """Make sure, without MLflow, that runs can be written; leaves nothing behind.

    Raises:
        ConfigError: The local folder cannot be written, or has been copied or moved; or a database is damaged.
    """
    if config.uri:
        check_database(config.uri)
        return
    try:
        probe(FOLDER)
    except OSError as error:
        raise ConfigError(
            f"{FOLDER}: cannot be written ({error.strerror}); runs are logged there: free it, name another store with "
            "--tracking.uri, or switch it off with --tracking.enabled false"
        ) from error
    check_database(None)
    _check_place(config.experiment)


def local_uri() -> str:
    """Return the address of the database below `FOLDER`."""
    return f"{SQLITE}{(FOLDER / 'mlflow.db').resolve()}"


def existing_uri(uri: str | None, what: str) -> str:
    """Return the tracking address (by default the local database), after checking that a local database exists.

    Raises:
        TrackingError: It is not; MLflow would make it. `what` was looked for.
    """
    uri = uri or local_uri()
    if (file := database_file(uri)) is not None and not file.is_file():
        raise TrackingError(
            f"{what}: {file} does not exist; go where evals.run was started, or name the store with --tracking.uri"
        )
    return uri


def check_database(uri: str | None) -> None:
    """Make sure that an SQLite database that is there, the local one or that of an address, is whole.

    SQLite reads on over damaged pages that it does not need: runs would be logged, and older ones lost.

    Raises:
        ConfigError: Pages of it are damaged, or it is no database.
    """
    file = database_file(uri or local_uri())
    if file is None or not file.is_file():
        return
    try:
        [(fault,)] = query(file, "PRAGMA quick_check(1)")
    except sqlite3.OperationalError:  # out of time, locked by a writer, or unreadable
        return
    except sqlite3.DatabaseError as error:
        fault = error
    if fault != "ok":
        raise ConfigError(
            f"{file}: the database of MLflow is damaged ({' '.join(str(fault).split())}); get out what can be read "
            f"(sqlite3 {file.name} .recover | sqlite3 new.db), or move it away: then the next run begins a new one"
        )


def database_file(uri: str) -> Path | None:
    """Return the file of an SQLite address, None for any other."""
    return Path(uri.removeprefix(SQLITE).partition("?")[0]) if uri.startswith(SQLITE) else None


def query(database: Path, statement: str, *values: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that only reads, within a time.

    Raises:
        sqlite3.DatabaseError: It is damaged, or no database; an `OperationalError` where there is no time, or no table.
    """
    end = time.monotonic() + MAX_CHECK_S
    address = f"file:{quote(str(database))}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=MAX_CHECK_S)) as opened:
        # A true value interrupts the statement: a huge database is checked in part.
        opened.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        return opened.execute(statement, values).fetchall()


@contextlib.contextmanager
def mlflow_at(uri: str, *, writing: bool = False) -> Iterator["MlflowClient"]:
    """Yield a client of MLflow that prints nothing and whose errors are ours.

    Args:
        uri: The address.
        writing: Let no other process write to a database meanwhile; two that create one at once can break it for good.

    Raises:
        TrackingError: MLflow failed within the block.
    """
    os.environ.update(QUIET | {name: value for name, value in PATIENCE.items() if name not in os.environ})
    remember_password(uri)
    try:
        # The import of MLflow sets the levels of the loggers that are silenced.
        from mlflow import MlflowClient

        with _silence(), _lock_of(uri) if writing else contextlib.nullcontext():
            if writing and (file := database_file(uri)) is not None and not file.exists():
                # MLflow cannot finish what an interrupted run began to make, nor make it twice under one name.
                for begun in file.parent.glob(f".{file.name}.new.*"):
                    begun.unlink()
                new = file.with_name(f".{file.name}.new.{time.time_ns()}")
                MlflowClient(tracking_uri=f"{SQLITE}{new}").search_experiments(max_results=1)
                new.replace(file)
            yield MlflowClient(tracking_uri=uri)
    except RetrievalError:
        raise
    except Exception as error:  # MLflow raises its own, SQLAlchemy's and requests' errors
        cause = redacted(next(iter(str(error).strip().splitlines()), ""))[:300]
        remedy = CREDENTIALS if REFUSED.search(f"{cause} {getattr(error, 'error_code', '')}") else ""
        raise TrackingError(f"MLflow at {redacted(uri)} failed: {type(error).__name__}: {cause}{remedy}") from error


def server_of(uri: str | None) -> str:
    """Return the address of the user interface for a store: that of a server, or the one of `evals ui`."""
    return redacted(uri).rstrip("/") if uri and uri.startswith(("http://", "https://")) else LOCAL


def ui_command(uri: str | None) -> str:
    """Return the command that shows the runs of a store without a server."""
    command = "retrieval-evals" if Path(sys.argv[0]).name == "retrieval-evals" else "python -m evals"
    return f"{command} ui{f' --tracking.uri {shlex.quote(redacted(uri))}' if uri else ''}"


def run_page(server: str, experiment_id: str, run_id: str, baseline_id: str = "") -> str:
    """Return the address of a run, or of a run beside a baseline, query by query."""
    beside = f"/evaluations?compareToRunUuid={baseline_id}" if baseline_id else ""
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}{beside}"


def _check_place(experiment: str) -> None:
    """Refuse a store that was copied or moved: MLflow goes on writing artifacts into the folder that it was made in."""
    database, expected = FOLDER / "mlflow.db", (FOLDER / "artifacts").resolve()
    rows: list[tuple[Any, ...]] = []
    with contextlib.suppress(sqlite3.DatabaseError):  # none yet, locked, or without MLflow's tables
        rows = query(database, "SELECT artifact_location FROM experiments WHERE name = ?", experiment)
    place = next((Path(unquote(urlsplit(uri).path)) for (uri,) in rows if uri.startswith("file:")), expected)
    # One that was never below a folder of this name was put elsewhere by its user.
    if place.parts[-2:] != expected.parts[-2:] or place.resolve() == expected:
        return
    old, new = place.parent.as_uri(), expected.parent.as_uri()
    moving = " ".join(
        f"UPDATE {table} SET {column} = replace({column}, '{old}/', '{new}/');"
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri"))
    )
    raise ConfigError(
        f"{database}: was copied or moved: it keeps the artifacts of experiment {experiment!r} in {place}, expected "
        f"{expected}; move {FOLDER} away, and the next run begins a new store, or tell the database where it is: "
        f'sqlite3 {database} "{moving}"'
    )


def _lock_of(uri: str) -> contextlib.AbstractContextManager[object]:
    """Return the lock of a database, whose folder is made; a server locks on its own."""
    file = database_file(uri)
    if file is None:
        return contextlib.nullcontext()
    file.parent.mkdir(parents=True, exist_ok=True)
    return file_lock(file.with_name(f".{file.name}.lock"))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep warnings, and what MLflow, alembic and SQLAlchemy log with tracebacks, off the terminal."""
    levels = {logger: logger.level for logger in map(logging.getLogger, ("mlflow", "alembic", "sqlalchemy"))}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
