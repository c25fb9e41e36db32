"""Changes to a collection, through langchain-qdrant: texts, vectors and term weights, with the manifest around them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.connection import MANIFEST_KEY, all_or_nothing, describe, location, store_errors
from retrievers.errors import CollectionStateError
from retrievers.keyword import Bm25Encoder
from retrievers.payload import to_metadata
from retrievers.records import Chunk
from retrievers.sparse import sparse_embeddings

if TYPE_CHECKING:
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient

WRITE_BATCH = 256
INDEXED: Mapping[str, str] = {
    **dict.fromkeys(("source_url", "title", "heading", "section_path", "module", "chapter", "tags"), "keyword"),
    **dict.fromkeys(("source_document_id", "file_path", "chunk_id"), "keyword"),
    **dict.fromkeys(("chunk_index", "total_chunks", "chunk_token_count"), "integer"),
    "sidebar_position": "float",
}
"""Payload fields that filters are likely to name, with the kind of index each gets."""
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Chunks to add and to refresh, and point ids to remove."""

    added: tuple[Chunk, ...] = ()
    refreshed: tuple[Chunk, ...] = ()
    removed: tuple[str, ...] = ()


def write(
    client: "QdrantClient",
    config: RetrieverConfig,
    changes: Changes,
    vectors: Mapping[str, list[float]],
    manifest: Mapping[str, Any],
    *,
    exists: bool,
    progress: Progress,
) -> None:
    """Write changes, marked as unfinished until the last of them is in.

    Args:
        client: An open client.
        config: Names the collection and its vectors.
        changes: What to write.
        vectors: Text to vector, for every added chunk.
        manifest: What the collection is to record of itself, but for its state.
        exists: Whether the collection is kept and changed; otherwise one of that name is replaced.
        progress: Told how far the work is.

    Raises:
        StoreError: The store failed; the collection then says that it is unfinished.
    """
    name = config.collection
    unfinished = {MANIFEST_KEY: {**manifest, "state": "indexing"}}
    with store_errors(config.store, name), all_or_nothing(client, name):
        if exists:
            client.update_collection(name, metadata=unfinished)
        else:
            _create(client, config, manifest["embedding"]["dimension"], unfinished)
        store = _vector_store(client, config, vectors, manifest["bm25"])
        written = 0
        for batch in _batches(changes.added, WRITE_BATCH):
            store.add_texts(
                [c.text for c in batch],
                [to_metadata(c) for c in batch],
                [c.point_id for c in batch],
                batch_size=WRITE_BATCH,
            )
            written += len(batch)
            progress("writing", written, len(changes.added))
        for chunk in changes.refreshed:
            client.overwrite_payload(
                name, {"page_content": chunk.text, "metadata": to_metadata(chunk)}, points=[chunk.point_id]
            )
        if changes.removed:
            client.delete(name, points_selector=list(changes.removed))
        client.update_collection(name, metadata={MANIFEST_KEY: {**manifest, "state": "complete"}})


def _refuse_forgetful(client: "QdrantClient", config: RetrieverConfig) -> None:
    """A server before 1.16 drops the metadata: nothing would say which model made the vectors."""
    if not describe(client, config).manifest:
        client.delete_collection(config.collection)
        raise CollectionStateError(
            f"the Qdrant at {location(config.store)} does not keep collection metadata; "
            "indexing needs version 1.16 or later"
        )


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
    for field, kind in INDEXED.items():
        client.create_payload_index(config.collection, f"metadata.{field}", field_schema=models.PayloadSchemaType(kind))


def _vector_store(
    client: "QdrantClient", config: RetrieverConfig, vectors: Mapping[str, list[float]], bm25: Mapping[str, Any]
) -> "QdrantVectorStore":
    from langchain_qdrant import QdrantVectorStore, RetrievalMode

    return QdrantVectorStore(
        client,
        config.collection,
        embedding=_Prepared(vectors),
        vector_name=config.vector_name,
        retrieval_mode=RetrievalMode.HYBRID,
        sparse_embedding=sparse_embeddings(Bm25Encoder(bm25["language"], bm25["average_length"])),
        sparse_vector_name=config.keyword.vector_name,
        validate_collection_config=False,  # it would embed a dummy text, which a paid provider bills
    )


class _Prepared(Embeddings):
    """Vectors that are already there, handed to langchain-qdrant."""

    def __init__(self, vectors: Mapping[str, list[float]]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vectors[text]


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
