"""Chunks to points: vectors, term weights and payload, as langchain-qdrant reads them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.indexing.payloads import to_payload
from retrievers.records import Chunk

if TYPE_CHECKING:
    from qdrant_client import models


def to_points(
    chunks: Sequence[Chunk], config: RetrieverConfig, vectors: Mapping[str, list[float]], encoder: Bm25Encoder
) -> "list[models.PointStruct]":
    """Make the points of chunks.

    langchain-qdrant could not write them: it embeds the text that it stores, here without the context.

    Args:
        chunks: The chunks.
        config: Names the vectors and the payload keys.
        vectors: Indexed text to vector, for every chunk.
        encoder: Weighs the terms.
    """
    from qdrant_client import models

    return [
        models.PointStruct(
            id=chunk.point_id,
            vector={
                config.vector_name: vectors[chunk.indexed_text],
                config.keyword.vector_name: encoder.document(chunk.indexed_text),
            },
            payload=to_payload(chunk, config.metadata),
        )
        for chunk in chunks
    ]
