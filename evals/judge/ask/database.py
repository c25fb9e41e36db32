"""The file of the verdict store: where it is, and opening it to be written, or to be read where that is not allowed."""

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from evals.config.judge import JudgeConfig
from evals.judge.ask import leases
from evals.judge.ask.store_faults import is_forbidden
from retrievers.config.private_files import make_private

log = logging.getLogger(__name__)
SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, kind TEXT NOT NULL, answer TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL
) WITHOUT ROWID
"""
COLUMNS = "key, model, kind, answer, tokens_in, tokens_out, created, used"


def store_file(config: JudgeConfig, env: Mapping[str, str]) -> Path:
    """Where verdicts are kept: the configured file, else one in the user's cache folder."""
    home = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return config.cache_path or home / "retrieval-evals" / "verdicts.sqlite"


def open_database(file: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the file, and make it if it is not there; the database, and whether it may only be read.

    Raises:
        OSError: There is no such folder, and it cannot be made.
        sqlite3.Error: The file is none of ours, is damaged, or may not even be read.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        make_private(file)
        with FileLock(f"{file}.lock"):  # two processes that switch a new file to WAL at once can both fail
            return _writable(file), False
    except (OSError, sqlite3.Error) as error:
        if not (is_forbidden(error) and file.is_file()):
            raise
        log.info("the verdict store %s may not be written, and is only read: %s", file, error)
    address = file.resolve().as_uri()
    try:
        return _checked(_connection(f"{address}?mode=ro")), True
    except sqlite3.OperationalError:  # a folder that may not be written holds no index of the write-ahead log
        return _checked(_connection(f"{address}?immutable=1")), True


def _writable(file: Path) -> sqlite3.Connection:
    database = _connection(file.absolute().as_uri())
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(SCHEMA)
    except BaseException:
        database.close()
        raise
    _checked(database).execute(leases.SCHEMA)
    database.execute("PRAGMA synchronous=NORMAL")
    return database


def _checked(database: sqlite3.Connection) -> sqlite3.Connection:
    """The database, if it holds verdicts: a file of another program stays as it is."""
    try:
        database.execute(f"SELECT {COLUMNS} FROM verdicts LIMIT 1")
    except BaseException:
        database.close()
        raise
    return database


def _connection(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, timeout=30, check_same_thread=False, isolation_level=None, uri=True)
