"""Build an embedded collection beside the one of its name, then rename it into its place.

So a collection is replaced as a whole, or stays as it was.

PATH/writer.lock                      locked by the one process that builds
PATH/collections/NAME/shard/          the files of the engine
PATH/collections/NAME/collection.json written last: the description, the engine's version, the size of every file
PATH/collections/.NAME.new            a collection under construction
PATH/collections/.NAME.old            a collection that is being replaced

A process that is killed between the two renames leaves .NAME.old alone. Readers open it, and the next build first puts
it back. Nothing is repaired: if its files have other sizes, a collection has to be indexed again.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import portalocker
import qdrant_edge as edge
from qdrant_client import models

from retrievers.config.files import file_lock
from retrievers.errors import CollectionNotFoundError, RetrievalError, StoreError

RECORD = "collection.json"
# The engine grows its files in steps of 32 MB. If the disk is full it does not fail: the system ends the process.
ROOM, SPARE_BYTES = 3, 200_000_000
# The engine maps files up to three times, and its threads reserve further addresses. If it gets too few, it deletes the
# payload indexes that it could not map, or hangs.
MAPPED, SPARE_ADDRESSES = 3, 250_000_000
DISTANCES = {"Cosine": edge.Distance.Cosine, "Dot": edge.Distance.Dot}
KINDS = {name: getattr(edge.PayloadSchemaType, name.title()) for name in ("keyword", "integer", "float", "bool")}
# Qdrant's own defaults, for readers of the description of a collection.
DEFAULTS = {
    "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
    "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
}
log = logging.getLogger(__name__)

Upsert = Callable[[Sequence[models.PointStruct]], None]


@contextmanager
def building(
    store: Path,
    name: str,
    *,
    vectors: models.VectorParams | Mapping[str, models.VectorParams],
    sparse: Mapping[str, models.SparseVectorParams] | None = None,
    metadata: Mapping[str, Any] | None = None,
    indexes: Mapping[str, str] | None = None,
    locked: bool = False,
) -> Iterator[Upsert]:
    """Build a collection in the block. At the end of the block it replaces the collection of its name.

    The block gets the function that stores points, in place of those of the same id. If it raises an exception, nothing
    is replaced.

    Args:
        store: The folder of the store.
        name: The collection.
        vectors: Its dense vectors, of distance cosine or dot.
        sparse: Its sparse vectors.
        metadata: Its record about itself.
        indexes: Kind (keyword, integer, float or bool) of each payload key that gets an index.
        locked: The caller holds the lock of the store.

    Raises:
        StoreError: The collection cannot be written, a vector has another length than the collection's, or another
            process is building in the store. The collection of that name is then as it was.
    """
    folder, old = _places(store, name)
    new = old.with_suffix(".new")
    doing = f"collection {name!r} at {store} cannot be written, and is as it was"
    with nullcontext() if locked else lock(store):
        try:
            with engine_errors(doing):
                shutil.rmtree(new, ignore_errors=True)
                if old.exists() and not folder.exists():  # a process was killed between the two renames
                    old.rename(folder)
                new.mkdir(parents=True)
                shard = edge.EdgeShard.create(str(new / "shard"), _engine_config(vectors, sparse or {}))

            def upsert(points: Sequence[models.PointStruct]) -> None:
                with engine_errors(doing):
                    shard.update(edge.UpdateOperation.upsert_points([*map(_point, points)]))

            yield upsert
            with engine_errors(doing):
                for key, kind in (indexes or {}).items():
                    shard.update(edge.UpdateOperation.create_field_index(key, KINDS[kind]))
                points = _settled(shard, new / "shard")
                params = models.CollectionParams(vectors=vectors, sparse_vectors=sparse)
                info = _description(points, params, metadata, indexes or {})
                files = [file.relative_to(new / "shard").as_posix() for file in new.rglob("*") if file.is_file()]
                record = {"engine": engine_version(), "info": info, "files": _sizes(new / "shard", files)}
                (new / RECORD).write_text(json.dumps(record), encoding="utf-8")
                shutil.rmtree(old, ignore_errors=True)
                if folder.exists():
                    folder.rename(old)
                new.rename(folder)
                shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def find(store: Path, name: str) -> tuple[Path, tuple[int, int]] | None:
    """Return the folder of a collection, and a stamp that differs for every build; None if there is no collection."""
    # It is in one of two places, unless it is being replaced at this moment.
    for folder in _places(store, name) * 3:
        with suppress(OSError):
            stat = (folder / RECORD).stat()
            return folder, (stat.st_ino, stat.st_mtime_ns)
    return None


def opened(folder: Path) -> tuple[edge.EdgeShard, models.CollectionInfo]:
    """Open a collection after a check of the sizes of its files: the engine may crash on damaged files.

    Raises:
        CollectionNotFoundError: The files are not as they were written, or another version of the engine wrote them.
        StoreError: The process may not map so much memory.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        # To open a shard, the engine writes two files anew and renames them. A killed process may leave a further file.
        if (record["engine"], record["files"]) != (engine_version(), _sizes(folder / "shard", record["files"])):
            raise ValueError(f"its files have other sizes, or are of qdrant-edge {record['engine']}")
        info = models.CollectionInfo.model_validate(record["info"])
        _check_addresses(folder, sum(record["files"].values()))
        shard = edge.EdgeShard.load(str(folder / "shard"))
        if shard.info().points_count != info.points_count:
            raise ValueError(f"expected {info.points_count} points, found {shard.info().points_count}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        message = f"the collection in {folder} is not as it was written ({error}); index the pages again"
        raise CollectionNotFoundError(f"{message} (python -m retrievers index DIR)") from error
    return shard, info


def names(store: Path) -> list[str]:
    """Return the names of all collections in a store."""
    folders = (record.parent.name for record in (store / "collections").glob(f"*/{RECORD}"))
    return sorted({unquote(name.lstrip(".").removesuffix(".old")) for name in folders if not name.endswith(".new")})


def check_room(store: Path, name: str, size: int) -> None:
    """Refuse to build a collection if the disk has too little room for it.

    Args:
        store: The folder of the store.
        name: The collection.
        size: Estimate of its bytes.

    Raises:
        StoreError: There is too little room.
    """
    need, free = ROOM * size + SPARE_BYTES, shutil.disk_usage(store).free
    if free < need:
        message = f"{store} has {free / 1e6:,.0f} MB free, and collection {name!r} may take {need / 1e6:,.0f} MB"
        raise StoreError(f"{message}; make room, or write to another folder (store.path); nothing was changed")


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn the errors of the engine and the disk, panics included, into a StoreError that begins with `doing`."""
    try:
        yield
    except BaseException as error:
        # A fault inside the engine raises a PanicException, which is no Exception.
        is_fault = isinstance(error, Exception) or type(error).__name__ == "PanicException"
        if not is_fault or isinstance(error, RetrievalError | MemoryError | BrokenPipeError):
            raise
        closed = any(cause in str(error) for cause in ("Read-only file system", "Permission denied"))
        remedy = "; a store must be writable, even to be searched: name another folder with store.path"
        remedy = f"{remedy} (a packaged collection: with XDG_CACHE_HOME)" if closed else ""
        raise StoreError(f"{doing}: {error}{remedy}") from error


@cache
def engine_version() -> str:
    """Return the part of the engine's version that stays the same while its files stay readable."""
    return ".".join(version("qdrant-edge-py").split(".")[:2])


@cache
def _places(store: Path, name: str) -> tuple[Path, Path]:
    """Return the folder of a collection, and its folder while it is being replaced.

    Names are escaped, so that any name is possible, none leaves the store, and none looks like another kind of folder.
    """
    folder = store / "collections" / quote(name, safe=" ").replace(".", "%2E")
    return folder, folder.with_name(f".{folder.name}.old")


def lock(store: Path, *, wait: bool = False) -> portalocker.Lock:
    """Keep other processes from building in a store.

    Args:
        store: The folder of the store.
        wait: True to wait for another holder of the lock, False to refuse at once.

    Raises:
        StoreError: Another process holds the lock, and `wait` is not set; or the folder cannot be written to.
    """
    file, place = store / "writer.lock", f"the embedded store at {store}"
    try:
        return file_lock(file, wait=False)
    except portalocker.AlreadyLocked as error:
        if not wait:
            message = f"{place} is being written to by another process"
            raise StoreError(f"{message}; wait for it, or write to another folder (store.path)") from error
        log.warning("waiting for another run, which writes to %s", place)
        return file_lock(file)
    except (OSError, portalocker.LockException) as error:
        raise StoreError(f"{place} cannot be written to ({error}); write to another folder (store.path)") from error


def _engine_config(vectors: Any, sparse: Mapping[str, models.SparseVectorParams]) -> edge.EdgeConfig:
    dense = {"": vectors} if isinstance(vectors, models.VectorParams) else vectors
    named = {n: edge.EdgeVectorParams(size=p.size, distance=DISTANCES[p.distance.value]) for n, p in dense.items()}
    modifiers = {n: edge.Modifier.Idf if p.modifier else None for n, p in sparse.items()}
    terms = {n: edge.EdgeSparseVectorParams(modifier=modifier) for n, modifier in modifiers.items()}
    # No log of writes is needed: a collection is replaced as a whole or not at all.
    return edge.EdgeConfig(vectors=named, sparse_vectors=terms, wal_enabled=False)


def _description(
    points: int, params: models.CollectionParams, metadata: Mapping[str, Any] | None, indexes: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the description of a collection, as a server gives it."""
    config = {"params": params.model_dump(mode="json", exclude_none=True), "metadata": metadata}
    schema = {key: {"data_type": kind, "points": points} for key, kind in indexes.items()}
    state = {"status": "green", "optimizer_status": "ok", "segments_count": 1, "points_count": points}
    return state | {"payload_schema": schema, "config": config | DEFAULTS}


def _point(point: models.PointStruct) -> edge.Point:
    given: Any = point.vector if isinstance(point.vector, Mapping) else {"": point.vector}
    key: Any = point.id
    vectors = {
        name: edge.SparseVector(vector.indices, vector.values) if isinstance(vector, models.SparseVector) else vector
        for name, vector in given.items()
        # A vector without terms cannot be found, but the engine would count it.
        if not isinstance(vector, models.SparseVector) or vector.indices
    }
    return edge.Point(key, vectors, point.payload)


def _settled(shard: edge.EdgeShard, folder: Path) -> int:
    """Close a shard, then open and close it again, so that later openings change no byte. Return the points' number."""
    shard.flush()
    shard.close()
    with closing(edge.EdgeShard.load(str(folder))) as again:
        return int(again.info().points_count)


def _sizes(shard: Path, files: Iterable[str]) -> dict[str, int]:
    return {file: (shard / file).stat().st_size for file in files}


def _check_addresses(folder: Path, size: int) -> None:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not on this system
        return
    if limit != resource.RLIM_INFINITY and limit - used < (needed := MAPPED * size + SPARE_ADDRESSES):
        raise StoreError(f"{folder} needs {needed / 1e6:,.0f} MB of addresses, more than ulimit -v leaves; raise it")
