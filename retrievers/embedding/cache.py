"""Vectors on disk. A kept vector is bytes of floats: loading it executes nothing."""

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from retrievers.config import EmbeddingConfig
from retrievers.config.files import open_sqlite, user_cache
from retrievers.errors import ConfigError

log = logging.getLogger(__name__)
SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL)"
Kind = Literal["search_query", "search_document"]


class EmbeddingCache:
    """Vectors of queries and of stored texts in one SQLite file; safe among threads and processes.

    The key holds all settings of the model, the kind and the text: no model is ever answered with another's vector.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._db = open_sqlite(file, SCHEMA, "SELECT key, vector FROM vectors LIMIT 1")
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"the file of kept vectors {file} cannot be used ({error}); delete it") from error

    def get(self, model: EmbeddingConfig, kind: Kind, texts: Iterable[str]) -> dict[str, list[float]]:
        """Return the vectors of those of the texts that are there."""
        rows = {text: self._done("SELECT vector FROM vectors WHERE key = ?", _key(model, kind, text)) for text in texts}
        return {text: np.frombuffer(found[0][0], dtype="<f8").tolist() for text, found in rows.items() if found}

    def put(self, model: EmbeddingConfig, kind: Kind, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of texts."""
        for text, vector in vectors.items():
            entry = _key(model, kind, text), np.asarray(vector, dtype="<f8").tobytes()
            self._done("INSERT OR REPLACE INTO vectors VALUES (?, ?)", *entry)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _done(self, statement: str, *values: Any) -> list[Any]:
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


def _key(model: EmbeddingConfig, kind: Kind, text: str) -> str:
    # Servers of one's own have models of their own under any name.
    asked = {**model.identity, "base_url": model.base_url, "options": dict(model.options)}
    named = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(json.dumps((named, kind, text)).encode()).hexdigest()
