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


def ask(
    client: "QdrantClient", config: RetrieverConfig, probes: Sequence[Probe], limits: Limits = NO_LIMITS
) -> list[Hits]:
    """The points of each probe, with all that tie with the last; a probe whose edge is tied is asked again, deeper.

    Args:
        client: An open client.
        config: Names the collection.
        probes: What is searched for.
        limits: What the collection allows; a probe deeper than that is several requests.

    Raises:
        StoreError: A score is not a number.
    """
    found: dict[int, Hits] = {}
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
    """The requests that a probe to a depth comes to: one, or as many as the collection wants it in."""
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


def _read(pages: Sequence[tuple[Sequence[Any], Floats]], probe: Probe) -> Hits:
    """What the pages of a probe come to; a point that two of them name counts once."""
    points = {str(point.id): point for several, _ in pages for point in several}
    raw = np.asarray([point.score for point in points.values()], dtype=np.float32)
    payloads = {name: point.payload or {} for name, point in points.items()} if probe.with_payload else {}
    ids = {name: point.id for name, point in points.items()}
    return Hits(points=ids, scores=probe.read(raw).tolist(), payloads=payloads)


def _tied(scores: Sequence[float], depth: int) -> bool:
    return scores[depth - 1] == scores[-1]


def _batch(
    client: "QdrantClient", config: RetrieverConfig, requests: "Sequence[models.QueryRequest]", limits: Limits
) -> list[tuple[Sequence[Any], Floats]]:
    """The points of each request with their raw scores: one round trip for all that the collection takes at once."""
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
    """The points of each request, by the shortest way that the client has; in halves where a server wants it so."""
    nearest = getattr(client, "nearest", None)  # an embedded store's
    if nearest:
        found: Sequence[Sequence[Any]] = nearest(collection, requests)
        return found
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
    client: "QdrantClient", config: RetrieverConfig, wanted: Sequence[Wanted], limits: Limits = NO_LIMITS
) -> list[dict[str, float]]:
    """The scores of given points, for each of what is wanted, by point id.

    One that shares no term with a sparse vector is left out, and so is one without the vector it is compared by.

    Args:
        client: An open client.
        config: Names the collection.
        wanted: Whose scores.
        limits: What the collection allows.

    Raises:
        StoreError: A score is not a number.
    """
    requests = [(place, page) for place, one in enumerate(wanted) for page in _of_points(one, limits)]
    found: list[dict[str, float]] = [{} for _ in wanted]
    answers = _batch(client, config, [request for _, request in requests], limits)
    for (place, _), (points, raw) in zip(requests, answers, strict=True):
        names = {given: name for name, given in wanted[place].points.items()}
        scores = wanted[place].read(raw).tolist()
        found[place] |= {names[point.id]: score for point, score in zip(points, scores, strict=True)}
    return found


def _of_points(wanted: Wanted, limits: Limits) -> "Iterator[models.QueryRequest]":
    """The requests for the scores of given points; exact, since an index may not find all that are asked for.

    Where the collection allows no exact search, the condition on the ids leaves so few points that the server looks at
    each of them anyway; it must not take their quantised vectors for that.
    """
    from qdrant_client import models

    plain = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
    ids = list(wanted.points.values())
    for part in parts(ids, least(max(1, len(ids)), limits.results, limits.values)):
        yield models.QueryRequest(
            query=wanted.query,
            using=wanted.using,
            filter=models.Filter(must=[models.HasIdCondition(has_id=list(part))]),
            params=models.SearchParams(exact=True) if limits.exact else plain,
            limit=len(part),
            with_payload=False,
        )
