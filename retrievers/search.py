"""Candidates from Qdrant by meaning, by keywords, or both, in the total order; ties at the edge decide before the cut.

Whatever the mode, every candidate carries its cosine similarity, which the threshold reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrievers import fusion
from retrievers.config import RetrieverConfig
from retrievers.connection import store_errors
from retrievers.errors import StoreError
from retrievers.keyword import TermWeights
from retrievers.payload import filter_path, payload_keys, to_chunk
from retrievers.probes import Probe, ask, bm25, cosine, point_id, scores_of, sparse
from retrievers.records import Chunk, RetrievedChunk

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

SCROLL_PAGE = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedQuery:
    """A query as it is searched for: its vector, and in keyword and hybrid mode the weights of its terms."""

    vector: Sequence[float]
    terms: TermWeights | None = None


def candidates(
    client: "QdrantClient",
    config: RetrieverConfig,
    queries: Sequence[EncodedQuery],
    depth: int,
    among: "models.Filter | None" = None,
) -> list[tuple[RetrievedChunk, ...]]:
    """Search in the configured mode, one result for each query.

    Args:
        client: An open client.
        config: Names the collection, its vectors, the mode and the fusion.
        queries: Encoded queries.
        depth: How many candidates each side searches for and the result has at most.
        among: What every candidate must meet.

    Returns:
        For each query its candidates in the total order (score descending, chunk id ascending).

    Raises:
        StoreError: The store failed.
    """
    if config.mode == "semantic":
        return semantic(client, config, [query.vector for query in queries], depth, among)
    with store_errors(config.store, config.collection):
        by_terms = _by_terms(client, config, queries, depth, among)
        if config.mode == "keyword":
            return _keyword(client, config, queries, by_terms)
        by_meaning = semantic(client, config, [query.vector for query in queries], depth, among)
        return _hybrid(client, config, queries, by_meaning, by_terms, depth)


def semantic(
    client: "QdrantClient",
    config: RetrieverConfig,
    vectors: Sequence[Sequence[float]],
    depth: int,
    among: "models.Filter | None" = None,
) -> list[tuple[RetrievedChunk, ...]]:
    """Search by cosine similarity, one result for each vector.

    Args:
        client: An open client.
        config: Names the collection and its payload.
        vectors: Query vectors.
        depth: How many candidates to return; equal scores at the edge are fetched too before the cut, so that the
            order (score descending, chunk id ascending) alone decides which of them stay.
        among: What every candidate must meet.

    Returns:
        For each vector its candidates in the total order, scores clipped to [0, 1].

    Raises:
        StoreError: The store failed.
    """
    now = datetime.now(UTC)
    probes = [
        Probe(query=list(vector), using=config.vector_name or None, depth=depth, among=among, read=cosine)
        for vector in vectors
    ]
    with store_errors(config.store, config.collection):
        found = ask(client, config, probes)
    return [
        rank([(to_chunk(p.id, p.payload, config.metadata), p.score) for p in points], now)[:depth] for points in found
    ]


def rank(scored: Sequence[tuple[Chunk, float]], now: datetime) -> tuple[RetrievedChunk, ...]:
    """Put chunks scored by cosine into the total order: score descending, then chunk id ascending; ranks from 1.

    Scores are taken as float32, which is what a Qdrant server computes: its local mode works in float64 and normalises
    its vectors anew, in place, at every search, so the bits beyond float32 change from one search to the next.
    """
    chunks = [
        RetrievedChunk(
            rank=0, score=score, score_scale="cosine", scores={"semantic": score}, chunk=chunk, retrieved_at=now
        )
        for chunk, score in ((chunk, cosine(score)) for chunk, score in scored)
    ]
    return in_order(chunks)


def in_order(chunks: Sequence[RetrievedChunk]) -> tuple[RetrievedChunk, ...]:
    """Chunks in the total order (score descending, then chunk id ascending), ranked from 1.

    A collection made elsewhere may give several points one chunk id; the point id then decides.
    """
    ordered = sorted(chunks, key=lambda found: (-found.known_score, found.chunk.chunk_id, found.chunk.point_id))
    return tuple(replace(found, rank=place) for place, found in enumerate(ordered, 1))


def vectors_of(
    client: "QdrantClient", config: RetrieverConfig, chunks: Sequence[RetrievedChunk]
) -> NDArray[np.float64]:
    """The stored vectors of chunks, one row each, shape (chunks, dimension).

    Raises:
        StoreError: The store failed, or holds no vector for one of them.
    """
    ids = [point_id(found.chunk.point_id) for found in chunks]
    with store_errors(config.store, config.collection):
        records = client.retrieve(config.collection, ids, with_payload=False, with_vectors=True)
    vectors: dict[str, Any] = {str(record.id): record.vector for record in records}
    found = [vectors.get(chunk.chunk.point_id) for chunk in chunks]
    dense = [vector.get(config.vector_name) if isinstance(vector, dict) else vector for vector in found]
    if any(vector is None for vector in dense):
        raise StoreError(
            f"collection {config.collection!r} changed during the search: a chunk found is gone; try again"
        )
    return np.asarray(dense, dtype=float).reshape(len(chunks), -1)


def _by_terms(
    client: "QdrantClient",
    config: RetrieverConfig,
    queries: Sequence[EncodedQuery],
    depth: int,
    among: "models.Filter | None",
) -> list[tuple[RetrievedChunk, ...]]:
    """BM25 candidates in the total order; a query without terms has none. Their cosine is still to come."""
    now = datetime.now(UTC)
    asked = [(place, query.terms) for place, query in enumerate(queries) if query.terms and query.terms.indices]
    probes = [
        Probe(query=sparse(terms), using=config.keyword.vector_name, depth=depth, among=among, read=bm25)
        for _, terms in asked
    ]
    found: list[tuple[RetrievedChunk, ...]] = [() for _ in queries]
    for (place, _), points in zip(asked, ask(client, config, probes), strict=True):
        chunks = [
            RetrievedChunk(
                rank=0,
                score=score,
                score_scale="bm25",
                scores={"keyword": score},
                chunk=to_chunk(point.id, point.payload, config.metadata),
                retrieved_at=now,
            )
            for point, score in ((point, bm25(point.score)) for point in points)
        ]
        found[place] = in_order(chunks)[:depth]
    return found


def _keyword(
    client: "QdrantClient",
    config: RetrieverConfig,
    queries: Sequence[EncodedQuery],
    by_terms: Sequence[tuple[RetrievedChunk, ...]],
) -> list[tuple[RetrievedChunk, ...]]:
    cosines = _cosines(client, config, queries, by_terms)
    return [
        tuple(replace(c, scores={**c.scores, "semantic": known.get(c.chunk.point_id, 0.0)}) for c in chunks)
        for chunks, known in zip(by_terms, cosines, strict=True)
    ]


def _hybrid(
    client: "QdrantClient",
    config: RetrieverConfig,
    queries: Sequence[EncodedQuery],
    by_meaning: Sequence[tuple[RetrievedChunk, ...]],
    by_terms: Sequence[tuple[RetrievedChunk, ...]],
    depth: int,
) -> list[tuple[RetrievedChunk, ...]]:
    """Both sides fused; what only one of them found gets the other's score computed."""
    only_terms, only_meaning = [], []
    for left, right in zip(by_meaning, by_terms, strict=True):
        one, other = {c.chunk.point_id for c in left}, {c.chunk.point_id for c in right}
        only_terms.append(tuple(c for c in right if c.chunk.point_id not in one))
        only_meaning.append(tuple(c for c in left if c.chunk.point_id not in other))
    cosines = _cosines(client, config, queries, only_terms)
    terms = (
        _term_scores(client, config, queries, only_meaning)
        if config.used_fusion == "weighted"
        else [{} for _ in queries]
    )
    return [
        _fused(config, left, right, known, also)[:depth]
        for left, right, known, also in zip(by_meaning, by_terms, cosines, terms, strict=True)
    ]


def _fused(
    config: RetrieverConfig,
    left: Sequence[RetrievedChunk],
    right: Sequence[RetrievedChunk],
    cosines: Mapping[str, float],
    terms: Mapping[str, float],
) -> tuple[RetrievedChunk, ...]:
    """One query's two sides as one list. `cosines` and `terms` hold, by point id, what the other side did not find."""
    chunks = {c.chunk.point_id: c for c in (*right, *left)}
    meaning = {c.chunk.point_id: c.known_score for c in left}
    keyword = {c.chunk.point_id: c.known_score for c in right}
    cosines_of = {i: meaning.get(i, cosines.get(i, 0.0)) for i in chunks}
    terms_of = {i: keyword.get(i, terms.get(i, 0.0)) for i in chunks}
    weights = (config.semantic_weight, 1 - config.semantic_weight)
    if config.used_fusion == "weighted":
        scores = fusion.weighted(cosines_of, terms_of, *weights)
    elif config.used_fusion == "rrf":
        scores = fusion.reciprocal_rank([list(meaning), list(keyword)], weights, config.rrf_constant)
    else:
        scores = fusion.distribution_based([meaning, keyword])
    return in_order(
        [
            replace(
                c,
                score=scores[i],
                score_scale=config.used_fusion,
                scores={
                    "semantic": cosines_of[i],
                    **({"keyword": terms_of[i]} if terms_of[i] else {}),
                    "fused": scores[i],
                },
            )
            for i, c in chunks.items()
        ]
    )


def _cosines(
    client: "QdrantClient",
    config: RetrieverConfig,
    queries: Sequence[EncodedQuery],
    chunks: Sequence[Sequence[RetrievedChunk]],
) -> list[dict[str, float]]:
    """The cosine of given chunks to their query, by point id."""
    using = config.vector_name or None
    found = scores_of(client, config, [(list(q.vector), using) for q in queries], _points(chunks))
    return [{point: cosine(score) for point, score in scores.items()} for scores in found]


def _term_scores(
    client: "QdrantClient",
    config: RetrieverConfig,
    queries: Sequence[EncodedQuery],
    chunks: Sequence[Sequence[RetrievedChunk]],
) -> list[dict[str, float]]:
    """The BM25 score of given chunks for their query, by point id; those without a query term are left out."""
    wanted = [c if q.terms and q.terms.indices else () for q, c in zip(queries, chunks, strict=True)]
    vectors = [(sparse(q.terms) if q.terms else None, config.keyword.vector_name) for q in queries]
    return scores_of(client, config, vectors, _points(wanted))


def _points(chunks: Sequence[Sequence[RetrievedChunk]]) -> list[list[str]]:
    return [[found.chunk.point_id for found in wanted] for wanted in chunks]


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


def _condition(name: str, values: Sequence[str], config: RetrieverConfig) -> "models.Condition":
    from qdrant_client import models

    if name == "point_id":
        return models.HasIdCondition(has_id=[known for value in values if (known := point_id(value)) is not None])
    match = models.MatchAny(any=list(values))
    keys = map(filter_path, payload_keys(name, config.metadata))
    return models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])
