"""Query vectors on disk and results in memory. A cached vector is bytes of floats: loading it executes nothing."""

import hashlib
import json
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from cachetools import TTLCache

from retrievers.config.files import open_sqlite, user_cache
from retrievers.errors import ConfigError

log = logging.getLogger(__name__)
# Seconds a query vector is kept.
KEPT_S = 3600.0
Value = TypeVar("Value")
SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, created REAL NOT NULL)"


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheStats:
    """Numbers of look-ups and hits of a cache."""

    hits: int
    misses: int

    @property
    def rate(self) -> float | None:
        """Hits per question, None when nothing was asked."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else None


class EmbeddingCache:
    """Query vectors in one SQLite file, kept for `ttl_s` seconds; safe among threads and processes.

    The key holds provider, model, input type and text, so no model is ever answered with another's vector.
    """

    def __init__(self, file: Path, ttl_s: float, clock: Callable[[], float] = time.time) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._hits = self._misses = 0
        try:
            self._db = open_sqlite(file, SCHEMA, "SELECT key, vector, created FROM vectors LIMIT 1")
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"the cache of query vectors {file} cannot be used ({error}); make it writable, or delete it"
            ) from error
        self._done("DELETE FROM vectors WHERE created < ?", (clock() - ttl_s,))

    @property
    def stats(self) -> CacheStats:
        """Numbers of look-ups and hits."""
        return CacheStats(hits=self._hits, misses=self._misses)

    def get(self, *key: str) -> list[float] | None:
        """Return the vector of a key, None when it is not there or too old."""
        query, oldest = "SELECT vector FROM vectors WHERE key = ? AND created >= ?", self._clock() - self._ttl_s
        with self._lock:
            rows = self._done(query, (_digest(key), oldest))
            vector = _floats(rows[0][0]) if rows else None
            self._hits += vector is not None
            self._misses += vector is None
        return vector

    def put(self, vector: list[float], *key: str) -> None:
        """Keep a vector under a key."""
        entry = (_digest(key), np.asarray(vector, dtype="<f8").tobytes(), self._clock())
        with self._lock:
            self._done("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", entry)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _done(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        """Return the rows of a statement; none if the file fails: the search goes on without cached vectors."""
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            log.warning("the cache of query vectors failed and is passed by: %s", error)
            return []


class ResultCache(Generic[Value]):
    """The latest results in memory, each with the version that the collection had before it was searched for.

    Args:
        size: Number of results; the least recently used one is dropped.
        ttl_s: Seconds they are kept at most; None for as long as the version is the same.
        clock: Tells the time in seconds.
    """

    def __init__(self, size: int, ttl_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._entries: TTLCache[Hashable, tuple[Value, Hashable]] = TTLCache(
            size, math.inf if ttl_s is None else ttl_s, timer=clock
        )
        self._hits = self._misses = 0

    @property
    def stats(self) -> CacheStats:
        """Numbers of look-ups and hits."""
        return CacheStats(hits=self._hits, misses=self._misses)

    def get(self, key: Hashable, version: Hashable) -> Value | None:
        """Return the result of a key, if it is of this version and young enough; drop it otherwise."""
        with self._lock:
            value: Value | None
            of: Hashable
            value, of = self._entries.get(key, (None, None))
            if value is not None and of != version:
                del self._entries[key]
                value = None
            self._hits += value is not None
            self._misses += value is None
            return value

    def put(self, key: Hashable, value: Value, version: Hashable) -> None:
        """Keep a result, as of the version that was read before it was searched for."""
        with self._lock:
            if self.size:
                self._entries[key] = (value, version)


def open_embedding_cache(env: Mapping[str, str], *, hosted: bool) -> EmbeddingCache | None:
    """Open the cache of query vectors of a hosted model, else return None: a local one is faster than a file.

    Raises:
        ConfigError: Its file cannot be used.
    """
    return EmbeddingCache(user_cache(env) / "query-vectors.sqlite", KEPT_S) if hosted else None


def _digest(key: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def _floats(stored: Any) -> list[float] | None:
    """Decode a vector stored as bytes, None if it is something else."""
    if not isinstance(stored, bytes) or len(stored) % 8:
        return None
    vector: list[float] = np.frombuffer(stored, dtype="<f8").tolist()
    return vector
