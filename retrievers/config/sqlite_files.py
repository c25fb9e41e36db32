"""SQLite files that several processes read and write at once."""

import sqlite3
from pathlib import Path

from retrievers.config.file_locks import FileLock
from retrievers.config.paths import make_private

# Seconds to wait for another process that is writing.
TIMEOUT_S = 30.0


def open_sqlite(file: Path, schema: str, probe: str) -> sqlite3.Connection:
    """Open a file of our own, and make it, for its owner alone, if it is not there. Threads may share the connection.

    Args:
        file: The file.
        schema: The statement that creates the table if it is not there.
        probe: A query that fails on the file of another program, which then stays as it is.

    Raises:
        OSError: There is no such folder, and it cannot be made.
        sqlite3.Error: The file is none of ours, is damaged, or may not be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    make_private(file)
    with FileLock(file.with_name(f"{file.name}.lock"), create=True, wait=True):
        # Two processes that switch a new file to the write-ahead log at once can both fail.
        database = connect(file.absolute().as_uri())
        try:
            for statement in (schema, probe, "PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"):
                database.execute(statement)
        except BaseException:
            database.close()
            raise
    return database


def connect(address: str) -> sqlite3.Connection:
    """Connect to the file at a URI; each statement is a transaction unless one is begun."""
    return sqlite3.connect(address, timeout=TIMEOUT_S, check_same_thread=False, isolation_level=None, uri=True)
