"""Candidates from Qdrant: in the total order, ties at the edge included before the cut."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.connection import store_errors
from retrievers.errors import StoreError
from retrievers.payload import payload_keys, to_chunk
from retrievers.records import Chunk, RetrievedChunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

SCROLL_PAGE = 1_000


def semantic(
    client: "QdrantClient", config: RetrieverConfig, vectors: Sequence[Sequence[float]], depth: int
) -> list[tuple[RetrievedChunk, ...]]:
    """Search by cosine similarity, one result for each vector.

    Args:
        client: An open client.
        config: Names the collection and its payload.
        vectors: Query vectors.
        depth: How many candidates to return; equal scores at the edge are fetched too before the cut, so that the
            order (score descending, chunk id ascending) alone decides which of them stay.

    Returns:
        For each vector its candidates in the total order, scores clipped to [0, 1].

    Raises:
        StoreError: The store failed.
    """
    now = datetime.now(UTC)
    with store_errors(config.store, config.collection):
        found = [_points(client, config, list(vector), depth) for vector in vectors]
    return [
        rank([(to_chunk(p.id, p.payload, config.metadata), p.score) for p in points], now)[:depth] for points in found
    ]


def rank(scored: Sequence[tuple[Chunk, float]], now: datetime) -> tuple[RetrievedChunk, ...]:
    """Put scored chunks into the total order: cosine descending, then chunk id ascending; ranks from 1.

    Scores are taken as float32, which is what a Qdrant server computes: local mode works in float64 and normalises its
    vectors anew, in place, at every search, so the bits beyond float32 change from one search to the next.
    """
    clipped = [(chunk, _clipped(score)) for chunk, score in scored]
    clipped.sort(key=lambda pair: (-pair[1], pair[0].chunk_id))
    return tuple(
        RetrievedChunk(
            rank=place, score=score, score_scale="cosine", scores={"semantic": score}, chunk=chunk, retrieved_at=now
        )
        for place, (chunk, score) in enumerate(clipped, 1)
    )


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


def _clipped(score: float) -> float:
    return min(1.0, max(0.0, float(np.float32(score))))


def _condition(name: str, values: Sequence[str], config: RetrieverConfig) -> "models.Condition":
    from qdrant_client import models

    if name == "point_id":
        return models.HasIdCondition(has_id=[known for value in values if (known := _point_id(value)) is not None])
    match = models.MatchAny(any=list(values))
    keys = payload_keys(name, config.metadata)
    return models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])


def _point_id(value: str) -> int | str | None:
    """An id as Qdrant takes it, a whole number or a UUID; None for another text."""
    if value.isdecimal():
        return int(value)
    try:
        return str(UUID(value))
    except ValueError:
        return None


def _points(client: "QdrantClient", config: RetrieverConfig, vector: list[float], depth: int) -> list[Any]:
    limit = depth + 1
    while True:
        points = client.query_points(
            config.collection, query=vector, using=config.vector_name or None, limit=limit, with_payload=True
        ).points
        if any(point.score != point.score for point in points):
            raise StoreError(
                f"collection {config.collection!r} returned a score that is not a number; its vectors are broken"
            )
        if len(points) < limit or _clipped(points[depth - 1].score) != _clipped(points[-1].score):
            return points
        limit *= 2
