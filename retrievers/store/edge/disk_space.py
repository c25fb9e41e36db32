"""Room on the disk for a change to an embedded collection, which copies it before anything is added.

The engine writes through memory-mapped files. If the disk is full then, no call fails: the system ends
the process (SIGBUS). So room is looked for before.
"""

import os
import shutil
from pathlib import Path

from retrievers.errors import StoreFullError
from retrievers.store.edge.layout import Folder


def check_room(store: Path, name: str, more: int) -> None:
    """Refuse a change for which there is no room, or the name of a collection that cannot be made.

    Args:
        store: The folder of the store.
        name: The collection, which need not exist.
        more: Bytes that will be added to it, at least.

    Raises:
        StoreFullError: The free space is less than a copy and the additions take.
        StoreError: The name is too long.
    """
    folder = Folder(store, name)
    folder.check_name()
    need, free = _needed(folder, more), _free(store)
    if free < need:
        raise StoreFullError(
            f"the disk of {store} has {_megabytes(free)} free, and collection {name!r} needs {_megabytes(need)} to be "
            "written; make room, or write to another folder (--store.path); nothing was changed"
        )


def _needed(folder: Folder, more: int) -> int:
    current = folder.current()
    return more + (_allocated(folder.generation(current)) if current else 0)


def _allocated(generation: Path) -> int:
    """Return the bytes that the files of a generation take, without their holes where the system reports them."""
    stats = [Path(folder, name).stat() for folder, _, names in os.walk(generation) for name in names]
    return sum(stat.st_size if os.name == "nt" else stat.st_blocks * 512 for stat in stats)


def _free(store: Path) -> int:
    return shutil.disk_usage(store).free


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"
