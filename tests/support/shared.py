"""Folders that all workers of a test session have in common, for what is expensive to make."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrievers.config.files import file_lock


@contextmanager
def shared_folder(factory: pytest.TempPathFactory, worker_id: str, name: str) -> Iterator[Path]:
    """Yield a folder of that name, the same for every worker, held by one of them at a time."""
    base = factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / name
    with file_lock(folder.with_suffix(".lock")):
        folder.mkdir(exist_ok=True)
        yield folder
