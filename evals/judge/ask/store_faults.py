"""Faults of a verdict store, with their remedies."""

import errno
import sqlite3
from pathlib import Path

from evals.errors import JudgeError

CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, errno.ENOSPC, errno.EDQUOT}
READ_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
ELSEWHERE = "name another file with judge.cache_path, or set judge.cache: off (then every run buys its verdicts again)"


def unusable(file: Path, error: Exception) -> JudgeError:
    """Return the error of a verdict store: corrupt, full, read-only, locked by another process, or something else."""
    if is_forbidden(error):
        problem = f"may not be written ({error}); give yourself the right to, or {ELSEWHERE}"
    elif isinstance(error, OSError):
        remedy = "make room, or " if error.errno in FULL else ""
        problem = f"cannot be used ({error}); {remedy}{ELSEWHERE}"
    elif (code := _code(error)) in CORRUPT:
        problem = (
            f"is corrupt, or a file of something else ({error}); move it away, and a new one is begun (sqlite3's "
            f".recover may save verdicts), or {ELSEWHERE}"
        )
    elif code in FULL:
        problem = f"cannot be written ({error}); make room, or {ELSEWHERE}"
    elif code in HELD:
        problem = f"is held by another process ({error}); wait for its end, or {ELSEWHERE}"
    else:
        problem = f"cannot be used ({error}); {ELSEWHERE}"
    return JudgeError(f"the verdict store {file} {problem}")


def is_forbidden(error: Exception) -> bool:
    """Return True if a file may exist but cannot be written."""
    return (isinstance(error, OSError) and error.errno in FORBIDDEN) or _code(error) in READ_ONLY


def read_only(file: Path) -> JudgeError:
    """Return the error of a store that cannot be written and lacks a verdict."""
    return JudgeError(
        f"the verdict store {file} may not be written and lacks a verdict, which is not bought since it could not be "
        f"kept; give yourself the right to write it, or {ELSEWHERE}"
    )


def _code(error: Exception) -> int:
    """Return SQLite's primary result code, 0 for any other error."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF if isinstance(error, sqlite3.Error) else 0
