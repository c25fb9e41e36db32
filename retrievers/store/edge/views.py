"""The open generations of a client: the one in force of each collection, opened once.

A reader sees a new generation at its next call: every call looks at CURRENT (some 10 us) and reopens when it has
changed. While it keeps one open it holds a shared lock on it, so that no writer removes it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import qdrant_edge as edge

from retrievers.config.files import FileLock, LockBusyError
from retrievers.errors import CollectionNotFoundError, StoreError, nearest
from retrievers.store.edge import engine
from retrievers.store.edge.layout import Folder, check, damaged, folders
from retrievers.store.edge.spec import Spec

# Each try fails only if a writer replaced the generation meanwhile.
TRIES = 100


@dataclass(frozen=True)
class View:
    """Shard to read from, with its description.

    Attributes:
        recount: True if points may have been replaced or removed since the engine last counted terms for the IDF.
    """

    shard: edge.EdgeShard
    spec: Spec
    recount: bool


@dataclass(frozen=True)
class _Opened:
    generation: str
    view: View
    lock: FileLock


class Views:
    """The open generations of a store, one a collection; one call at a time reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._folders: dict[str, Folder] = {}
        self._opened: dict[str, _Opened] = {}

    @contextmanager
    def current(self, name: str) -> Iterator[View]:
        """Yield the generation in force, which stays open for the length of the block.

        Raises:
            CollectionNotFoundError: There is no such collection.
            StoreError: It cannot be opened.
        """
        with self._lock:
            yield self._open(name)

    def folder(self, name: str) -> Folder:
        """Return the folder of a collection."""
        return self._folders.setdefault(name, Folder(self._path, name))

    def forget(self, name: str | None = None) -> None:
        """Close all collections, or one."""
        with self._lock:
            for key in list(self._opened) if name is None else [name]:
                opened = self._opened.pop(key, None)
                if opened is not None:
                    engine.close(opened.view.shard)
                    opened.lock.release()

    def missing(self, name: str) -> CollectionNotFoundError:
        """Return the error for a collection that does not exist."""
        names = [folder.name for folder in folders(self._path) if folder.current()]
        have = f"it has {', '.join(map(repr, names[:10]))}" if names else "it has none"
        return CollectionNotFoundError(f"no collection {name!r} at {self._path}: {have}{nearest(name, names)}")

    def _open(self, name: str) -> View:
        folder = self.folder(name)
        for _ in range(TRIES):
            generation = folder.current()
            opened = self._opened.get(name)
            if opened is not None and opened.generation == generation:
                return opened.view
            self.forget(name)
            if generation is None:
                raise self.missing(name)
            opened = _open_generation(folder, generation)
            if opened is not None:
                self._opened[name] = opened
        raise StoreError(f"{folder.path / 'CURRENT'} names a generation that is not there; remove it and index again")


def _locked(generation: Path) -> FileLock | None:
    """Lock a generation so that it stays; None where a writer has removed it or is about to."""
    try:
        return FileLock(generation / "lock", shared=True)
    except (FileNotFoundError, LockBusyError):
        return None


def _open_generation(folder: Folder, generation: str) -> _Opened | None:
    """Open a generation, or None when a writer has replaced it meanwhile."""
    path = folder.generation(generation)
    lock = _locked(path)
    if lock is None:
        return None
    try:
        # The generation was replaced before it was locked, so a writer may be removing it.
        if folder.current() != generation:
            lock.release()
            return None
        # Before the engine opens the files: it may crash on damaged ones.
        recorded = check(path)
        spec = Spec.from_json((path / "collection.json").read_text(encoding="utf-8"))
        shard = engine.load(path / "shard")
        points = shard.info().points_count
        if recorded is not None and points != recorded:
            engine.close(shard)
            raise damaged(path, f"expected {recorded} points, found {points}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        lock.release()
        raise damaged(path, str(error)) from error
    except BaseException:
        lock.release()
        raise
    return _Opened(generation, View(shard, spec, recount=spec.recount), lock)
