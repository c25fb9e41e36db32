"""Requests to Qdrant, many in one round trip: the best points of a vector, and the scores of given points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.keyword import TermWeights

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One search of one vector.

    Attributes:
        query: A dense vector or a `models.SparseVector`.
        using: Name of the vector searched, None for the unnamed one.
        depth: How many points are wanted.
        among: What every point must meet.
        read: How a raw score is taken: `cosine` or `bm25` of this module.
    """

    query: Any
    using: str | None
    depth: int
    among: "models.Filter | None"
    read: Callable[[float], float]


def cosine(score: float) -> float:
    """A raw cosine as float32, clipped to [0, 1]."""
    return min(1.0, max(0.0, float(np.float32(score))))


def bm25(score: float) -> float:
    """A raw BM25 score as float32."""
    return float(np.float32(score))


def sparse(terms: TermWeights) -> "models.SparseVector":
    """Term weights as Qdrant takes them."""
    from qdrant_client import models

    return models.SparseVector(indices=list(terms.indices), values=list(terms.values))


def ask(client: "QdrantClient", config: RetrieverConfig, probes: Sequence[Probe]) -> list[list[Any]]:
    """The points of each probe, with all that tie with the last; a probe whose edge is tied is asked again, deeper."""
    from qdrant_client import models

    found: dict[int, list[Any]] = {}
    limits = {place: probe.depth + 1 for place, probe in enumerate(probes)}
    while limits:
        requests = [
            models.QueryRequest(
                query=probes[place].query,
                using=probes[place].using,
                filter=probes[place].among,
                limit=limit,
                with_payload=True,
            )
            for place, limit in limits.items()
        ]
        answers = dict(zip(limits, _batch(client, config, requests), strict=True))
        found |= answers
        limits = {
            place: 2 * limit
            for place, limit in limits.items()
            if len(answers[place]) == limit and _tied(answers[place], probes[place])
        }
    return [found[place] for place in range(len(probes))]


def _batch(
    client: "QdrantClient", config: RetrieverConfig, requests: "Sequence[models.QueryRequest]"
) -> list[list[Any]]:
    """The points of each request: one round trip for all of them."""
    if not requests:
        return []
    if len(requests) == 1:
        one = requests[0]
        answer = client.query_points(
            config.collection,
            query=one.query,
            using=one.using,
            query_filter=one.filter,
            limit=one.limit or 1,
            with_payload=bool(one.with_payload),
        )
        found = [answer.points]
    else:
        found = [answer.points for answer in client.query_batch_points(config.collection, list(requests))]
    if any(point.score != point.score for points in found for point in points):
        raise StoreError(
            f"collection {config.collection!r} returned a score that is not a number; its vectors are broken"
        )
    return found


def _tied(points: Sequence[Any], probe: Probe) -> bool:
    return probe.read(points[probe.depth - 1].score) == probe.read(points[-1].score)


def scores_of(
    client: "QdrantClient",
    config: RetrieverConfig,
    vectors: Sequence[tuple[Any, str | None]],
    points: Sequence[Sequence[str]],
) -> list[dict[str, float]]:
    """The raw score, as float32, of given points for the vector at the same place, by point id.

    Args:
        client: An open client.
        config: Names the collection.
        vectors: Query vectors with the name of the vector they are compared with.
        points: For each of them the ids of the points wanted; one that shares no term with a
            sparse vector is left out.

    Raises:
        StoreError: A score is not a number.
    """
    from qdrant_client import models

    asked = [place for place, wanted in enumerate(points) if wanted]
    requests = [
        models.QueryRequest(
            query=vectors[place][0],
            using=vectors[place][1],
            filter=models.Filter(must=[models.HasIdCondition(has_id=[point_id(known) for known in points[place]])]),
            limit=len(points[place]),
            with_payload=False,
        )
        for place in asked
    ]
    found: list[dict[str, float]] = [{} for _ in points]
    for place, answer in zip(asked, _batch(client, config, requests), strict=True):
        found[place] = {str(point.id): bm25(point.score) for point in answer}
    return found


def point_id(value: str) -> Any:
    """An id as Qdrant takes it, a whole number or a UUID; None for another text."""
    if value.isdecimal():
        return int(value)
    try:
        return str(UUID(value))
    except ValueError:
        return None
