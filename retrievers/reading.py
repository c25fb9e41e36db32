"""Reading chunks: those of given points, each once and in one request; those that fit; and stored vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.connection import store_errors
from retrievers.errors import CollectionChangedError, CollectionStateError
from retrievers.payload import chunk_id, filter_path, payload_keys, to_chunk
from retrievers.records import Chunk

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
            records = self._client.retrieve(name, list(map(as_id, missing)), with_payload=True)
        self._payloads |= {str(record.id): record.payload or {} for record in records}
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


def scroll(
    client: "QdrantClient", config: RetrieverConfig, where: Mapping[str, Sequence[str]] | None = None
) -> list[Chunk]:
    """Read chunks without searching, ordered by chunk id.

    Args:
        client: An open client.
        config: Names the collection and its payload.
        where: Field to the values it may have, `point_id` included; all chunks when left out.

    Raises:
        StoreError: The store failed.
    """
    from qdrant_client import models

    conditions = [_condition(name, values, config) for name, values in (where or {}).items()]
    chunks: list[Chunk] = []
    offset: Any = None
    with store_errors(config.store, config.collection):
        while True:
            records, offset = client.scroll(
                config.collection, models.Filter(must=conditions), limit=SCROLL_PAGE, offset=offset, with_payload=True
            )
            chunks += [to_chunk(record.id, record.payload, config.metadata) for record in records]
            if offset is None:
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


def _condition(name: str, values: Sequence[str], config: RetrieverConfig) -> "models.Condition":
    from qdrant_client import models

    if name == "point_id":
        return models.HasIdCondition(has_id=[known for value in values if (known := point_id(value)) is not None])
    match = models.MatchAny(any=list(values))
    keys = map(filter_path, payload_keys(name, config.metadata))
    return models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])
