"""A disk that is soon full: a file system in memory, which only root may mount."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

Resize = Callable[[int], None]


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Resize]:
    """Mount one at a new folder; yield a function that resizes it. Skip the test without the right to mount."""
    folder.mkdir()
    if _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)):
        pytest.skip("file systems cannot be mounted here")
    try:
        yield lambda more: _mounted("-o", f"remount,size={more}m", str(folder))
    finally:
        _run("umount", str(folder))


def _mounted(*arguments: str) -> None:
    assert _run("mount", *arguments) == 0


def _run(*command: str) -> int:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode
    except FileNotFoundError:
        return 1
