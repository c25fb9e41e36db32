"""Changes to a collection: points added, refreshed and removed, with the manifest around them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import BatchTooLargeError, CollectionStateError
from retrievers.indexing.points import to_payload, to_points
from retrievers.records import Chunk
from retrievers.store import MANIFEST_KEY, describe, least, location, parts, store_errors
from retrievers.store.embedded import EmbeddedClient, is_embedded
from retrievers.store.payload import filter_path, payload_keys

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

WRITE_BATCH = 256
# Fields that filters are likely to name, with the kind of payload index each gets.
INDEXED: Mapping[str, str] = {
    **dict.fromkeys(("source_url", "title", "heading", "section_path", "module", "chapter", "tags"), "keyword"),
    **dict.fromkeys(("source_document_id", "file_path", "chunk_id"), "keyword"),
    **dict.fromkeys(("chunk_index", "total_chunks", "chunk_token_count"), "integer"),
    "sidebar_position": "float",
}
# Called with the stage, the amount done, and the total.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Chunks to add and to refresh, and point ids to remove."""

    added: Sequence[Chunk] = ()
    refreshed: Sequence[Chunk] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Order:
    """Order to write a collection.

    Attributes:
        config: Names the collection, its vectors and its payload keys.
        changes: The chunks.
        vectors: Indexed text to vector, for every added chunk.
        manifest: Record of the collection about itself, without its state.
        exists: True to keep and change the collection; otherwise one of that name is replaced.
    """

    config: RetrieverConfig
    changes: Changes
    vectors: Mapping[str, list[float]]
    manifest: Mapping[str, Any]
    exists: bool


def write(client: "QdrantClient", order: Order, progress: Progress) -> None:
    """Write changes, marked as unfinished until the last of them is in.

    Args:
        client: An open client.
        order: Order to carry out.
        progress: Called with the stage, the amount done and the total.

    Raises:
        StoreError: The store failed; the collection then says that it is unfinished.
    """
    config, changes, manifest, name = order.config, order.changes, order.manifest, order.config.collection
    if is_embedded(client):
        _build(client, order, progress)
        return
    with store_errors(config.store, name):
        _begin(client, config, manifest, exists=order.exists)
        encoder = Bm25Encoder(manifest["bm25"]["language"], manifest["bm25"]["average_length"])
        written = 0
        for batch in parts(changes.added, least(WRITE_BATCH, describe(client, config).limits.points)):
            _add(client, name, to_points(batch, config, order.vectors, encoder))
            written += len(batch)
            progress("writing", written, len(changes.added))
        for chunk in changes.refreshed:
            client.overwrite_payload(name, to_payload(chunk, config.metadata), points=[chunk.point_id])
        if changes.removed:
            client.delete(name, points_selector=list(changes.removed))
        client.update_collection(name, metadata={MANIFEST_KEY: {**manifest, "state": "complete"}})


def _build(client: EmbeddedClient, order: Order, progress: Progress) -> None:
    """Build an embedded collection anew: what is unchanged is copied from the one of its name, with its vectors."""
    from qdrant_client import models

    config, changes, name = order.config, order.changes, order.config.collection
    encoder = Bm25Encoder(order.manifest["bm25"]["language"], order.manifest["bm25"]["average_length"])
    refreshed = {chunk.point_id: to_payload(chunk, config.metadata) for chunk in changes.refreshed}
    left_out = {*changes.removed, *(chunk.point_id for chunk in changes.added)}
    parameters = models.VectorParams(size=order.manifest["embedding"]["dimension"], distance=models.Distance.COSINE)
    with client.building(
        name,
        vectors={config.vector_name: parameters},
        sparse={config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        metadata={MANIFEST_KEY: {**order.manifest, "state": "complete"}},
        indexes={filter_path(payload_keys(field, config.metadata)[0]): kind for field, kind in INDEXED.items()},
    ) as build:
        offset, more = None, order.exists
        while more:
            records, offset = client.scroll(name, limit=WRITE_BATCH, offset=offset, with_vectors=True)
            stored = ((str(record.id), record) for record in records)
            build.upsert(
                [
                    models.PointStruct(id=record.id, vector=record.vector, payload=refreshed.get(key, record.payload))
                    for key, record in stored
                    if key not in left_out
                ]
            )
            more = offset is not None
        written = 0
        for batch in parts(changes.added, WRITE_BATCH):
            build.upsert(to_points(batch, config, order.vectors, encoder))
            written += len(batch)
            progress("writing", written, len(changes.added))


def _add(client: "QdrantClient", collection: str, points: "Sequence[models.PointStruct]") -> None:
    """Add points, replacing those of the same id; in halves where the store wants it so."""
    try:
        client.upsert(collection, points)
    except BatchTooLargeError:
        if len(points) == 1:
            raise
        half = len(points) // 2
        _add(client, collection, points[:half])
        _add(client, collection, points[half:])


def _begin(client: "QdrantClient", config: RetrieverConfig, manifest: Mapping[str, Any], *, exists: bool) -> None:
    """Make the collection or keep it, marked as unfinished, with a payload index wherever one is wanted."""
    unfinished = {MANIFEST_KEY: {**manifest, "state": "indexing"}}
    if exists:
        client.update_collection(config.collection, metadata=unfinished)
    else:
        _create(client, config, manifest["embedding"]["dimension"], unfinished)
    present = client.get_collection(config.collection).payload_schema
    for field, kind in INDEXED.items():
        key = filter_path(payload_keys(field, config.metadata)[0])
        if key not in present:
            client.create_payload_index(config.collection, key, field_schema=_index_kind(kind))


def _index_kind(kind: str) -> Any:
    from qdrant_client import models

    return models.PayloadSchemaType(kind)


def _create(client: "QdrantClient", config: RetrieverConfig, dimension: int, metadata: dict[str, Any]) -> None:
    from qdrant_client import models

    size = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
    if client.collection_exists(config.collection):
        client.delete_collection(config.collection)
    client.create_collection(
        config.collection,
        vectors_config={config.vector_name: size} if config.vector_name else size,
        sparse_vectors_config={config.keyword.vector_name: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        metadata=metadata,
    )
    _refuse_forgetful(client, config)


def _refuse_forgetful(client: "QdrantClient", config: RetrieverConfig) -> None:
    """Refuse a server before 1.16: it drops the metadata, so that nothing would name the model of the vectors."""
    if not describe(client, config).manifest:
        client.delete_collection(config.collection)
        raise CollectionStateError(
            f"the Qdrant at {location(config.store)} does not keep collection metadata; "
            "indexing needs version 1.16 or later"
        )
