"""Embedded stores that were indexed once: a generation never changes, so its large files are linked into other folders.

An engine sets up 130 MB for a collection of a few pages, which takes longer than all else in a small test.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

SMALL = 1 << 16
_stores: dict[str, Path] = {}


def store_like(key: str, target: Path, make: Callable[[], object]) -> None:
    """Put a store at a path: by `make`, the first time in this process, and later by links to what it made.

    Args:
        key: Everything that the content of the store depends on.
        target: Path of the store, which is not there.
        make: Makes it there.
    """
    if key in _stores:
        link_tree(_stores[key], target)
        return
    make()
    folder = Path(tempfile.mkdtemp(prefix="stores-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link_tree(target, folder / "store")
    _stores[key] = folder / "store"


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder, large files as links. Small ones may be locked, or touched when a store is opened."""
    shutil.copytree(source, target, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    if Path(source).stat().st_size < SMALL or Path(source).stat().st_dev != Path(target).parent.stat().st_dev:
        shutil.copy2(source, target)
    else:
        os.link(source, target)
