"""Requests to Qdrant, many in one round trip: the best points of a vector, and the scores of given points.

Points come as ids and scores; whatever else is stored with them is read later, for those that an answer needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.keyword import TermWeights

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One search of one vector.

    Attributes:
        query: A dense vector or a `models.SparseVector`.
        using: Name of the vector searched, None for the unnamed one.
        depth: How many points are wanted.
        among: What every point must meet.
        read: How raw scores are taken: `cosine` or `bm25` of this module.
        with_payload: Whether the points' payloads are to come along.
    """

    query: Any
    using: str | None
    depth: int
    among: "models.Filter | None"
    read: Callable[[Floats], Floats]
    with_payload: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Points whose scores for one vector are wanted: id to the id that the store gave; the rest as of a `Probe`."""

    query: Any
    using: str | None
    points: Mapping[str, Any]
    read: Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hits:
    """Points found, the best first and equal ones in any order.

    Attributes:
        points: Their ids, each with the id as the store gave it, which it takes back at less cost than the text.
        scores: One for each of them.
        payloads: Those that came along.
    """

    points: Mapping[str, Any]
    scores: Sequence[float]
    payloads: Mapping[str, Mapping[str, Any]]


def cosine(raw: Floats) -> Floats:
    """Raw cosines clipped to [0, 1].

    They are taken as float32, which is what a Qdrant server computes: its local mode works in float64 and normalises
    its vectors anew, in place, at every search, so the bits beyond float32 change from one search to the next.
    """
    return np.clip(raw, 0, 1) + np.float32(0)  # makes -0 a plain 0


def bm25(raw: Floats) -> Floats:
    """Raw BM25 scores as they are, in float32."""
    return raw


def sparse(terms: TermWeights) -> "models.SparseVector":
    """Term weights as Qdrant takes them."""
    from qdrant_client import models

    return models.SparseVector(indices=list(terms.indices), values=list(terms.values))


def ask(client: "QdrantClient", config: RetrieverConfig, probes: Sequence[Probe]) -> list[Hits]:
    """The points of each probe, with all that tie with the last; a probe whose edge is tied is asked again, deeper.

    Raises:
        StoreError: A score is not a number.
    """
    from qdrant_client import models

    found: dict[int, Hits] = {}
    limits = {place: probe.depth + 1 for place, probe in enumerate(probes)}
    while limits:
        requests = [
            models.QueryRequest(
                query=probes[place].query,
                using=probes[place].using,
                filter=probes[place].among,
                limit=limit,
                with_payload=probes[place].with_payload,
            )
            for place, limit in limits.items()
        ]
        answers = zip(limits, _batch(client, config, requests), strict=True)
        read = {place: _read(points, raw, probes[place]) for place, (points, raw) in answers}
        found |= read
        limits = {
            place: 2 * limit
            for place, limit in limits.items()
            if len(read[place].points) == limit and _tied(read[place].scores, probes[place].depth)
        }
    return [found[place] for place in range(len(probes))]


def _read(points: Sequence[Any], raw: Floats, probe: Probe) -> Hits:
    given = [point.id for point in points]
    ids = dict(zip(map(str, given), given, strict=True))
    payloads = {i: point.payload or {} for i, point in zip(ids, points, strict=True)} if probe.with_payload else {}
    return Hits(points=ids, scores=probe.read(raw).tolist(), payloads=payloads)


def _tied(scores: Sequence[float], depth: int) -> bool:
    return scores[depth - 1] == scores[-1]


def _batch(
    client: "QdrantClient", config: RetrieverConfig, requests: "Sequence[models.QueryRequest]"
) -> list[tuple[Sequence[Any], Floats]]:
    """The points of each request with their raw scores: one round trip for all of them."""
    answers = _sent(client, config.collection, requests) if requests else []
    found = [(points, np.asarray([point.score for point in points], dtype=np.float32)) for points in answers]
    if any(np.isnan(raw).any() for _, raw in found):
        raise StoreError(
            f"collection {config.collection!r} returned a score that is not a number; its vectors are broken"
        )
    return found


def _sent(
    client: "QdrantClient", collection: str, requests: "Sequence[models.QueryRequest]"
) -> Sequence[Sequence[Any]]:
    """The points of each request, by the shortest way that the client has."""
    nearest = getattr(client, "nearest", None)  # an embedded store's
    if nearest:
        found: Sequence[Sequence[Any]] = nearest(collection, requests)
        return found
    if len(requests) > 1:
        return [answer.points for answer in client.query_batch_points(collection, list(requests))]
    one = requests[0]
    answer = client.query_points(
        collection,
        query=one.query,
        using=one.using,
        query_filter=one.filter,
        search_params=one.params,
        limit=one.limit or 1,
        with_payload=bool(one.with_payload),
    )
    return [answer.points]


def scores_of(client: "QdrantClient", config: RetrieverConfig, wanted: Sequence[Wanted]) -> list[dict[str, float]]:
    """The scores of given points, for each of what is wanted, by point id.

    One that shares no term with a sparse vector is left out, and so is one without the vector it is compared by.

    Raises:
        StoreError: A score is not a number.
    """
    from qdrant_client import models

    asked = [place for place, one in enumerate(wanted) if one.points]
    requests = [
        models.QueryRequest(
            query=wanted[place].query,
            using=wanted[place].using,
            filter=models.Filter(must=[models.HasIdCondition(has_id=list(wanted[place].points.values()))]),
            params=models.SearchParams(exact=True),  # an index may not find all that are asked for
            limit=len(wanted[place].points),
            with_payload=False,
        )
        for place in asked
    ]
    found: list[dict[str, float]] = [{} for _ in wanted]
    for place, (points, raw) in zip(asked, _batch(client, config, requests), strict=True):
        names = {given: name for name, given in wanted[place].points.items()}
        scores = wanted[place].read(raw).tolist()
        found[place] = {names[point.id]: score for point, score in zip(points, scores, strict=True)}
    return found
