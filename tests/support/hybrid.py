"""Searches by brute force: cosines out of the stored vectors, BM25 of bm25s, threshold, groups and cut by chunk."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from bm25s import BM25
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.records import RetrievedChunk
from retrievers.search.rerank import mmr_order
from retrievers.store.chunks import point_id, vectors_of
from retrievers.store.embedded import EmbeddedClient
from tests.support.collections import IDF, fill

# BM25 of bm25s; only what a word is (its id) is taken from our encoder

ENGLISH = Bm25Encoder()


def terms(text: str) -> list[int]:
    return [term for word in re.findall(r"[^\W_]+", text) for term in ENGLISH.query(word).indices]


class Bm25:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self.names = [*texts]
        self.index = BM25(k1=1.2, b=0.75, method="lucene", dtype="float64")
        self.index.index([[*map(str, terms(text))] for text in texts.values()], show_progress=False)

    def scores(self, query: str, expansions: Sequence[str] = ()) -> dict[str, float]:
        asked = terms(query)
        more = {term for text in expansions for term in terms(text)} - {*asked}
        sums = (self._sum(asked) + self._sum(more) / 2) * 2.2  # bm25s leaves out the constant k + 1
        return {name: score for name, score in zip(self.names, sums.tolist(), strict=True) if score > 0}

    def _sum(self, asked: Iterable[int]) -> NDArray[np.float64]:
        known = [str(term) for term in asked if str(term) in self.index.vocab_dict]
        return np.asarray(self.index.get_scores(known) if known else np.zeros(len(self.names)))


# Cosines, and both

Scores = dict[str, float]


def variant(retriever: QdrantRetriever, **values: Any) -> QdrantRetriever:
    return retriever.with_settings(retriever.settings.model_copy(update=values))


def mmr(retriever: QdrantRetriever, chunks: Sequence[RetrievedChunk], lambda_: float) -> list[str]:
    cosines = np.asarray([found.scores["semantic"] for found in chunks])
    vectors = vectors_of(retriever.client, retriever.settings, [point_id(found.chunk.point_id) for found in chunks])
    return [chunks[place].chunk.chunk_id for place in mmr_order(cosines, vectors, lambda_)]


def ids(chunks: Sequence[RetrievedChunk]) -> list[str]:
    return [found.chunk.chunk_id for found in chunks]


def scores(chunks: Sequence[RetrievedChunk]) -> Scores:
    return {found.chunk.chunk_id: found.score or 0.0 for found in chunks}


class BruteForce:
    def __init__(self, retriever: QdrantRetriever) -> None:
        records, _ = retriever.client.scroll(
            retriever.settings.collection, limit=10_000, with_payload=True, with_vectors=True
        )
        self.payloads: dict[str, Mapping[str, Any]] = {r.payload["metadata"]["chunk_id"]: r.payload for r in records}
        dense = [r.vector[""] if isinstance(r.vector, dict) else r.vector for r in records]
        self.vectors = dict(zip(self.payloads, np.asarray(dense, dtype=float), strict=True))
        texts = {name: payload["page_content"] for name, payload in self.payloads.items()}
        self.bm25 = Bm25(texts)
        self.embed: Callable[[str], list[float]] = retriever.vector_store.embeddings.embed_query

    def cosines(self, query: str) -> Scores:
        vector = np.asarray(self.embed(query))
        vector /= np.linalg.norm(vector)
        return {name: max(0.0, float(v @ vector / np.linalg.norm(v))) for name, v in self.vectors.items()}

    def weighted(self, query: str, depth: int, weight: float, among: Collection[str] | None = None) -> Scores:
        """Return the `depth` best of 0.7 cosine + 0.3 BM25 (for a weight of 0.7) over what either side found."""
        cosines, bm25 = (
            {name: score for name, score in side.items() if among is None or name in among}
            for side in (self.cosines(query), self.bm25.scores(query))
        )
        found = {*top(cosines, depth), *top(bm25, depth)}
        unit = max((bm25.get(name, 0.0) for name in found), default=0.0) or 1.0
        return top({n: weight * cosines[n] + (1 - weight) * bm25.get(n, 0.0) / unit for n in found}, depth)


def top(side: Scores, depth: int) -> Scores:
    return dict(sorted(side.items(), key=lambda item: (-item[1], item[0]))[:depth])


def fill_sparse(
    client: QdrantClient | EmbeddedClient,
    name: str,
    rows: Sequence[tuple[Sequence[float], str, Mapping[str, Any]]],
    encoder: Bm25Encoder | None = None,
    distance: models.Distance = models.Distance.COSINE,
) -> None:
    """Make a collection with BM25 vectors as another program would: vector, text, metadata; ids from 0."""
    encoder = encoder or Bm25Encoder()
    vectors = [{"": [*vector], "bm25": encoder.document(text)} for vector, text, _ in rows]
    payloads = [{"page_content": text, "metadata": metadata} for _, text, metadata in rows]
    params = models.VectorParams(size=len(rows[0][0]), distance=distance)
    fill(client, name, vectors, payloads, params=params, sparse={"bm25": IDF})


# Threshold, grouping and cut


def select_by(
    settings: RetrieverConfig, candidates: Sequence[RetrievedChunk]
) -> tuple[list[RetrievedChunk], list[RetrievedChunk]]:
    on, threshold, field = settings.threshold_on, settings.threshold, settings.group_by

    def score(chunk: RetrievedChunk) -> float:
        return (chunk.score or 0.0) if on == "final" else chunk.scores["semantic"]

    best = max(map(score, candidates), default=0.0)
    below = [] if threshold is None else [c for c in candidates if (best if on == "best" else score(c)) < threshold]
    kept: list[RetrievedChunk] = []
    for chunk in candidates:
        group = chunk.chunk.value(field) if field else None
        is_taken = group is not None and any(one.chunk.value(field or "") == group for one in kept)
        if chunk not in below and not is_taken:
            kept.append(replace(chunk, rank=len(kept) + 1))
    return kept[: settings.top_k], below
