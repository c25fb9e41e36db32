"""Copies that keep holes, writes that are whole or not at all, and trees forced to disk.

The engine lays its files out in pages of up to 32 MB that are mostly holes: a collection of a few pages says it holds
100 MB and occupies 0.5 MB, so a plain copy would write the other 99.5.
"""

import os
import shutil
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

# Prefix of the folders in which the engine prepares a file before it moves it into place.
HALF_WRITTEN = ".atomicwrite"
ZEROS = bytes(1 << 14)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder, holes kept, without what a reader of it is just about to move into place."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.name.startswith(HALF_WRITTEN):
            continue
        if entry.is_dir():
            copy_tree(entry, target / entry.name)
        else:
            _copy_file(entry, target / entry.name)


def sync_tree(folder: Path) -> None:
    """Force a folder to disk, and drop what a killed process was about to move into place."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(HALF_WRITTEN):
            shutil.rmtree(entry)
        elif entry.is_dir():
            sync_tree(entry)
        else:
            sync(entry)
    sync(folder)


def write_whole(path: Path, text: str) -> None:
    """Put a text into a file so that a reader finds the old text or the new one, even after a power cut."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.write_text(text, encoding="utf-8")
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Force one file or one folder's entries to disk."""
    # Windows cannot flush a folder.
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def blocks(file: FileIO) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a file that hold more than zeros, each with its start.

    Blocks begin at multiples of their size, so that they are the same wherever holes are.
    """
    at = 0
    for start, end in _extents(file.fileno(), os.fstat(file.fileno()).st_size):
        at = max(at, start - start % len(ZEROS))
        file.seek(at)
        while at < end and (block := file.read(len(ZEROS))):
            if block != ZEROS[: len(block)]:
                yield at, block
            at += len(block)


def _copy_file(source: Path, target: Path) -> None:
    with FileIO(source) as read, target.open("wb") as write:
        for start, block in blocks(read):
            write.seek(start)
            write.write(block)
        write.truncate(os.fstat(read.fileno()).st_size)


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Return the parts of a file that hold data, as (start, end); all of it where the system cannot say."""
    if not hasattr(os, "SEEK_DATA"):
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # only a hole is left
            return
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end
