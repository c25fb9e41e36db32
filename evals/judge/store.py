"""The verdict store: one SQLite file of JSON texts, so that no verdict is bought twice. Loading it executes nothing."""

import errno
import hashlib
import logging
import sqlite3
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from evals.errors import JudgeError
from evals.judge.answers import outside
from evals.judge.budget import Tokens
from retrievers.config.files import FileLock, LockBusyError, make_private, open_sqlite

log = logging.getLogger(__name__)
SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, kind TEXT NOT NULL, answer TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL
) WITHOUT ROWID
"""
COLUMNS = "key, model, kind, answer, tokens_in, tokens_out, created, used"
CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, errno.ENOSPC, errno.EDQUOT}
FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
FORBIDDEN_FILE = {errno.EACCES, errno.EPERM, errno.EROFS}
HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
ELSEWHERE = "name another file with judge.cache_path"


class VerdictStore:
    """Verdicts by key; each `put` is on disk when it returns. Any number of processes may share a file.

    Raises:
        JudgeError: In every method, where the file cannot be read or written; the message says what to do.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._warned = False
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            make_private(file.with_name(f"{file.name}.lock"))
            self._database = open_sqlite(file, SCHEMA, f"SELECT {COLUMNS} FROM verdicts LIMIT 1")
        except (OSError, sqlite3.Error) as error:
            raise unusable(file, error) from error

    def get(self, key: bytes, schema: type[BaseModel]) -> str | None:
        """Return the verdict of a key as JSON; None where there is none, or where what is stored is no verdict."""
        rows = self._run("SELECT answer FROM verdicts WHERE key = ?", key)
        if not rows:
            return None
        [(answer,)] = rows
        try:
            reason = outside(schema.model_validate_json(answer))
        except (ValidationError, TypeError) as error:
            reason = f"{type(error).__name__}, got {str(answer)[:60]!r}"
        if not reason:
            return str(answer)
        if not self._warned:
            text = "the verdict store %s holds an answer that is no verdict (%s); it is bought again, as any other such"
            log.warning(text, self.file, reason)
        self._warned = True
        return None

    def put(self, key: bytes, model: str, kind: str, answer: str, tokens: Tokens) -> None:
        """Commit a verdict.

        Args:
            key: Key of the question.
            model: `provider:name` that gave it.
            kind: Name of the response schema.
            answer: The verdict as JSON.
            tokens: Tokens that the answer cost.
        """
        now = time.time()
        statement = f"INSERT OR REPLACE INTO verdicts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._run(statement, key, model, kind, answer, *tokens, now, now)

    def mean_tokens_out(self, model: str, kind: str) -> float | None:
        """Return the mean token count of the model's latest 500 answers of that kind; None when there is none."""
        latest = "SELECT tokens_out FROM verdicts WHERE model = ? AND kind = ? ORDER BY created DESC LIMIT 500"
        [(mean,)] = self._run(f"SELECT avg(tokens_out) FROM ({latest})", model, kind)
        return None if mean is None else float(mean)

    def buying(self, model: str) -> FileLock | None:
        """Return the lock of whoever buys verdicts of a model; None while another process holds it.

        The system releases it at any end of a process.
        """
        # A hash, as the names of models hold characters that file names may not.
        name = hashlib.sha256(model.encode()).hexdigest()[:16]
        file = self.file.with_name(f"{self.file.name}.{name}.lock")
        try:
            make_private(file)
            return FileLock(file)
        except LockBusyError:
            return None
        except OSError as error:
            raise unusable(self.file, error) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error


def unusable(file: Path, error: Exception) -> JudgeError:
    """Return the error of a verdict store: forbidden, corrupt, full, held by another process, or something else."""
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF or getattr(error, "errno", 0)
    of_file = isinstance(error, OSError)
    problem = "cannot be used"
    remedy = ""
    if code in (FORBIDDEN_FILE if of_file else FORBIDDEN):
        problem, remedy = "may not be written", "give yourself the right to, or "
    elif code in FULL:
        problem, remedy = "cannot be written", "make room, or "
    elif not of_file and code in CORRUPT:
        problem = "is corrupt, or a file of something else"
        remedy = "move it away, and a new one is begun (sqlite3's .recover may save verdicts), or "
    elif not of_file and code in HELD:
        problem, remedy = "is held by another process", "wait for its end, or "
    return JudgeError(f"the verdict store {file} {problem} ({error}); {remedy}{ELSEWHERE}")
