"""Requests to Qdrant, many in one round trip: the best points of a vector, and the scores of given points.

Points come as ids and scores; whatever else is stored with them is read later, for those that an answer needs.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.errors import BatchTooLargeError, StoreError
from retrievers.records import ScoreScale
from retrievers.search.candidate_table import CandidateTable
from retrievers.search.table_builder import joined, one_query
from retrievers.store import NO_LIMITS, CollectionInfo, Limits, least, parts
from retrievers.store.chunk_table import ChunkTable, Codes

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Floats = NDArray[np.float32]


def cosine(raw: Floats) -> Floats:
    """Raw cosines clipped to [0, 1].

    They are taken as float32, which is what a Qdrant server computes: its local mode works in float64 and normalises
    its vectors again, in place, at every search, so the bits beyond float32 change from one search to the next.
    """
    return np.clip(raw, 0, 1) + np.float32(0)  # makes -0 a plain 0


def ask(
    client: "QdrantClient",
    config: RetrieverConfig,
    requests: "Sequence[models.QueryRequest]",
    depths: Sequence[int],
    chunks: ChunkTable,
    limits: Limits = NO_LIMITS,
) -> CandidateTable:
    """Find the best points of each request, with all that tie with the last; a tied edge is asked for again, deeper.

    A request is a row of the table. Its points are in any order, and have no component scores.

    Args:
        client: An open client.
        config: Names the collection.
        requests: A vector to search for, dense or sparse.
        depths: Number of points to find, for each request.
        chunks: The chunks found so far.
        limits: Limits of the collection; what is deeper than that is several requests.

    Raises:
        StoreError: A score is not a number.
    """
    found: dict[int, tuple[Codes, NDArray[np.float64]]] = {}
    reach = {number: depth + 1 for number, depth in enumerate(depths)}
    while reach:
        pages = [(number, page) for number, count in reach.items() for page in _pages(requests[number], count, limits)]
        answers = _batch(client, config, [page for _, page in pages], limits)
        of_place: dict[int, list[tuple[Sequence[Any], Floats]]] = {number: [] for number in reach}
        for (number, _), answer in zip(pages, answers, strict=True):
            of_place[number].append(answer)
        found |= {number: _read(several, requests[number], config, chunks) for number, several in of_place.items()}
        reach = {
            number: 2 * count
            for number, count in reach.items()
            if len(found[number][1]) == count and found[number][1][depths[number] - 1] == found[number][1][-1]
        }
    distance, terms = config.used_distance, config.keyword.scale
    scales: list[ScoreScale] = [distance if isinstance(request.query, list) else terms for request in requests]
    rows = [one_query(*found[n], {}, chunks, scale=scale, distance=distance) for n, scale in enumerate(scales)]
    return joined(rows, chunks)


def _pages(request: "models.QueryRequest", depth: int, limits: Limits) -> "Iterator[models.QueryRequest]":
    """Yield a request to a depth: one, or as many as the limits of the collection make it."""
    size = least(depth, limits.results)
    for start in range(0, depth, size):
        yield request.model_copy(update={"limit": min(size, depth - start), "offset": start or None})


def _read(
    pages: Sequence[tuple[Sequence[Any], Floats]],
    request: "models.QueryRequest",
    config: RetrieverConfig,
    chunks: ChunkTable,
) -> tuple[Codes, NDArray[np.float64]]:
    """Return the points of all pages of a request, and their scores; a point that two pages name counts once."""
    points, raw = pages[0]
    if len(pages) > 1:
        points = list({point.id: point for page, _ in pages for point in page}.values())
        raw = np.asarray([point.score for point in points], dtype=np.float32)
    codes = chunks.codes(point.id for point in points)
    return codes, _scores(raw, request, config).astype(np.float64)


def _scores(raw: Floats, request: "models.QueryRequest", config: RetrieverConfig) -> Floats:
    """Return the scores of a vector, cosines clipped, others as they are."""
    return cosine(raw) if isinstance(request.query, list) and config.used_distance == "cosine" else raw


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
    """Return the points of each request, in halves where a server demands it."""
    if len(requests) > 1:
        try:
            return [answer.points for answer in client.query_batch_points(collection, list(requests))]
        except BatchTooLargeError:
            half = len(requests) // 2
            return [*_sent(client, collection, requests[:half]), *_sent(client, collection, requests[half:])]
    request = requests[0]
    answer = client.query_points(
        collection,
        query=request.query,
        using=request.using,
        query_filter=request.filter,
        search_params=request.params,
        limit=request.limit or 1,
        offset=request.offset,
        with_payload=False,
    )
    return [answer.points]


def scores_of(
    client: "QdrantClient",
    config: RetrieverConfig,
    requests: "Sequence[models.QueryRequest]",
    candidates: Sequence[Codes],
    chunks: ChunkTable,
    limits: Limits = NO_LIMITS,
) -> list[dict[int, float]]:
    """Return for each request the scores of given chunks, by their codes.

    A point that shares no term with a sparse vector is left out, and so is one without the vector it is compared by.

    Args:
        client: An open client.
        config: Names the collection.
        requests: Vectors to compare with.
        candidates: For each of them the chunks that are compared.
        chunks: The chunks found so far.
        limits: Limits of the collection.

    Raises:
        StoreError: A score is not a number.
    """
    pages = [
        (number, page)
        for number, (request, codes) in enumerate(zip(requests, candidates, strict=True))
        for page in _of_points(request, chunks.given(codes), limits)
    ]
    scores: list[dict[int, float]] = [{} for _ in requests]
    answers = _batch(client, config, [page for _, page in pages], limits)
    for (number, _), (points, raw) in zip(pages, answers, strict=True):
        codes = chunks.codes(point.id for point in points).tolist()
        scores[number] |= zip(codes, _scores(raw, requests[number], config).tolist(), strict=True)
    return scores


def _of_points(
    request: "models.QueryRequest", points: Sequence[Any], limits: Limits
) -> "Iterator[models.QueryRequest]":
    """Yield the requests for the scores of given points; exact, since an index may not find all that are asked for.

    Where the collection allows no exact search, the condition on the ids leaves so few points that the server looks at
    each of them anyway; it must not take their quantised vectors for that.
    """
    from qdrant_client import models

    plain = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
    for part in parts(points, least(max(1, len(points)), limits.results, limits.values)):
        yield request.model_copy(
            update={
                "filter": models.Filter(must=[models.HasIdCondition(has_id=list(part))]),
                "params": models.SearchParams(exact=True) if limits.exact else plain,
                "limit": len(part),
                "with_payload": False,
            }
        )


def search_params(config: RetrieverConfig, side: str) -> "models.SearchParams | None":
    """Return the parameters of a search; None where all are as the collection has them.

    Args:
        config: The settings.
        side: `semantic`; a side of keywords takes `indexed_only` alone, since the rest concerns dense vectors.
    """
    named = dict(config.search_params or {})
    if side != "semantic":
        named = {name: value for name, value in named.items() if name == "indexed_only"}
    if not named:
        return None
    from qdrant_client import models

    return models.SearchParams.model_validate(named)


def notes(config: RetrieverConfig, info: CollectionInfo) -> tuple[str, ...]:
    """Return what a reader must know of parameters that are set and change nothing."""
    named = config.search_params or {}
    if config.mode == "keyword" or not named:
        return ()
    if not info.is_approximate:
        return (
            f"collection {info.name!r} has no built HNSW index and no quantisation, so that every search is exact: "
            f"{', '.join(f'search_params.{name}' for name in named)} changes nothing",
        )
    beam, depth = named.get("hnsw_ef"), config.candidates + 1
    if beam and beam < depth and info.in_hnsw and not named.get("exact"):
        return (
            f"search_params.hnsw_ef {beam} is less than the {depth} that a search returns, and Qdrant keeps no fewer "
            "on its way: lower candidates to search less thoroughly",
        )
    return ()
