"""The local store of runs, used when no server is named: a database and a folder of artifacts below `FOLDER`."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from evals.config.experiment import TrackingConfig
from evals.config.files import probe
from retrievers.config.file_locks import FileLock
from retrievers.errors import ConfigError

FOLDER = Path("mlruns")
# Longest time of a check of the database, in seconds; enough for about 400 MB.
MAX_CHECK_S = 2.0
# Number of instructions of SQLite's engine between two checks of the time.
STEPS = 100_000


def local_uri(folder: Path) -> str:
    """Return the database below a folder, which is made where there is none.

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
    fault = _quick_check(file)
    if fault:
        raise ConfigError(
            f"{file}: the database of MLflow is damaged ({fault}); restore it from a copy, get out what can be read "
            f"(sqlite3 {file.name} .recover | sqlite3 new.db), or move it away: then the next run begins a new one"
        )


def database_file(uri: str) -> Path | None:
    """Return the file of an SQLite address, None for any other."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def _quick_check(file: Path) -> str:
    """Return the first fault that SQLite finds within the time; empty where it finds none."""
    end = time.monotonic() + MAX_CHECK_S
    address = f"file:{quote(str(file))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=MAX_CHECK_S)) as database:
            # A true value interrupts the check: a huge database is checked in part.
            database.set_progress_handler(lambda: time.monotonic() > end, STEPS)
            [(answer,)] = database.execute("PRAGMA quick_check(1)")
    except sqlite3.OperationalError:  # out of time, locked by a writer, or unreadable
        return ""
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if answer == "ok" else " ".join(answer.replace("*** in database main ***", "").split())


@contextlib.contextmanager
def creation_lock(config: TrackingConfig) -> Iterator[None]:
    """Lock the creation of the database, which two processes at once can break for good; a server locks on its own."""
    file = database_file(config.uri) if config.uri else None
    if config.uri and file is None:
        yield
        return
    lock = file.with_name(f"{file.name}.lock") if file else FOLDER / ".mlflow.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock, create=True, wait=True):
        yield
