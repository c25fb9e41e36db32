"""Checksums of a generation's files: written when it is complete, compared with the files when it is opened.

Opening a generation changes only the times of some small files, so a file with its recorded size and time
counts as unchanged, and the rest is read. `everything` reads all of it, which also finds what a disk has lost.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from io import FileIO
from pathlib import Path

import xxhash

from retrievers.config.guarded_json import load
from retrievers.config.text_files import read_bytes
from retrievers.errors import CollectionDamagedError
from retrievers.store.edge import files

NAME = "checksums.json"
UNCHECKED = frozenset({NAME, "lock"})
SHOWN = 3
MOST_BYTES = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Checksums:
    """Content of a complete generation.

    Attributes:
        engine: Version of the engine that wrote it; another one may rewrite files when it opens them.
        points: Number of points.
        files: Path below the generation, with slashes, to size in bytes, time of the last change in ns, and checksum.
    """

    engine: str
    points: int
    files: dict[str, tuple[int, int, str]]

    @property
    def comparable(self) -> bool:
        """True if the installed engine is the one that wrote the files."""
        return self.engine == _engine()


def record(generation: Path, points: int) -> None:
    """Write down what a complete generation holds.

    Raises:
        OSError: A file cannot be read, or the checksums cannot be written.
    """
    entries = {}
    for path in _files(generation):
        stat = path.stat()
        entries[path.relative_to(generation).as_posix()] = (stat.st_size, stat.st_mtime_ns, _checksum_of_content(path))
    text = json.dumps({"engine": _engine(), "points": points, "files": entries})
    (generation / NAME).write_text(text, encoding="utf-8")


def check(generation: Path, *, everything: bool = False) -> Checksums | None:
    """Refuse a generation whose files are not as they were written.

    Args:
        generation: Its folder.
        everything: Read every file, not only those that have another size or time than recorded.

    Returns:
        What was recorded; None for a collection that was written before checksums were kept.

    Raises:
        CollectionDamagedError: Naming each file, or the first few; or the checksums cannot be read.
    """
    checksums = _load(generation)
    if checksums is None or not checksums.comparable:
        return checksums
    damages = ((name, _fault(generation / name, *entry, read=everything)) for name, entry in checksums.files.items())
    faults = [f"{name}: {fault}" for name, fault in damages if fault]
    if faults:
        shown = faults if everything else faults[:SHOWN]
        more = [f"… and {len(faults) - len(shown)} more"] if len(faults) > len(shown) else []
        raise damaged(generation, "; ".join([*shown, *more]))
    return checksums


def damaged(generation: Path, fault: str) -> CollectionDamagedError:
    """Return the error for a generation with a file that differs from what was written."""
    folder = generation.parent
    return CollectionDamagedError(f"{generation} is damaged: {fault}; remove {folder} and index again")


def _load(generation: Path) -> Checksums | None:
    try:
        text = read_bytes(generation / NAME, "checksums", MOST_BYTES, lambda message: damaged(generation, message))
        content = load(text.decode())
        entries = {name: (int(size), int(time), str(sum_)) for name, (size, time, sum_) in content["files"].items()}
        return Checksums(engine=str(content["engine"]), points=int(content["points"]), files=entries)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(generation, f"{NAME}: {type(error).__name__}: {error}") from error


def _fault(path: Path, size: int, changed: int, checksum: str, *, read: bool) -> str:
    """Return the fault of a file; empty without any."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return "is missing"
    if stat.st_size != size:
        return f"expected {size:,} bytes, found {stat.st_size:,}"
    if (read or stat.st_mtime_ns != changed) and checksum not in (_checksum(path), _checksum_of_content(path)):
        return "the content is not what was written"
    return ""


def _files(generation: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(generation):
        folders[:] = sorted(name for name in folders if not name.startswith(files.HALF_WRITTEN))
        yield from (Path(folder, name) for name in sorted(names) if name not in UNCHECKED)


def _checksum(path: Path) -> str:
    """Return a checksum of a file without its zeros: a copy may turn holes into zeros, or zeros into holes."""
    checksum = xxhash.xxh3_64()
    with FileIO(path) as file:
        for start, block in files.blocks(file):
            checksum.update(start.to_bytes(8, "little"))
            checksum.update(block)
    return checksum.hexdigest()


def _checksum_of_content(path: Path) -> str:
    """Return a checksum for which the order of keys does not count: the engine shuffles those of several vectors."""
    if path.suffix == ".json":
        try:
            content = json.dumps(load(path.read_text(encoding="utf-8")), sort_keys=True)
            return xxhash.xxh3_64(content.encode()).hexdigest()
        except (OSError, ValueError):  # as a damaged file is
            pass
    return _checksum(path)


@cache
def _engine() -> str:
    return version("qdrant-edge-py")
