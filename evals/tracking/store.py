"""The store of runs: a database with a folder of artifacts below `FOLDER`, or an address.

MLflow is spoken to in silence, and its errors are ours.
"""

import contextlib
import logging
import os
import shlex
import sqlite3
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
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
SQLITE = "sqlite:///"
# MLflow must neither phone home, nor print the run's address, with any credentials, nor wait for a server for minutes.
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def check_store(config: TrackingConfig) -> None:
    """Make sure, without MLflow, that runs can be written; leaves nothing behind.

    Raises:
        ConfigError: The local folder cannot be written, or has been copied or moved.
    """
    if config.uri:
        return
    try:
        probe(FOLDER)
    except OSError as error:
        raise ConfigError(
            f"{FOLDER}: cannot be written ({error.strerror}); runs are logged there: free it, name another store with "
            "--tracking.uri, or switch it off with --tracking.enabled false"
        ) from error
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


def database_file(uri: str) -> Path | None:
    """Return the file of an SQLite address, None for any other."""
    return Path(uri.removeprefix(SQLITE).partition("?")[0]) if uri.startswith(SQLITE) else None


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
        raise TrackingError(f"MLflow at {redacted(uri)} failed: {type(error).__name__}: {cause}") from error


def ui_command(uri: str | None) -> str:
    """Return the command that shows the runs of a store without a server."""
    return f"python -m evals ui{f' --tracking.uri {shlex.quote(redacted(uri))}' if uri else ''}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep warnings, and what MLflow, alembic and SQLAlchemy log with tracebacks, off the terminal."""
    levels = {logger: logger.level for logger in map(logging.getLogger, ("mlflow", "alembic", "sqlalchemy"))}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _check_place(experiment: str) -> None:
    """Refuse a store that was copied or moved: MLflow goes on writing artifacts into the folder that it was made in."""
    database, expected = FOLDER / "mlflow.db", (FOLDER / "artifacts").resolve()
    asked, place = "SELECT artifact_location FROM experiments WHERE name = ?", expected
    with contextlib.suppress(sqlite3.DatabaseError):  # none yet, locked, or without MLflow's tables
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True)) as opened:
            for (uri,) in opened.execute(asked, [experiment]):
                place = Path(unquote(urlsplit(uri).path))
    # One that was never below a folder of this name was put elsewhere by its user.
    if place.parts[-2:] != expected.parts[-2:] or place.resolve() == expected:
        return
    raise ConfigError(
        f"{database}: was copied or moved: it keeps the artifacts of experiment {experiment!r} in {place}, expected "
        f"{expected}; move {FOLDER} away, and the next run begins a new store"
    )


def _lock_of(uri: str) -> contextlib.AbstractContextManager[object]:
    """Return the lock of a database, whose folder is made; a server locks on its own."""
    file = database_file(uri)
    if file is None:
        return contextlib.nullcontext()
    file.parent.mkdir(parents=True, exist_ok=True)
    return file_lock(file.with_name(f".{file.name}.lock"))
