"""The file of the verdict store: its path, and opening it for writing, or for reading alone where it is read-only."""

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from evals.config.judge import JudgeConfig
from evals.judge.ask import leases
from evals.judge.ask.store_faults import is_forbidden
from retrievers.config.files import connect, open_sqlite, user_cache

log = logging.getLogger(__name__)
SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, kind TEXT NOT NULL, answer TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL
) WITHOUT ROWID
"""
COLUMNS = "key, model, kind, answer, tokens_in, tokens_out, created, used"
PROBE = f"SELECT {COLUMNS} FROM verdicts LIMIT 1"


def store_file(config: JudgeConfig, env: Mapping[str, str]) -> Path:
    """Return the path of the verdict store: the configured file, else one in the user's cache folder."""
    return config.cache_path or user_cache(env) / "verdicts.sqlite"


def open_database(file: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the file, and make it if it is not there; the database, and whether it may only be read.

    Raises:
        OSError: There is no such folder, and it cannot be made.
        sqlite3.Error: The file is none of ours, is damaged, or may not even be read.
    """
    try:
        database = open_sqlite(file, SCHEMA, PROBE)
        database.execute(leases.SCHEMA)
        return database, False
    except (OSError, sqlite3.Error) as error:
        if not (is_forbidden(error) and file.is_file()):
            raise
        log.info("the verdict store %s may not be written, and is only read: %s", file, error)
    address = file.resolve().as_uri()
    try:
        return _readable(f"{address}?mode=ro"), True
    except sqlite3.OperationalError:  # a folder that may not be written holds no index of the write-ahead log
        return _readable(f"{address}?immutable=1"), True


def _readable(address: str) -> sqlite3.Connection:
    database = connect(address)
    try:
        database.execute(PROBE)
    except BaseException:
        database.close()
        raise
    return database
