"""Reading the files that users name: regular ones, of bounded size, in UTF-8."""

import stat
from collections.abc import Callable
from pathlib import Path

from retrievers.errors import ConfigError, RetrievalError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe, which might never end",
    stat.S_IFCHR: "a device, which might never end",
    stat.S_IFBLK: "a device, which might never end",
    stat.S_IFSOCK: "a socket",
}


def read_text(file: Path, expected: str, most_bytes: int, error: Callable[[str], RetrievalError] = ConfigError) -> str:
    """Read a file in UTF-8, with or without a byte order mark.

    Args:
        file: The file.
        expected: The kind of file that is expected, for messages, such as "a YAML file of settings".
        most_bytes: Its largest size.
        error: Function that makes the error for a file that cannot be read.

    Raises:
        RetrievalError: It is missing, no regular file, too large, or not UTF-8.
    """
    try:
        return read_bytes(file, expected, most_bytes, error).decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise error(f"{file}: not UTF-8 (byte {fault.start}: {fault.reason}); expected {expected}") from None
    except (OSError, ValueError) as fault:  # a name that no file can have
        reason = getattr(fault, "strerror", None) or fault
        raise error(f"{file}: cannot be read: {reason}; expected {expected}") from None


def read_bytes(
    file: Path, expected: str, most_bytes: int, error: Callable[[str], RetrievalError] = ConfigError
) -> bytes:
    """Read a regular file of bounded size; the arguments are those of `read_text`.

    Raises:
        RetrievalError: It is no regular file, or too large.
        OSError: It is missing, or cannot be read.
    """
    status = file.stat()
    kind = KINDS.get(stat.S_IFMT(status.st_mode))
    if kind:
        raise error(f"{file}: expected {expected}, found {kind}; name a file")
    if status.st_size > most_bytes:
        raise error(f"{file}: expected {expected} of at most {most_bytes:,} bytes, found {status.st_size:,}")
    return file.read_bytes()
