"""Chunks to points: vectors, term weights and payload."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.sparse import sparse, sparse_embeddings
from retrievers.indexing.payloads import to_payload
from retrievers.records import Chunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

# Writes chunks as points, replacing those of the same id.
Add = Callable[[Sequence[Chunk]], None]


def adder(
    client: "QdrantClient", config: RetrieverConfig, vectors: Mapping[str, list[float]], encoder: Bm25Encoder
) -> Add:
    """Return a function that adds chunks: through langchain-qdrant, or point by point for a flat payload.

    Args:
        client: An open client.
        config: Names the collection, its vectors and its payload keys.
        vectors: Text to vector, for every chunk that will be added.
        encoder: Weighs the terms.
    """
    if config.metadata.nested_under:
        return _through_langchain(client, config, vectors, encoder)
    return _flat(client, config, vectors, encoder)


def _through_langchain(
    client: "QdrantClient", config: RetrieverConfig, vectors: Mapping[str, list[float]], encoder: Bm25Encoder
) -> Add:
    from langchain_qdrant import QdrantVectorStore, RetrievalMode

    store = QdrantVectorStore(
        client,
        config.collection,
        embedding=_Prepared(vectors),
        vector_name=config.vector_name,
        retrieval_mode=RetrievalMode.HYBRID,
        sparse_embedding=sparse_embeddings(encoder),
        sparse_vector_name=config.keyword.vector_name,
        content_payload_key=config.metadata.text_key,
        metadata_payload_key=config.metadata.nested_under,
        validate_collection_config=False,  # it would embed a dummy text, which a paid provider bills
    )

    def add(chunks: Sequence[Chunk]) -> None:
        store.add_texts(
            [chunk.text for chunk in chunks],
            [to_payload(chunk, config.metadata)[config.metadata.nested_under] for chunk in chunks],
            [chunk.point_id for chunk in chunks],
            batch_size=len(chunks),
        )

    return add


def _flat(
    client: "QdrantClient", config: RetrieverConfig, vectors: Mapping[str, list[float]], encoder: Bm25Encoder
) -> Add:
    """Return a function that adds points itself: langchain-qdrant nests all metadata but the text."""
    from qdrant_client import models

    def add(chunks: Sequence[Chunk]) -> None:
        points = [
            models.PointStruct(
                id=chunk.point_id,
                vector={
                    config.vector_name: vectors[chunk.text],
                    config.keyword.vector_name: sparse(encoder.document(chunk.text)),
                },
                payload=to_payload(chunk, config.metadata),
            )
            for chunk in chunks
        ]
        client.upsert(config.collection, points)

    return add


class _Prepared(Embeddings):
    """Vectors that are already there, handed to langchain-qdrant."""

    def __init__(self, vectors: Mapping[str, list[float]]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vectors[text]
