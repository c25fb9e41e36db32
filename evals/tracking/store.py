"""Where runs are kept when no server is named: a database and a folder of artifacts below `FOLDER`."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from evals.config.experiment import TrackingConfig
from evals.config.files import probe
from retrievers.errors import ConfigError

FOLDER = Path("mlruns")
MAX_CHECK_S = 2.0
"""Longest time that reading a database through may take, enough for some 400 MB."""
STEPS = 100_000
"""Of SQLite's engine, after which the time is looked at."""


def local_uri(folder: Path) -> str:
    """The database below a folder, which is made where there is none.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}"


def check_folder(folder: Path) -> None:
    """Make sure that runs can be kept in a folder; leaves nothing behind.

    Raises:
        ConfigError: It cannot be made or written to.
    """
    try:
        probe(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be written ({error.strerror}); runs are logged there: free it, name another store with "
            "--tracking.uri, or switch it off with --tracking.enabled false"
        ) from error


def check_database(uri: str | None) -> None:
    """Make sure that an SQLite database that is there, MLflow's own or the one of an address, is whole.

    SQLite reads on over damaged pages that it does not need: runs would be logged, and older ones lost.

    Raises:
        ConfigError: Pages of it are damaged, or it is no database.
    """
    file = FOLDER / "mlflow.db" if uri is None else database_file(uri)
    if file is None or not file.is_file():
        return
    found = _quick_check(file)
    if found:
        raise ConfigError(
            f"{file}: the database of MLflow is damaged ({found}); restore it from a copy, get out what can be read "
            f"(sqlite3 {file.name} .recover | sqlite3 new.db), or move it away: then the next run begins a new one"
        )


def database_file(uri: str) -> Path | None:
    """The file of an SQLite address, None for any other."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def _quick_check(file: Path) -> str:
    """The first fault that SQLite finds within the time; empty where it finds none."""
    end = time.monotonic() + MAX_CHECK_S
    address = f"file:{quote(str(file))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=MAX_CHECK_S)) as database:
            database.set_progress_handler(lambda: time.monotonic() > end, STEPS)
            [(said,)] = database.execute("PRAGMA quick_check(1)")
    except sqlite3.OperationalError:  # out of time, locked by somebody who writes to it, or not to be read
        return ""
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if said == "ok" else " ".join(said.replace("*** in database main ***", "").split())


@contextlib.contextmanager
def creation_lock(config: TrackingConfig) -> Iterator[None]:
    """Let nobody else create the database meanwhile, which two at once can break for good; a server locks by itself."""
    file = database_file(config.uri) if config.uri else None
    if config.uri and file is None:
        yield
        return
    from filelock import FileLock

    place = file.with_name(f"{file.name}.lock") if file else FOLDER / ".mlflow.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place):
        yield
