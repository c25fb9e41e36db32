"""The chunks of a collection: payloads to chunks and back, the chunks of found points, and lists of all chunks."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.errors import CollectionChangedError, StoreError
from retrievers.records import ALIASES, METADATA_FIELDS, Chunk
from retrievers.store.collection import KINDS, CollectionInfo, by_name
from retrievers.store.opening import store_errors
from retrievers.text import well_formed

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

# Numbers of chunks in a chunk table.
Codes = NDArray[np.int32]
# Points of a page. Servers in strict mode give as many.
SCROLL_PAGE = 256
# The preview is written for readers of the payload. It is never read back.
_WRITTEN = dict.fromkeys((*METADATA_FIELDS, "chunk_text_preview"))


# Payloads


def to_metadata(chunk: Chunk) -> dict[str, Any]:
    """Return the metadata that indexing writes: every field that the chunk has, and the preview of its text."""
    values = {name: getattr(chunk, name) for name in _WRITTEN}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if v is not None}


def to_chunk(point_id: Any, payload: Mapping[str, Any] | None, config: MetadataConfig) -> Chunk:
    """Read a payload as a chunk. A value of the wrong type is left out and named in `problems`. Nothing is guessed.

    If there is no `chunk_id`, the chunk has the id of its point, so that scores and golden data can name it.
    """
    payload = payload or {}
    nested = payload.get(config.nested_under) if config.nested_under else payload
    metadata: Mapping[str, Any] = nested if isinstance(nested, Mapping) else {}
    values: dict[str, Any] = {"chunk_id": str(point_id), "text": ""}
    problems: list[str] = []
    given = {key: raw for key, raw in metadata.items() if raw is not None}
    for name, keys in config.keys.items():
        if given.keys().isdisjoint(keys):
            continue
        raw = next(given[key] for key in keys if key in given)
        if (value := KINDS[name].read(raw)) is not None:
            values[name] = value
        else:
            problems.append(f"{name}: expected {KINDS[name].expected}, got {raw!r}")
    text = payload.get(config.text_key)
    if isinstance(text, str):
        values["text"] = well_formed(text)
    else:
        problems.append(f"text: expected text under payload key {config.text_key!r}, got {text!r}")
    beside = payload if config.nested_under else {}
    extra = {key: value for key, value in beside.items() if key not in (config.text_key, config.nested_under)}
    extra |= {key: value for key, value in metadata.items() if key not in _WRITTEN and key != config.text_key}
    return Chunk(point_id=str(point_id), problems=tuple(problems), extra=extra, **values)


def to_payload(chunk: Chunk, config: MetadataConfig) -> dict[str, Any]:
    """Return the payload that indexing writes, from which `to_chunk` reads the same chunk under the same settings."""
    fields = {config.map.get(name, name): value for name, value in to_metadata(chunk).items()}
    return {config.text_key: chunk.text} | ({config.nested_under: fields} if config.nested_under else fields)


def all_metadata(chunk: Chunk) -> dict[str, Any]:
    """Return every field that a chunk has, and the rest of its payload."""
    return {**chunk.extra, **to_metadata(chunk)}


def payload_keys(name: str, config: MetadataConfig) -> tuple[str, ...]:
    """Return the full payload keys that a field may have, e.g. `metadata.source_url`."""
    keys = config.keys[ALIASES.get(name, name)]
    return tuple(f"{config.nested_under}.{key}" if config.nested_under else key for key in keys)


def possible_keys(field: str, config: MetadataConfig) -> tuple[str, ...]:
    """Return the full payload keys that a filter may mean by a field's name or by a key's own, the likeliest first."""
    keys = payload_keys(field, config) if ALIASES.get(field, field) in METADATA_FIELDS else ()
    return (*keys, f"{config.nested_under}.{field}", field) if config.nested_under else (*keys, field)


def filter_path(key: str) -> str:
    """Write a payload key for Qdrant's filters. A part between dots that is no plain word is quoted."""
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in key.split("."))


# Points


class ChunkTable:
    """The chunks of points that were found in a search or in a run. The table grows, and a chunk keeps its number."""

    def __init__(self, client: "QdrantClient", config: RetrieverConfig) -> None:
        self._client, self._config = client, config
        self._codes: dict[Any, int] = {}
        self._points: list[Any] = []
        self._chunks: dict[int, Chunk] = {}

    def __len__(self) -> int:
        return len(self._points)

    def codes(self, points: Iterable[Any]) -> Codes:
        """Number points by their ids as the store gives them. A known point keeps its number."""
        numbers = self._codes
        codes = np.asarray([numbers.setdefault(point, len(numbers)) for point in points], dtype=np.int32)
        if len(numbers) > len(self._points):
            self._points = list(numbers)
        return codes

    def read(self, codes: Iterable[int]) -> None:
        """Read the chunks that were not read yet, all of them in one request.

        Raises:
            CollectionChangedError: A chunk is gone.
            StoreError: The store failed.
        """
        missing = [code for code in dict.fromkeys(codes) if code not in self._chunks]
        if not missing:
            return
        name = self._config.collection
        with store_errors(self._config.store, name):
            points = self._client.retrieve(name, [self._points[code] for code in missing], with_payload=True)
        payloads = {str(record.id): record.payload for record in points}
        for code in missing:
            point = self.point(code)
            if point not in payloads:
                raise changed(self._config, point)
            self._chunks[code] = to_chunk(point, payloads[point], self._config.metadata)

    def point(self, code: int) -> str:
        """Return the id of a chunk's point, as text."""
        return str(self._points[code])

    def given(self, codes: NDArray[np.integer[Any]]) -> list[Any]:
        """Return the ids of points as the store gave them. It takes them back at less cost than text."""
        return [self._points[code] for code in codes.tolist()]

    def __getitem__(self, code: int) -> Chunk:
        """Return a chunk that was read."""
        return self._chunks[code]


def vectors_of(client: "QdrantClient", config: RetrieverConfig, points: Sequence[Any]) -> NDArray[np.float64]:
    """Return the stored vectors of points, one row each, shape (points, dimension).

    Args:
        client: An open client.
        config: Names the collection and its vector.
        points: Ids as the store gave them.

    Raises:
        CollectionChangedError: A point is gone.
        StoreError: A point has no vector, so that the threshold has nothing to read; or the store failed.
    """
    name = config.vector_name
    with store_errors(config.store, config.collection):
        answer = client.retrieve(config.collection, points, with_payload=False, with_vectors=[name] if name else True)
    stored: dict[str, Any] = {str(record.id): by_name(record.vector).get(name) for record in answer}
    for point in map(str, points):
        if point not in stored:
            raise changed(config, point)
        if stored[point] is None:
            message = f"point {point} of collection {config.collection!r} has no dense vector {name!r}"
            raise StoreError(f"{message}, which the threshold reads; set vector_name to one that all points have")
    return np.asarray([stored[str(point)] for point in points], dtype=float)


def unit(vectors: Any) -> NDArray[np.float64]:
    """Return vectors scaled to length 1, one row each, shape (vectors, dimension). A vector of length 0 stays."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def changed(config: RetrieverConfig, point: Any) -> CollectionChangedError:
    """Return the error for a point that a search found, and that is gone."""
    message = f"collection {config.collection!r} changed during the search: point {point}, which it found, is gone"
    return CollectionChangedError(f"{message}; try again")


# Without a search


def records(
    client: "QdrantClient",
    config: RetrieverConfig,
    *,
    among: "models.Filter | None" = None,
    count: int | None = None,
    with_vectors: Any = False,
    info: CollectionInfo | None = None,
) -> "Iterator[models.Record]":
    """Read points with their payloads, page by page, in the store's order.

    Args:
        client: An open client.
        config: Names the collection.
        among: Condition on every point.
        count: Most points to read; all when left out.
        with_vectors: True to read all vectors of the points as well, or the names of some.
        info: Properties of the collection, to check that all its points came.

    Raises:
        StoreError: The store failed, or ended its answer before the last point.
    """
    left, offset, came = math.inf if count is None else count, None, 0
    while left > 0:
        size = int(min(SCROLL_PAGE, left))
        with store_errors(config.store, config.collection):
            points, offset = client.scroll(
                config.collection, among, limit=size, offset=offset, with_payload=True, with_vectors=with_vectors
            )
        yield from points
        came += len(points)
        left = 0 if offset is None else left - len(points)
    if info and among is None and came < info.points and count is None:
        with store_errors(config.store, config.collection):
            held = min(info.points, client.count(config.collection).count)  # some may have been added or removed
        if came < held:
            raise StoreError(f"collection {config.collection!r} gave {came:,} of its {held:,} points; try again")


def scroll(
    client: "QdrantClient",
    config: RetrieverConfig,
    where: Mapping[str, Sequence[str]] | None = None,
    info: CollectionInfo | None = None,
) -> list[Chunk]:
    """Read chunks without searching, ordered by chunk id.

    If the collection does not take the conditions (strict mode), all chunks are read and matched here.

    Args:
        client: An open client.
        config: Names the collection and its payload.
        where: The values that each field may have, by the field's name or `point_id`; all chunks when left out.
        info: Properties of the collection. When left out, it is assumed to take the conditions.

    Raises:
        StoreError: The store failed, or did not list all points.
    """
    from qdrant_client import models

    where, among = where or {}, None
    if where and (info is None or info.takes_filters):
        among = models.Filter(must=[_condition(name, values, config) for name, values in where.items()])
    chunks = (to_chunk(r.id, r.payload, config.metadata) for r in records(client, config, among=among, info=info))
    return sorted((chunk for chunk in chunks if _matches(chunk, where)), key=lambda chunk: chunk.chunk_id)


def point_id(value: str) -> Any:
    """Return a point id as Qdrant takes it, which is a whole number or a UUID; None for any other text."""
    try:
        return int(value) if value.isdecimal() else str(UUID(value))
    except ValueError:
        return None


def _matches(chunk: Chunk, where: Mapping[str, Sequence[str]]) -> bool:
    """Return True if every named field of a chunk has one of the values, or is a list that holds one of them."""
    for name, values in where.items():
        value = chunk.value(name)
        if not {*(value if isinstance(value, tuple) else [value])} & {*values}:
            return False
    return True


def _condition(name: str, values: Sequence[str], config: RetrieverConfig) -> "models.Condition":
    from qdrant_client import models

    if name == "point_id":
        return models.HasIdCondition(has_id=[point for value in values if (point := point_id(value)) is not None])
    match = models.MatchAny(any=list(values))
    keys = map(filter_path, payload_keys(name, config.metadata))
    return models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])
