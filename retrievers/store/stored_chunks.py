"""Reading chunks that fit a condition, and stored vectors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionChangedError, CollectionStateError
from retrievers.records import Chunk
from retrievers.store import NO_LIMITS, CollectionInfo, Limits, least, parts, store_errors
from retrievers.store.payload import filter_path, payload_keys, to_chunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

SCROLL_PAGE = 1_000


def vectors_of(client: "QdrantClient", config: RetrieverConfig, points: Sequence[Any]) -> NDArray[np.float64]:
    """Return the stored vectors of points, one row each, shape (points, dimension).

    Args:
        client: An open client.
        config: Names the collection and its vector.
        points: Ids as the store gave them.

    Raises:
        CollectionChangedError: One of them is gone.
        CollectionStateError: One of them has no vector.
        StoreError: The store failed.
    """
    if not points:
        return np.empty((0, 0))
    vectors = _dense(client, config, points)
    names = list(map(str, points))
    if any(vectors.get(name) is None for name in names):
        without_vector(client, config, [name for name in names if vectors.get(name) is None])
    return np.asarray([vectors[name] for name in names], dtype=float)


def without_vector(client: "QdrantClient", config: RetrieverConfig, points: Sequence[str]) -> NoReturn:
    """Say why points have no cosine.

    Raises:
        CollectionChangedError: One of them is gone.
        CollectionStateError: They have no vector, and so nothing that the threshold could read.
        StoreError: The store failed.
    """
    vectors = _dense(client, config, points)
    bare = [point for point in points if point in vectors and vectors[point] is None]
    if not bare:
        raise changed(config, points[0])
    name = f"vector {config.vector_name!r}" if config.vector_name else "dense vector"
    raise CollectionStateError(
        f"point {bare[0]} of collection {config.collection!r} has no {name}, so that its similarity to a query, which "
        "the threshold reads, cannot be computed; store one for every point, or set vector_name to one that all have"
    )


def changed(config: RetrieverConfig, point: str) -> CollectionChangedError:
    """Return the error for a point that was found and is no longer there."""
    return CollectionChangedError(
        f"collection {config.collection!r} changed during the search: point {point}, which it found, is gone; try again"
    )


def _dense(client: "QdrantClient", config: RetrieverConfig, points: Sequence[Any]) -> dict[str, Any]:
    """Return the vector of each point that is there, None where it has none."""
    with store_errors(config.store, config.collection):
        ids = list(map(as_id, points))
        names = [config.vector_name] if config.vector_name else True
        records = client.retrieve(config.collection, ids, with_payload=False, with_vectors=names)
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
        limits: Limits of the collection on one request.
        among: Condition on every point.
        count: Number of at most; all when left out.

    Raises:
        StoreError: The store failed.
    """
    offset: Any = None
    left = math.inf if count is None else count
    while left > 0:
        size = least(int(min(SCROLL_PAGE, left)), limits.results)
        with store_errors(config.store, config.collection):
            points, offset = client.scroll(config.collection, among, limit=size, offset=offset, with_payload=True)
        yield from points
        left = 0 if offset is None else left - len(points)


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
        info: Properties of the collection; without them no limits are assumed.

    Raises:
        StoreError: The store failed.
    """
    where = where or {}
    limits = info.limits if info else NO_LIMITS
    filter_here = info is not None and not _filtered_there(where, config, info)
    filters = [None] if filter_here else _filters(where, config, limits)
    result = {
        str(record.id): to_chunk(record.id, record.payload, config.metadata)
        for among in filters
        for record in records(client, config, limits, among=among)
    }
    chunks = (chunk for chunk in result.values() if not filter_here or _matches(chunk, where))
    return sorted(chunks, key=lambda chunk: chunk.chunk_id)


def as_id(point: Any) -> Any:
    """Return the id of a point that was found, as Qdrant takes it."""
    return int(point) if isinstance(point, str) and point.isdecimal() else point


def point_id(value: str) -> Any:
    """Return an id as Qdrant takes it, a whole number or a UUID; None for another text."""
    if value.isdecimal():
        return int(value)
    try:
        return str(UUID(value))
    except ValueError:
        return None


def _filtered_there(where: Mapping[str, Sequence[str]], config: RetrieverConfig, info: CollectionInfo) -> bool:
    """Return True if the collection filters by these fields."""
    keys = [filter_path(key) for name in where if name != "point_id" for key in payload_keys(name, config.metadata)]
    return info.limits.unindexed or all(info.indexed.get(key) == "keyword" for key in keys)


def _matches(chunk: Chunk, where: Mapping[str, Sequence[str]]) -> bool:
    """Return True if every field of a chunk has, or as a list holds, one of its values."""
    values_by_field = {name: getattr(chunk, name) for name in where}
    lists = {name: value if isinstance(value, tuple) else (value,) for name, value in values_by_field.items()}
    return all(not {*values}.isdisjoint(lists[name]) for name, values in where.items())


def _filters(where: Mapping[str, Sequence[str]], config: RetrieverConfig, limits: Limits) -> "list[models.Filter]":
    """Split the conditions on points into filters, so that no condition holds more values than are allowed."""
    from qdrant_client import models

    choices = [
        [_condition(name, part, config) for part in parts(values, least(max(1, len(values)), limits.values))]
        for name, values in where.items()
    ]
    return [models.Filter(must=list(conditions)) for conditions in product(*choices)]


def _condition(name: str, values: Sequence[str], config: RetrieverConfig) -> "models.Condition":
    from qdrant_client import models

    if name == "point_id":
        return models.HasIdCondition(has_id=[number for value in values if (number := point_id(value)) is not None])
    match = models.MatchAny(any=list(values))
    keys = map(filter_path, payload_keys(name, config.metadata))
    return models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])
