"""A tiny embedded collection on a circle: a chunk's vector is an angle, and so is a query's, so cosines are by hand."""

import re
from collections.abc import Mapping, Sequence
from math import cos, radians, sin
from pathlib import Path

from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient, models

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.embedding.models import CheckedEmbeddings
from retrievers.indexing.chunking import point_id
from retrievers.store.chunks import to_metadata
from tests.support.collections import writable
from tests.support.observed import make_chunk

ANGLES: Mapping[str, float] = {"east": 0, "tie-b": 45, "near": 10, "tie-a": 45, "north": 90, "half": 60}
"""Chunk id to degrees, in the order of insertion; two chunks have the very same vector."""


def unit(degrees: float) -> list[float]:
    """Return the unit vector in that direction."""
    return [cos(radians(degrees)), sin(radians(degrees))]


class Compass(Embeddings):
    """Embeds a text as the direction of the number in it, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def turned(self) -> float:
        """Return the error of this call in degrees; subclasses drift."""
        return 0.0

    def embed_query(self, text: str) -> list[float]:
        """Return the direction of the first number in the text."""
        number = re.search(r"\d+", text)
        if number is None:
            raise TimeoutError("the compass does not answer")
        self.asked += 1
        return unit(float(number[0]) + self.turned())

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed each as a query."""
        return [self.embed_query(text) for text in texts]


class Drifting(Compass):
    """Turns by some degrees after so many calls, as a provider that swaps its model would."""

    def __init__(self, after: int, degrees: float) -> None:
        super().__init__()
        self.after = after
        self.degrees = degrees

    def turned(self) -> float:
        """Return nothing at first, then always the same."""
        return self.degrees if self.asked > self.after else 0.0


def upsert(client: QdrantClient, collection: str, angles: Mapping[str, float]) -> None:
    """Write chunks by their angles."""
    chunks = [(make_chunk(chunk_id), angle) for chunk_id, angle in angles.items()]
    client.upsert(
        collection,
        [
            models.PointStruct(
                id=point_id(chunk.chunk_id),
                vector=unit(angle),
                payload={"page_content": chunk.text, "metadata": to_metadata(chunk)},
            )
            for chunk, angle in chunks
        ],
    )


def make_store(folder: Path, angles: Mapping[str, float] = ANGLES) -> Path:
    """Return an embedded collection `circle` that holds these chunks."""
    client = writable(StoreConfig(path=folder))
    size = models.VectorParams(size=2, distance=models.Distance.COSINE)
    client.create_collection("circle", vectors_config=size)
    upsert(client, "circle", angles)
    client.close()
    return folder


def open_retriever(folder: Path, embeddings: Embeddings, **settings: object) -> QdrantRetriever:
    """Return the real retriever over the collection, with these settings."""
    config = RetrieverConfig.model_validate(
        {"store": {"path": folder}, "collection": "circle", "trust_embedding": True, "threshold": 0.0, **settings}
    )
    return QdrantRetriever.open(config, env={}, embeddings=CheckedEmbeddings(embeddings, "compass"))


def cosines(query: float, chunk_ids: Sequence[str]) -> list[float]:
    """Return the expected scores, by the angle between query and chunk."""
    return [max(0.0, cos(radians(query - ANGLES[chunk_id]))) for chunk_id in chunk_ids]
