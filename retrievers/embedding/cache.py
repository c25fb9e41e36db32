"""Vectors on disk. A kept vector is bytes of floats: loading it executes nothing."""

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from retrievers.config.files import open_sqlite, user_cache
from retrievers.errors import ConfigError

log = logging.getLogger(__name__)
SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL)"


class EmbeddingCache:
    """Vectors of queries and of stored texts in one SQLite file; safe among threads and processes.

    The key holds provider, model, input type and text, so no model is ever answered with another's vector.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._db = open_sqlite(file, SCHEMA, "SELECT key, vector FROM vectors LIMIT 1")
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"the file of kept vectors {file} cannot be used ({error}); delete it") from error

    def get(self, *key: str) -> list[float] | None:
        """Return the vector of a key, None when it is not there."""
        rows = self._done("SELECT vector FROM vectors WHERE key = ?", (_digest(key),))
        vector: list[float] | None = np.frombuffer(rows[0][0], dtype="<f8").tolist() if rows else None
        return vector

    def put(self, vector: list[float], *key: str) -> None:
        """Keep a vector under a key."""
        entry = (_digest(key), np.asarray(vector, dtype="<f8").tobytes())
        self._done("INSERT OR REPLACE INTO vectors VALUES (?, ?)", entry)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _done(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        """Return the rows of a statement; none if the file fails: the work goes on without kept vectors."""
        try:
            with self._lock:
                return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            log.warning("the file of kept vectors failed and is passed by: %s", error)
            return []


def open_embedding_cache(env: Mapping[str, str], *, hosted: bool) -> EmbeddingCache | None:
    """Open the user's file of vectors; None for models that run here, which are faster, or not known by their names.

    Raises:
        ConfigError: The file cannot be used.
    """
    return EmbeddingCache(user_cache(env) / "vectors.sqlite") if hosted else None


def _digest(key: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()
