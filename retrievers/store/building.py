"""An embedded collection, built beside the one of its name and renamed into its place: whole, or as it was.

PATH/edge.json                        says that this is a store of ours
PATH/writer.lock                      held by the one process that builds
PATH/collections/NAME/shard/          what the engine keeps
PATH/collections/NAME/collection.json written last: vectors, metadata, number of points, size of every file
PATH/collections/.NAME.new, .NAME.old a collection under construction; one that is being replaced

A process that is killed between the two renames leaves .NAME.old alone: readers open it, and the next build puts it
back first. Nothing is repaired: a collection whose files have other sizes is indexed again.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import qdrant_edge as edge
from pydantic import BaseModel
from qdrant_client import models

from retrievers.config.files import LOCAL_MODE, FileLock, LockBusyError
from retrievers.errors import (
    CollectionDamagedError,
    EmbeddingMismatchError,
    RetrievalError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnreachableError,
)
from retrievers.store.local_mode import is_local_mode

MARKER, RECORD, FORMAT = "edge.json", "collection.json", 2
LONGEST_NAME = 200
# The engine grows its files in steps of 32 MB, which are holes on most file systems but not in one that is in memory;
# past a full disk it does not fail, the system ends the process.
SPARE_BYTES = 200_000_000
ROOM = 3
# Addresses: the engine maps files up to three times, and its threads reserve more. Short of them it deletes the payload
# indexes that it could not map.
MAPPED, SPARE_MEMORY = 3, 250_000_000
DISTANCES = {"Cosine": edge.Distance.Cosine, "Dot": edge.Distance.Dot}
KINDS = {name: getattr(edge.PayloadSchemaType, name.title()) for name in ("keyword", "integer", "float", "bool")}
TRIES = 3
# Messages of Linux, of its quotas, and of Windows.
NO_ROOM = re.compile("No space left on device|Disk quota exceeded|There is not enough space on the disk")


class Build:
    """A collection under construction."""

    def __init__(self, shard: edge.EdgeShard, dense: Mapping[str, models.VectorParams], doing: str) -> None:
        self._shard, self._dense, self._doing = shard, dense, doing

    def upsert(self, points: Sequence[models.PointStruct]) -> None:
        """Store points, replacing those of the same id.

        Raises:
            EmbeddingMismatchError: A vector has another length than the collection's.
            StoreError: A vector holds what is no number.
        """
        converted = [self._point(point) for point in points]
        if converted:
            with engine_errors(self._doing):
                self._shard.update(edge.UpdateOperation.upsert_points(converted))

    def _point(self, point: models.PointStruct) -> edge.Point:
        named = point.vector if isinstance(point.vector, Mapping) else {"": point.vector}
        vectors: dict[str, Any] = {}
        for name, vector in named.items():
            values = np.asarray(vector.values if isinstance(vector, models.SparseVector) else vector, dtype=np.float32)
            if not np.isfinite(values).all():
                raise StoreError(f"point {point.id}: vector {name!r} holds a value that is not a finite number")
            if not isinstance(vector, models.SparseVector):
                if name in self._dense and values.shape != (self._dense[name].size,):
                    raise EmbeddingMismatchError(
                        f"point {point.id}: expected {self._dense[name].size} dimensions in vector {name!r}, got "
                        f"{values.size}; it was made by another model than the collection's"
                    )
                vectors[name] = values.tolist()
            # One without terms has nothing to be found by, and the engine would count it.
            elif vector.indices:
                vectors[name] = edge.SparseVector(vector.indices, vector.values)
        key: Any = point.id if isinstance(point.id, int) else str(point.id)
        return edge.Point(key, vectors, json.loads(json.dumps(point.payload or {}, default=str)))


@contextmanager
def building(
    store: Path,
    name: str,
    *,
    vectors: models.VectorParams | Mapping[str, models.VectorParams],
    sparse: Mapping[str, models.SparseVectorParams] | None = None,
    metadata: Mapping[str, Any] | None = None,
    indexes: Mapping[str, str] | None = None,
) -> Iterator[Build]:
    """Build a collection in the block; at its end it takes the place of one of its name, at an exception nothing does.

    Args:
        store: The folder of the store.
        name: The collection.
        vectors: Its dense vectors, of distance cosine or dot.
        sparse: Its sparse vectors.
        metadata: What it records of itself.
        indexes: Payload keys that filters name to their kind: keyword, integer, float or bool.

    Raises:
        StoreLockedError: Another process is building in the store.
        StoreError: It cannot be written; a collection of that name is as it was.
    """
    dense = {"": vectors} if isinstance(vectors, models.VectorParams) else dict(vectors)
    other = next((params.distance for params in dense.values() if params.distance.value not in DISTANCES), None)
    if other:
        raise StoreError(f"distance {other.value}: an embedded collection has cosine or dot")
    folder = _checked_path(store, name)
    new, old = (folder.with_name(f".{folder.name}.{part}") for part in ("new", "old"))
    doing = f"collection {name!r} at {store} cannot be written, and is as it was"
    with _writing(store):
        try:
            with engine_errors(doing):
                shutil.rmtree(new, ignore_errors=True)
                _restored(folder, old)
                new.mkdir(parents=True)
                shard = edge.EdgeShard.create(str(new / "shard"), _engine_config(dense, sparse or {}))
            yield Build(shard, dense, doing)
            with engine_errors(doing):
                for key, kind in (indexes or {}).items():
                    shard.update(edge.UpdateOperation.create_field_index(key, KINDS[kind]))
                record = {
                    "format": FORMAT,
                    "engine": engine_version(),
                    "points": _settled(shard, new / "shard"),
                    "vectors": _plain(dense),
                    "sparse": _plain(sparse or {}),
                    "indexes": dict(indexes or {}),
                    "metadata": metadata,
                    "files": sizes(new / "shard"),
                }
                (new / RECORD).write_text(json.dumps(record), encoding="utf-8")
                for file in [*new.rglob("*"), new]:
                    _synced(file)
                _put_in_place(folder, new, old)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def opened(folder: Path) -> tuple[edge.EdgeShard, Mapping[str, Any]]:
    """Open a collection after looking at the sizes of its files: the engine may crash on damaged ones.

    Raises:
        CollectionDamagedError: They are not as they were written, or it was built by another version.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        other = record["format"] != FORMAT or record["engine"] != engine_version()
        recorded, points = record["files"], record["points"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, f"its {RECORD} cannot be read ({error})") from error
    if other:
        raise damaged(folder, f"it was built by qdrant-edge {record['engine']}, this is {engine_version()}")
    found = sizes(folder / "shard")
    differing = sorted(name for name in recorded.keys() | found.keys() if recorded.get(name) != found.get(name))
    if differing:
        first = differing[0]
        raise damaged(folder, f"expected {recorded.get(first)} bytes in {first}, found {found.get(first)}")
    _check_memory(folder, sum(found.values()))
    shard = edge.EdgeShard.load(str(folder / "shard"))
    if shard.info().points_count != points:
        raise damaged(folder, f"expected {points} points, found {shard.info().points_count}")
    return shard, record


def _check_memory(folder: Path, size: int) -> None:
    """Refuse to map files where a limit of the process leaves too little room: the engine would damage them, or hang.

    Raises:
        StoreError: There is too little.
    """
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not on this system
        return
    needed = MAPPED * size + SPARE_MEMORY
    if limit != resource.RLIM_INFINITY and limit - used < needed:
        raise StoreError(
            f"the collection in {folder} needs {needed / 1e6:,.0f} MB of addresses, the process's limit (ulimit -v) "
            f"leaves {(limit - used) / 1e6:,.0f} MB; raise it"
        )


def damaged(folder: Path, said: str) -> CollectionDamagedError:
    """Return the error for a collection that must be made again."""
    return CollectionDamagedError(f"the collection in {folder} is not as it was written: {said}; index the pages again")


def open_store(path: Path, *, create: bool) -> None:
    """Check that a folder is an embedded store, or make it one.

    Raises:
        StoreUnreachableError: It does not exist, or cannot be used.
        StoreError: It is qdrant-client's local mode.
    """
    try:
        if (path / MARKER).exists():
            return
        if is_local_mode(path):
            raise StoreError(
                f"{path}: found a folder of qdrant-client's local mode, expected one of an embedded store; to read it "
                f"write --store.path {LOCAL_MODE}{path}. Opening it runs the pickles in it: only for a folder that you "
                "trust. It is never written to: name another folder to index into"
            )
        if not create:
            raise StoreUnreachableError(
                f"no embedded store at {path}: index pages into it first (python -m retrievers index DIR), "
                "or name another place with --store.path or --store.url"
            )
        (path / "collections").mkdir(parents=True, exist_ok=True)
        (path / MARKER).write_text(json.dumps({"format": "retrievers.edge", "version": FORMAT}), encoding="utf-8")
    except OSError as error:
        raise StoreUnreachableError(
            f"the embedded store at {path} cannot be opened: {error.strerror}; name another place with --store.path"
        ) from error


def folder_of(store: Path, name: str) -> Path | None:
    """Return the folder of a collection; None where there is none."""
    path = _path(store, name)
    if len(path.name) > LONGEST_NAME:
        return None
    old = path.with_name(f".{path.name}.old")
    for _ in range(TRIES):  # one of the two is there, unless it is being replaced right now
        for folder in (path, old):
            if folder.is_dir():
                return folder
    return None


def stamp(folder: Path) -> tuple[int, int]:
    """Return a value that differs for every build of a collection."""
    try:
        stat = (folder / RECORD).stat()
    except OSError as error:
        raise damaged(folder, f"it has no {RECORD}: an earlier version built it") from error
    return stat.st_ino, stat.st_mtime_ns


def names(store: Path) -> list[str]:
    """Return the names of all collections."""
    folders = [entry.name for entry in (store / "collections").iterdir() if entry.is_dir()]
    shown = {name for name in folders if not name.startswith(".")}
    replaced = {name[1 : -len(".old")] for name in folders if name.startswith(".") and name.endswith(".old")}
    return sorted(map(unquote, shown | replaced))


def check_room(store: Path, name: str, size: int) -> None:
    """Refuse to build where the disk has too little room.

    Args:
        store: The folder of the store.
        name: The collection.
        size: Estimate of its bytes.

    Raises:
        StoreFullError: There is none.
        StoreError: The collection cannot be made under this name.
    """
    _checked_path(store, name)
    need, free = ROOM * size + SPARE_BYTES, shutil.disk_usage(store).free
    if free < need:
        raise StoreFullError(
            f"the disk of {store} has {free / 1e6:,.0f} MB free, and building collection {name!r} may take "
            f"{need / 1e6:,.0f} MB; make room, or write to another folder (--store.path); nothing was changed"
        )


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what the engine and the disk raise, panics included, into a StoreError that begins with `doing`."""
    try:
        yield
    except RetrievalError:
        raise
    except Exception as error:
        kind = StoreFullError if NO_ROOM.search(str(error)) else StoreError
        raise kind(f"{doing}: the embedded engine says: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the class of faults inside the engine
            raise
        raise StoreError(f"{doing}: the embedded engine failed: {error}") from error


@cache
def engine_version() -> str:
    """Return the engine's version up to the part within which its files stay readable."""
    return ".".join(version("qdrant-edge-py").split(".")[:2])


def sizes(shard: Path) -> dict[str, int]:
    """Return the size of every file of a shard, by its path."""
    return {str(f.relative_to(shard).as_posix()): f.stat().st_size for f in shard.rglob("*") if f.is_file()}


def _path(store: Path, name: str) -> Path:
    """Return the folder of a name, escaped so that any name fits, none leaves the store, and none begins with a dot."""
    escaped = quote(name, safe=" ")
    return store / "collections" / (f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped)


def _checked_path(store: Path, name: str) -> Path:
    path = _path(store, name)
    if len(path.name) > LONGEST_NAME:
        raise StoreError(
            f"collection {name[:20]!r}… of {len(name)} characters: expected 1 to {LONGEST_NAME}, "
            "where one that is no plain letter or digit counts three for each of its bytes; choose a shorter name"
        )
    return path


def _restored(folder: Path, old: Path) -> None:
    """Clear away what a process left that was killed between the renames, or after them."""
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(folder)


def _plain(parameters: Mapping[str, BaseModel]) -> dict[str, Any]:
    return {name: each.model_dump(mode="json", exclude_none=True) for name, each in parameters.items()}


def _engine_config(
    dense: Mapping[str, models.VectorParams], sparse: Mapping[str, models.SparseVectorParams]
) -> edge.EdgeConfig:
    return edge.EdgeConfig(
        vectors={
            name: edge.EdgeVectorParams(size=params.size, distance=DISTANCES[params.distance.value])
            for name, params in dense.items()
        },
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(
                modifier=edge.Modifier.Idf if params.modifier == models.Modifier.IDF else None
            )
            for name, params in sparse.items()
        },
        wal_enabled=False,  # a collection comes into force whole or not at all
    )


def _settled(shard: edge.EdgeShard, folder: Path) -> int:
    """Close a shard, and open and close it once more: later openings change no byte then. Return its points."""
    points = shard.info().points_count
    shard.flush()
    shard.close()
    again = edge.EdgeShard.load(str(folder))
    count = int(again.info().points_count)
    again.close()
    if count != points:
        raise StoreError(f"{folder} holds {count} points after writing {points}")
    return count


def _put_in_place(folder: Path, new: Path, old: Path) -> None:
    try:
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except OSError as error:
        if not folder.exists() and old.exists():
            old.rename(folder)
        raise StoreLockedError(
            f"{folder} cannot be replaced ({error.strerror}): where an open folder cannot be renamed, as on Windows, "
            "close the programs that read it, and index again"
        ) from error
    _synced(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _synced(path: Path) -> None:
    """Force a file or folder to the disk, so that a power cut finds its content with its name."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _writing(store: Path) -> Iterator[None]:
    try:
        lock = FileLock(store / "writer.lock", create=True)
    except LockBusyError as error:
        raise StoreLockedError(
            f"the embedded store at {store} is being written to by another process; wait for it to finish, "
            "or write to another folder (--store.path); it can be read meanwhile"
        ) from error
    except OSError as error:
        raise StoreUnreachableError(f"the embedded store at {store} cannot be written to: {error}") from error
    with lock:
        yield
