"""The verdict store: one SQLite file of JSON texts, so that no verdict is bought twice. Reading it runs no code."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import portalocker
from pydantic import BaseModel

from evals.errors import JudgeError
from evals.judge.answers import checked
from evals.judge.budget import Tokens
from retrievers.config.files import file_lock, make_private, open_sqlite
from retrievers.text import digest

SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, kind TEXT NOT NULL, answer TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL
) WITHOUT ROWID
"""
COLUMNS = "key, model, kind, answer, tokens_in, tokens_out, created, used"


class VerdictStore:
    """Verdicts by key. Each `put` is on disk when it returns. Any number of processes may share a file.

    Raises:
        JudgeError: Raised by every method if the file cannot be read or written. The message says what to do.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            make_private(file.with_name(f"{file.name}.lock"))
            self._database = open_sqlite(file, SCHEMA, f"SELECT {COLUMNS} FROM verdicts LIMIT 1")
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def get(self, key: bytes, schema: type[BaseModel], prompt: str) -> str | None:
        """Return the verdict of a key as JSON; None if there is none that fits the schema and the prompt."""
        for (answer,) in self._run("SELECT answer FROM verdicts WHERE key = ?", key):
            with suppress(ValueError, TypeError):
                return checked(schema.model_validate_json(answer), prompt).model_dump_json()
        return None

    def put(self, key: bytes, model: str, kind: str, answer: str, tokens: Tokens) -> None:
        """Commit a verdict.

        Args:
            key: Key of the question.
            model: `provider:name` of the model.
            kind: Name of the response schema.
            answer: The verdict as JSON.
            tokens: Tokens that the model has read and written for it.
        """
        statement = f"INSERT OR REPLACE INTO verdicts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._run(statement, key, model, kind, answer, *tokens, time.time(), time.time())

    def buying(self, model: str) -> portalocker.Lock | None:
        """Lock the purchase of a model's verdicts; return None while another process holds the lock.

        However the process ends, the system releases the lock.
        """
        # A hash, since names of models have characters that names of files may not have.
        name = digest(model)[:16]
        file = self._file.with_name(f"{self._file.name}.{name}.lock")
        try:
            make_private(file)
            return file_lock(file, wait=False)
        except portalocker.AlreadyLocked:
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> JudgeError:
        return JudgeError(
            f"the verdict store {self._file} cannot be used ({error}); make room, or the right to write, or name "
            "another file with judge.cache_path"
        )
