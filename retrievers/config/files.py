"""Files that users name, packaged YAML, our own SQLite files, locks, and paths."""

import contextlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import portalocker
import yaml

from retrievers.errors import ConfigError, RetrievalError
from retrievers.text.shown import quoted

# Seconds to wait for another process that is writing an SQLite file.
TIMEOUT_S = 30.0


def read_text(file: Path, expected: str, most_bytes: int, error: Callable[[str], RetrievalError] = ConfigError) -> str:
    """Read a regular file in UTF-8, with or without a byte order mark.

    Args:
        file: The file.
        expected: The kind of file that is expected, for messages, such as "a JSON Lines file".
        most_bytes: Largest size of the file.
        error: Makes the error for a file that cannot be read.

    Raises:
        RetrievalError: The file is missing, is no regular file (a pipe might never end), is too large, or is not UTF-8.
    """
    try:
        if file.exists() and not file.is_file():
            raise error(f"{file}: expected {expected}, found a folder, pipe or device; name a file")
        if (size := file.stat().st_size) > most_bytes:
            raise error(f"{file}: expected {expected} of at most {most_bytes:,} bytes, found {size:,}")
        return file.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as fault:
        reason = encoding_fault(fault) if isinstance(fault, UnicodeDecodeError) else getattr(fault, "strerror", fault)
        raise error(f"{file}: cannot be read: {reason}; expected {expected}") from None


def encoding_fault(error: UnicodeDecodeError) -> str:
    """Return which byte does not belong to the expected encoding, and how to convert the file."""
    place = f"byte {error.start}: {error.reason}"
    return f"not {error.encoding.upper()} ({place}); convert it, for example: iconv -f CP1252 -t UTF-8 (or -f UTF-16)"


@cache
def packaged_yaml(package: str, name: str) -> dict[str, Any]:
    """Return the values of a YAML file in a package. They are read once, and nobody may change them."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return dict(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


# JSON


def load_json(text: str) -> Any:
    """Parse a JSON text. Repeated names, NaN, infinity and halves of characters are refused.

    Raises:
        ValueError: The text is not valid. The message says where, if that is known.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unambiguous, parse_constant=_refused)
        if "\\u" in text:  # such as half of a smiley, cut by another program
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (RecursionError, ValueError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise ValueError(f"not valid JSON: {reason}") from None


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(repeated, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{quoted(repeated)} is given twice; leave one of them out")
    return values


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


# Paths


def user_path(text: str | Path) -> Path:
    """Replace `~` in a path by the user's home: the shell does not in `--flag=~/file`. An unknown `~name` stays."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path.expanduser raises for an unknown name


def user_cache(env: Mapping[str, str]) -> Path:
    """Return the project's folder in the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache` if it is not set)."""
    try:
        return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrieval-evals"
    except RuntimeError:
        raise ConfigError("this user has no home folder: set HOME to a folder that may be written") from None


def make_private(file: Path) -> None:
    """Make a file that only its owner can read, or change an existing file so. On Windows its folder decides.

    Raises:
        OSError: The file cannot be made.
    """
    file.touch(mode=0o600)
    with contextlib.suppress(OSError):  # it belongs to another user, who sets its mode
        file.chmod(0o600)


# Locks, and SQLite


def file_lock(path: Path, *, wait: bool = True) -> portalocker.Lock:
    """Lock a file, which is made if it does not exist. However the process ends, the system releases the lock.

    Args:
        path: The file.
        wait: True to wait for another holder, False to refuse at once.

    Raises:
        portalocker.AlreadyLocked: This or another process holds the lock, and `wait` is not set.
        OSError: The file cannot be opened.
    """
    kind = portalocker.LockFlags.EXCLUSIVE
    lock = portalocker.Lock(path, flags=kind if wait else kind | portalocker.LockFlags.NON_BLOCKING)
    lock.acquire(fail_when_locked=not wait)
    return lock


def open_sqlite(file: Path, schema: str, probe: str) -> sqlite3.Connection:
    """Open a file of our own, or make one that only its owner can read. Threads may share the connection.

    Args:
        file: The file.
        schema: The statement that creates the table if it does not exist.
        probe: A query that fails on the file of another program, which then stays as it is.

    Raises:
        OSError: The folder does not exist and cannot be made.
        sqlite3.Error: The file is not ours, is damaged, or may not be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    make_private(file)
    with file_lock(file.with_name(f"{file.name}.lock")):
        # Without the lock, two processes that switch a new file to the write-ahead log at once can both fail.
        # Without an isolation level, each statement is a transaction unless one is begun.
        database = sqlite3.connect(file, timeout=TIMEOUT_S, check_same_thread=False, isolation_level=None)
        try:
            for statement in (schema, probe, "PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"):
                database.execute(statement)
        except BaseException:
            database.close()
            raise
    return database
