"""Writing files whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from uuid import uuid4

from retrievers.errors import ConfigError

LONGEST_SHOWN = 160


def write(file: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        ConfigError: It cannot be written.
    """
    with replacing(file) as part:
        part.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Give a temporary file beside a file to write, which then takes its place: it is never seen half-written.

    Raises:
        ConfigError: It cannot be written.
    """
    # Short, however long the file's own name is.
    part = file.with_name(f".{uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{_shown(file)}: cannot be written: {error.strerror}") from error
    finally:
        # Gone already, or there never was a folder.
        with contextlib.suppress(OSError):
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
    """Make a temporary file in a folder, or in its nearest existing parent, to check that it can be written.

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
    target = _nearest(path)
    for name in path.absolute().relative_to(target).parts:
        with contextlib.suppress(FileNotFoundError):
            (target / name).lstat()


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest existing folder above it."""
    chain = (path.absolute(), *path.absolute().parents)
    return next(folder for folder in chain if os.path.lexists(folder))


def _shown(path: Path) -> str:
    """Shorten a path for a message: a long one loses its middle."""
    text = str(path)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN // 2]}…{text[-LONGEST_SHOWN // 2 :]}"
