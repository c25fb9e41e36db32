"""Writing files whole or not at all."""

import contextlib
import os
from pathlib import Path
from tempfile import TemporaryFile

from retrievers.errors import ConfigError


def write(file: Path, text: str) -> None:
    """Write a file by way of a temporary one beside it, so that it is never seen half-written.

    Raises:
        ConfigError: It cannot be written.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from error
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
    if file.is_dir():
        raise ConfigError(f"{file}: expected a file to write, found a folder")
    try:
        probe(file.parent)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {file.parent}: {error.strerror}") from error


def probe(folder: Path) -> None:
    """Make a file that goes away by itself in a folder, or where it does not exist in the nearest one above it.

    Raises:
        OSError: It cannot be made.
    """
    chain = (folder.absolute(), *folder.absolute().parents)
    with TemporaryFile(dir=next(place for place in chain if os.path.lexists(place))):
        pass
