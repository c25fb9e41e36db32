"""Writing files whole or not at all."""

import contextlib
import os
from pathlib import Path
from tempfile import TemporaryFile
from uuid import uuid4

from retrievers.errors import ConfigError

LONGEST_SHOWN = 160


def write(file: Path, text: str) -> None:
    """Write a file by way of a temporary one beside it, so that it is never seen half-written.

    Raises:
        ConfigError: It cannot be written.
    """
    part = file.with_name(f".{uuid4().hex}.part")  # short, however long the file's own name is
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{_shown(file)}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # gone already, or there never was a folder
            part.unlink()


def check_writable(file: Path | None) -> None:
    """Make sure before any work that a file can be written; leaves nothing behind.

    Raises:
        ConfigError: It cannot.
    """
    if file is None:
        return
    try:
        if file.exists() and not file.is_file():
            kind = "a folder" if file.is_dir() else "a device or a pipe"
            raise ConfigError(f"{file}: expected a file to write, found {kind}")
        probe(file.parent)
        _check_names(file)
    except OSError as error:
        raise ConfigError(f"{_shown(file)}: cannot be written: {_shown(file.parent)}: {error.strerror}") from error


def probe(folder: Path) -> None:
    """Make a file that goes away by itself in a folder, or where it does not exist in the nearest one above it.

    Raises:
        OSError: It cannot be made, or a folder cannot have such a name.
    """
    with TemporaryFile(dir=_nearest(folder)):
        pass
    _check_names(folder)


def _check_names(path: Path) -> None:
    """Let the file system look at each name that does not exist yet: it may be too long.

    Raises:
        OSError: One cannot be a name.
    """
    place = _nearest(path)
    for name in path.absolute().relative_to(place).parts:
        with contextlib.suppress(FileNotFoundError):
            (place / name).lstat()


def _nearest(path: Path) -> Path:
    """The path, or where it does not exist the nearest folder above it."""
    chain = (path.absolute(), *path.absolute().parents)
    return next(place for place in chain if os.path.lexists(place))


def _shown(path: Path) -> str:
    """A path for a message, its middle left out where it is long."""
    text = str(path)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN // 2]}…{text[-LONGEST_SHOWN // 2 :]}"
