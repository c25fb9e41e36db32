"""Reading chunks: those of given points, each once and in one request; those that fit; and stored vectors."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionChangedError, CollectionStateError
from retrievers.records import Chunk
from retrievers.store import NO_LIMITS, CollectionInfo, Limits, least, parts, store_errors
from retrievers.store.payload import chunk_id, filter_path, payload_keys, to_chunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

SCROLL_PAGE = 1_000


class Chunks:
    """The chunks of points, kept for the length of a search, so that none is read twice."""

    def __init__(self, client: "QdrantClient", config: RetrieverConfig) -> None:
        self._client = client
        self._config = config
        self._payloads: dict[str, Mapping[str, Any]] = {}
        self._chunks: dict[str, Chunk] = {}

    def keep(self, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """Take payloads that came along with a search, by point id."""
        self._payloads |= payloads

    def read(self, points: Iterable[str]) -> None:
        """Read the payloads of points that are not known yet: one request for all of them, none for none.

        Raises:
            CollectionChangedError: One of them is gone.
            StoreError: The store failed.
        """
        missing = [point for point in dict.fromkeys(points) if point not in self._payloads]
        if not missing:
            return
        name = self._config.collection
        with store_errors(self._config.store, name):
            found = self._client.retrieve(name, list(map(as_id, missing)), with_payload=True)
        self._payloads |= {str(record.id): record.payload or {} for record in found}
        if gone := [point for point in missing if point not in self._payloads]:
            raise changed(self._config, gone[0])

    def ids(self, points: Iterable[str]) -> dict[str, str]:
        """The chunk ids of points that were read."""
        return {point: chunk_id(point, self._payloads[point], self._config.metadata) for point in points}

    def __getitem__(self, point: str) -> Chunk:
        """The chunk of a point that was read."""
        if point not in self._chunks:
            self._chunks[point] = to_chunk(point, self._payloads[point], self._config.metadata)
        return self._chunks[point]


def vectors_of(client: "QdrantClient", config: RetrieverConfig, points: Sequence[str]) -> NDArray[np.float64]:
    """The stored vectors of points, one row each, shape (points, dimension).

    Raises:
        CollectionChangedError: One of them is gone.
        CollectionStateError: One of them has no vector.
        StoreError: The store failed.
    """
    if not points:
        return np.empty((0, 0))
    found = _dense(client, config, points)
    if any(found.get(point) is None for point in points):
        without_vector(client, config, [point for point in points if found.get(point) is None])
    return np.asarray([found[point] for point in points], dtype=float)


def without_vector(client: "QdrantClient", config: RetrieverConfig, points: Sequence[str]) -> NoReturn:
    """Say why points have no cosine.

    Raises:
        CollectionChangedError: One of them is gone.
        CollectionStateError: They have no vector, and so nothing that the threshold could read.
        StoreError: The store failed.
    """
    found = _dense(client, config, points)
    bare = [point for point in points if point in found and found[point] is None]
    if not bare:
        raise changed(config, points[0])
    name = f"vector {config.vector_name!r}" if config.vector_name else "dense vector"
    raise CollectionStateError(
        f"point {bare[0]} of collection {config.collection!r} has no {name}, so that its similarity to a query, which "
        "the threshold reads, cannot be computed; store one for every point, or set vector_name to one that all have"
    )


def changed(config: RetrieverConfig, point: str) -> CollectionChangedError:
    """The error for a point that was found and is no longer there."""
    return CollectionChangedError(
        f"collection {config.collection!r} changed during the search: point {point}, which it found, is gone; try again"
    )


def _dense(client: "QdrantClient", config: RetrieverConfig, points: Sequence[str]) -> dict[str, Any]:
    """The vector of each point that is there, None where it has none."""
    with store_errors(config.store, config.collection):
        ids = list(map(as_id, points))
        stored = getattr(client, "stored", None)  # an embedded store's
        if stored:
            records = stored(config.collection, ids, with_vectors=[config.vector_name])
        else:
            wanted = [config.vector_name] if config.vector_name else True
            records = client.retrieve(config.collection, ids, with_payload=False, with_vectors=wanted)
    vectors: dict[str, Any] = {str(record.id): record.vector for record in records}
    return {i: v.get(config.vector_name) if isinstance(v, dict) else v for i, v in vectors.items()}


def records(
    client: "QdrantClient",
    config: RetrieverConfig,
    limits: Limits = NO_LIMITS,
    *,
    among: "models.Filter | None" = None,
    count: int | None = None,
) -> "Iterator[models.Record]":
    """Read points with their payloads, page by page, in the store's order.

    Args:
        client: An open client.
        config: Names the collection.
        limits: What the collection allows in one request.
        among: What every point must meet.
        count: How many at most; all when left out.

    Raises:
        StoreError: The store failed.
    """
    offset: Any = None
    left = math.inf if count is None else count
    while left > 0:
        size = least(int(min(SCROLL_PAGE, left)), limits.results)
        with store_errors(config.store, config.collection):
            found, offset = client.scroll(config.collection, among, limit=size, offset=offset, with_payload=True)
        yield from found
        left = 0 if offset is None else left - len(found)


def scroll(
    client: "QdrantClient",
    config: RetrieverConfig,
    where: Mapping[str, Sequence[str]] | None = None,
    info: CollectionInfo | None = None,
) -> list[Chunk]:
    """Read chunks without searching, ordered by chunk id.

    Where the collection filters by keys with an index alone, and one has none, all chunks are read and matched here.

    Args:
        client: An open client.
        config: Names the collection and its payload.
        where: Field to the values it may have, `point_id` included; all chunks when left out.
        info: What the collection says of itself; it is taken to set no limits when left out.

    Raises:
        StoreError: The store failed.
    """
    where = where or {}
    limits = info.limits if info else NO_LIMITS
    here = info is not None and not _filtered_there(where, config, info)
    filters = [None] if here else _filters(where, config, limits)
    found = {
        str(record.id): to_chunk(record.id, record.payload, config.metadata)
        for among in filters
        for record in records(client, config, limits, among=among)
    }
    chunks = (chunk for chunk in found.values() if not here or _matches(chunk, where))
    return sorted(chunks, key=lambda chunk: chunk.chunk_id)


def as_id(point: str) -> int | str:
    """The id of a point that was found, as Qdrant takes it."""
    return int(point) if point.isdecimal() else point


def point_id(value: str) -> Any:
    """An id as Qdrant takes it, a whole number or a UUID; None for another text."""
    if value.isdecimal():
        return int(value)
    try:
        return str(UUID(value))
    except ValueError:
        return None


def _filtered_there(where: Mapping[str, Sequence[str]], config: RetrieverConfig, info: CollectionInfo) -> bool:
    """Whether the collection filters by these fields."""
    keys = [filter_path(key) for name in where if name != "point_id" for key in payload_keys(name, config.metadata)]
    return info.limits.unindexed or all(info.indexed.get(key) == "keyword" for key in keys)


def _matches(chunk: Chunk, where: Mapping[str, Sequence[str]]) -> bool:
    """Whether every field of a chunk has, or as a list holds, one of its values."""
    held = {name: getattr(chunk, name) for name in where}
    lists = {name: value if isinstance(value, tuple) else (value,) for name, value in held.items()}
    return all(not {*values}.isdisjoint(lists[name]) for name, values in where.items())


def _filters(where: Mapping[str, Sequence[str]], config: RetrieverConfig, limits: Limits) -> "list[models.Filter]":
    """What points must meet, in as many filters as it takes for no condition to hold more values than are allowed."""
    from qdrant_client import models

    choices = [
        [_condition(name, part, config) for part in parts(values, least(max(1, len(values)), limits.values))]
        for name, values in where.items()
    ]
    return [models.Filter(must=list(conditions)) for conditions in product(*choices)]


def _condition(name: str, values: Sequence[str], config: RetrieverConfig) -> "models.Condition":
    from qdrant_client import models

    if name == "point_id":
        return models.HasIdCondition(has_id=[known for value in values if (known := point_id(value)) is not None])
    match = models.MatchAny(any=list(values))
    keys = map(filter_path, payload_keys(name, config.metadata))
    return models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])
