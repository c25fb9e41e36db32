"""Chunks and vectors of a corpus that is too large for memory, in a temporary SQLite file while it is indexed."""

import pickle
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, overload

from retrievers.errors import IndexingError
from retrievers.records import Chunk

READ_AT_ONCE = 1_000


class DiskMapping(MutableMapping[str, Any]):
    """A table of values by key, in the order in which they came."""

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self._database, self._name = database, name
        database.execute(f"CREATE TABLE {name} (number INTEGER PRIMARY KEY, key TEXT UNIQUE, value BLOB)")

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key."""
        row = self._database.execute(f"SELECT value FROM {self._name} WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return pickle.loads(row[0])

    def __setitem__(self, key: str, value: Any) -> None:
        """Set the value of a key."""
        self._database.execute(
            f"INSERT OR REPLACE INTO {self._name} (key, value) VALUES (?, ?)", (key, pickle.dumps(value))
        )

    def __delitem__(self, key: str) -> None:
        """Remove a key."""
        self._database.execute(f"DELETE FROM {self._name} WHERE key = ?", (key,))

    def __contains__(self, key: object) -> bool:
        """Return True if there is such a key."""
        return self._database.execute(f"SELECT 1 FROM {self._name} WHERE key = ?", (key,)).fetchone() is not None

    def __iter__(self) -> Iterator[str]:
        """Return all keys."""
        return (key for (key,) in self._database.execute(f"SELECT key FROM {self._name} ORDER BY number"))

    def __len__(self) -> int:
        """Return the number of keys."""
        [count] = self._database.execute(f"SELECT count(*) FROM {self._name}").fetchone()
        return int(count)

    def items(self) -> Any:
        """Return keys and values, without keeping them."""
        rows = self._database.execute(f"SELECT key, value FROM {self._name} ORDER BY number")
        return ((key, pickle.loads(value)) for key, value in rows)

    def values(self) -> Any:
        """Return the values, without keeping them."""
        return (value for _, value in self.items())


class DiskChunks(Sequence[Chunk]):
    """Chunks by their number; some of them, where `numbers` are given."""

    def __init__(self, database: sqlite3.Connection, numbers: Sequence[int]) -> None:
        self._database, self._numbers = database, numbers

    @classmethod
    def of(cls, database: sqlite3.Connection, chunks: Iterable[Chunk]) -> "DiskChunks":
        """Store chunks."""
        database.execute("CREATE TABLE chunks (number INTEGER PRIMARY KEY, chunk BLOB)")
        database.executemany("INSERT INTO chunks (chunk) VALUES (?)", ((pickle.dumps(chunk),) for chunk in chunks))
        [count] = database.execute("SELECT count(*) FROM chunks").fetchone()
        return cls(database, range(1, count + 1))

    def at(self, places: Sequence[int]) -> "DiskChunks":
        """Return the chunks at some places of this sequence."""
        return DiskChunks(self._database, array("q", (self._numbers[index] for index in places)))

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Chunk: ...

    @overload
    def __getitem__(self, index: slice) -> "DiskChunks": ...

    def __getitem__(self, index: int | slice) -> "Chunk | DiskChunks":
        """Return a chunk, or a stretch of them."""
        if isinstance(index, slice):
            return DiskChunks(self._database, self._numbers[index])
        return next(self._read([self._numbers[index]]))

    def __iter__(self) -> Iterator[Chunk]:
        """Return all chunks, in batches from the disk."""
        for start in range(0, len(self._numbers), READ_AT_ONCE):
            yield from self._read(self._numbers[start : start + READ_AT_ONCE])

    def _read(self, numbers: Sequence[int]) -> Iterator[Chunk]:
        marks = ",".join("?" * len(numbers))
        query = f"SELECT chunk FROM chunks WHERE number IN ({marks}) ORDER BY number"
        return (pickle.loads(blob) for (blob,) in self._database.execute(query, list(numbers)).fetchall())


@contextmanager
def disk_tables() -> Iterator[sqlite3.Connection]:
    """Open a database of temporary tables, which is gone at the end.

    Raises:
        IndexingError: There is no room for it.
    """
    with TemporaryDirectory(prefix="retrieval-evals-", ignore_cleanup_errors=True) as folder:
        database = sqlite3.connect(Path(folder) / "tables", isolation_level=None)
        try:
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
                database.execute(f"PRAGMA {setting}")
            database.execute("BEGIN")
            yield database
        except sqlite3.OperationalError as error:
            raise IndexingError(f"{folder}: {error}; TMPDIR names a folder with more room") from error
        finally:
            database.close()
