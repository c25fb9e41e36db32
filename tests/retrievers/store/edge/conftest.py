"""Stores of the embedded engine, in memory where the system has a folder for it: every change is forced to disk."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrievers.store.edge import EdgeClient

MEMORY = Path("/dev/shm")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A path at which nothing is yet."""
    if not MEMORY.is_dir():
        yield tmp_path / "store"
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder) / "store"


@pytest.fixture
def client(place: Path) -> Iterator[EdgeClient]:
    """An empty store."""
    with EdgeClient(place, create=True) as opened:
        yield opened
