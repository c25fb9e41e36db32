"""Writing files whole or not at all."""

import os
from pathlib import Path

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
        if part.is_file():
            part.unlink()


def check_writable(file: Path | None) -> None:
    """Make sure before any work that a file can be written, leaving nothing behind but its folder.

    Raises:
        ConfigError: It cannot.
    """
    if file is None:
        return
    if file.is_dir():
        raise ConfigError(f"{file}: expected a file to write, found a folder")
    probe = file.parent / f".write-{os.getpid()}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {file.parent}: {error.strerror}") from error
