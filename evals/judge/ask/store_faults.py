"""Why a verdict store cannot be used, and what to do about it."""

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
    """The error of a verdict store: corrupt, full, not to be written, held by another process, or something else."""
    if is_forbidden(error):
        said = f"may not be written ({error}); give yourself the right to, or {ELSEWHERE}"
    elif isinstance(error, OSError):
        remedy = "make room, or " if error.errno in FULL else ""
        said = f"cannot be used ({error}); {remedy}{ELSEWHERE}"
    elif (code := _code(error)) in CORRUPT:
        said = (
            f"is corrupt, or a file of something else ({error}); move it away, and a new one is begun (sqlite3's "
            f".recover may save verdicts), or {ELSEWHERE}"
        )
    elif code in FULL:
        said = f"cannot be written ({error}); make room, or {ELSEWHERE}"
    elif code in HELD:
        said = f"is held by another process ({error}); wait for its end, or {ELSEWHERE}"
    else:
        said = f"cannot be used ({error}); {ELSEWHERE}"
    return JudgeError(f"the verdict store {file} {said}")


def is_forbidden(error: Exception) -> bool:
    """Whether a file is there, perhaps, but may not be written."""
    return (isinstance(error, OSError) and error.errno in FORBIDDEN) or _code(error) in READ_ONLY


def read_only(file: Path) -> JudgeError:
    """The error of a store that may not be written and lacks a verdict."""
    return JudgeError(
        f"the verdict store {file} may not be written and lacks a verdict, which is not bought since it could not be "
        f"kept; give yourself the right to write it, or {ELSEWHERE}"
    )


def _code(error: Exception) -> int:
    """SQLite's primary result code, 0 for any other error."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF if isinstance(error, sqlite3.Error) else 0
