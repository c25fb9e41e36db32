"""Requests to Qdrant, many in one round trip: the best points of a vector, and the scores of given points.

Points come as ids and scores; whatever else is stored with them is read later, for those that an answer needs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.errors import BatchTooLargeError, StoreError
from retrievers.store import NO_LIMITS, Limits, least, parts
from retrievers.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One search of one vector.

    Attributes:
        query: A dense vector or a `models.SparseVector`.
        using: Name of the vector searched, None for the unnamed one.
        depth: Number of points to find.
        among: Condition that every point must meet.
        read: Reads raw scores: `cosine` or `bm25` of this module.
        with_payload: True to let the points' payloads come along.
    """

    query: Any
    using: str | None
    depth: int
    among: "models.Filter | None"
    read: Callable[[Floats], Floats]
    with_payload: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PointProbe:
    """Points whose scores for one vector are asked for, by the ids that the store gave; the rest as of a `Probe`."""

    query: Any
    using: str | None
    points: Sequence[Any]
    read: Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPoints:
    """Points found, the best first and equal ones in any order.

    Attributes:
        points: Their ids as the store gave them.
        scores: One for each of them, float32 values.
        payloads: One for each of them where they came along, else none.
    """

    points: Sequence[Any]
    scores: NDArray[np.float64]
    payloads: Sequence[Mapping[str, Any]]


def cosine(raw: Floats) -> Floats:
    """Raw cosines clipped to [0, 1].

    They are taken as float32, which is what a Qdrant server computes: its local mode works in float64 and normalises
    its vectors again, in place, at every search, so the bits beyond float32 change from one search to the next.
    """
    return np.clip(raw, 0, 1) + np.float32(0)  # makes -0 a plain 0


def bm25(raw: Floats) -> Floats:
    """Raw BM25 scores as they are, in float32."""
    return raw


def ask(
    client: "QdrantClient", config: RetrieverConfig, probes: Sequence[Probe], limits: Limits = NO_LIMITS
) -> list[FoundPoints]:
    """Return the points of each probe, with all that tie with the last; a tied edge is asked for again, deeper.

    Args:
        client: An open client.
        config: Names the collection.
        probes: Vectors to search for.
        limits: Limits of the collection; a probe deeper than that is several requests.

    Raises:
        StoreError: A score is not a number.
    """
    found: dict[int, FoundPoints] = {}
    depths = {place: probe.depth + 1 for place, probe in enumerate(probes)}
    while depths:
        pages = [(place, page) for place, depth in depths.items() for page in _pages(probes[place], depth, limits)]
        answers = _batch(client, config, [page for _, page in pages], limits)
        of_place: dict[int, list[tuple[Sequence[Any], Floats]]] = {place: [] for place in depths}
        for (place, _), answer in zip(pages, answers, strict=True):
            of_place[place].append(answer)
        read = {place: _read(several, probes[place]) for place, several in of_place.items()}
        found |= read
        depths = {
            place: 2 * depth
            for place, depth in depths.items()
            if len(read[place].points) == depth and _tied(read[place].scores, probes[place].depth)
        }
    return [found[place] for place in range(len(probes))]


def _pages(probe: Probe, depth: int, limits: Limits) -> "Iterator[models.QueryRequest]":
    """Yield the requests of a probe to a depth: one, or as many as the limits of the collection make it."""
    from qdrant_client import models

    size = least(depth, limits.results)
    for start in range(0, depth, size):
        yield models.QueryRequest(
            query=probe.query,
            using=probe.using,
            filter=probe.among,
            limit=min(size, depth - start),
            offset=start or None,
            with_payload=probe.with_payload,
        )


def _read(pages: Sequence[tuple[Sequence[Any], Floats]], probe: Probe) -> FoundPoints:
    """Join the pages of a probe; a point that two of them name counts once."""
    found = pages[0][0]
    ids, raw = [point.id for point in found], pages[0][1]
    if len(pages) > 1:
        distinct = {point.id: point for points, _ in pages for point in points}
        ids, found = list(distinct), list(distinct.values())
        raw = np.asarray([point.score for point in found], dtype=np.float32)
    payloads = [point.payload or {} for point in found] if probe.with_payload else ()
    return FoundPoints(points=ids, scores=probe.read(raw).astype(np.float64), payloads=payloads)


def _tied(scores: NDArray[np.float64], depth: int) -> bool:
    return bool(scores[depth - 1] == scores[-1])


def _batch(
    client: "QdrantClient", config: RetrieverConfig, requests: "Sequence[models.QueryRequest]", limits: Limits
) -> list[tuple[Sequence[Any], Floats]]:
    """Return the points of each request with raw scores: one round trip for all that the collection takes at once."""
    size = least(max(1, len(requests)), limits.queries)
    answers = [points for part in parts(requests, size) for points in _sent(client, config.collection, part)]
    found = [(points, np.asarray([point.score for point in points], dtype=np.float32)) for points in answers]
    if any(np.isnan(raw).any() for _, raw in found):
        raise StoreError(
            f"collection {config.collection!r} returned a score that is not a number; its vectors are broken"
        )
    return found


def _sent(
    client: "QdrantClient", collection: str, requests: "Sequence[models.QueryRequest]"
) -> Sequence[Sequence[Any]]:
    """Return the points of each request, by the client's shortest way; in halves where a server demands it."""
    if isinstance(client, EmbeddedStore):
        return client.nearest(collection, requests)
    if len(requests) > 1:
        try:
            return [answer.points for answer in client.query_batch_points(collection, list(requests))]
        except BatchTooLargeError:
            half = len(requests) // 2
            return [*_sent(client, collection, requests[:half]), *_sent(client, collection, requests[half:])]
    one = requests[0]
    answer = client.query_points(
        collection,
        query=one.query,
        using=one.using,
        query_filter=one.filter,
        search_params=one.params,
        limit=one.limit or 1,
        offset=one.offset,
        with_payload=bool(one.with_payload),
    )
    return [answer.points]


def scores_of(
    client: "QdrantClient", config: RetrieverConfig, probes: Sequence[PointProbe], limits: Limits = NO_LIMITS
) -> list[dict[Any, float]]:
    """Return the scores of given points for each probe, by the id of the point as it was given.

    A point that shares no term with a sparse vector is left out, and so is one without the vector it is compared by.

    Args:
        client: An open client.
        config: Names the collection.
        probes: Vectors, each with the points that it is compared with.
        limits: Limits of the collection.

    Raises:
        StoreError: A score is not a number.
    """
    requests = [(place, page) for place, probe in enumerate(probes) for page in _of_points(probe, limits)]
    scores: list[dict[Any, float]] = [{} for _ in probes]
    answers = _batch(client, config, [request for _, request in requests], limits)
    for (place, _), (points, raw) in zip(requests, answers, strict=True):
        values = probes[place].read(raw).tolist()
        scores[place] |= {point.id: score for point, score in zip(points, values, strict=True)}
    return scores


def _of_points(probe: PointProbe, limits: Limits) -> "Iterator[models.QueryRequest]":
    """Yield the requests for the scores of given points; exact, since an index may not find all that are asked for.

    Where the collection allows no exact search, the condition on the ids leaves so few points that the server looks at
    each of them anyway; it must not take their quantised vectors for that.
    """
    from qdrant_client import models

    plain = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
    ids = probe.points
    for part in parts(ids, least(max(1, len(ids)), limits.results, limits.values)):
        yield models.QueryRequest(
            query=probe.query,
            using=probe.using,
            filter=models.Filter(must=[models.HasIdCondition(has_id=list(part))]),
            params=models.SearchParams(exact=True) if limits.exact else plain,
            limit=len(part),
            with_payload=False,
        )
