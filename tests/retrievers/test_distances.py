"""Collections of every distance in every store and mode, against brute force."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionStateError, ConfigError
from retrievers.records import Distance
from tests.support.collections import settings
from tests.support.distances import (
    DISTANCES,
    EMBEDDINGS,
    QUERIES,
    QUERY_VECTORS,
    STORES,
    VECTORS,
    chunk_id,
    collection,
    fused,
    keyword,
    ranked,
    semantic,
)

OTHERS: tuple[Distance, ...] = ("dot",)
DEPTH = 15


def config(store: dict[str, Any], **values: Any) -> RetrieverConfig:
    own = {"embedding": {"provider": "python", "model": "mine:make"}, "collection": "mine", "candidates": DEPTH}
    return settings(**{"store": store, **own, **values})


@contextmanager
def opened(store: dict[str, Any], **values: Any) -> Iterator[QdrantRetriever]:
    retriever = QdrantRetriever.open(config(store, **values), embeddings=EMBEDDINGS)
    try:
        yield retriever
    finally:
        retriever.close()


# Elsewhere than in the embedded store, one distance is quick.
PLACES = [
    pytest.param(
        (store, distance),
        id=f"{store}-{distance}",
        marks=[] if store == "edge" or distance == "cosine" else [pytest.mark.slow],
    )
    for store in STORES
    for distance in DISTANCES
]


@pytest.fixture(scope="module", params=PLACES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    store, distance = request.param
    with ExitStack() as stack:
        yield distance, stack.enter_context(collection(store, distance, tmp_path_factory.mktemp(store)))


def test_a_semantic_search_finds_the_nearest_and_shows_the_scores_of_qdrant(made: Any) -> None:
    distance, store = made
    with opened(store, top_k=DEPTH) as retriever:
        assert retriever.settings.used_distance == distance
        for number, query in enumerate(QUERIES):
            expected = semantic(distance, number)
            found = retriever.candidates([query])[0]
            assert list(found.chunk_ids) == [chunk_id(n) for n in ranked(expected, DEPTH)]
            chunks = retriever.search(query).chunks if distance != "cosine" else tuple(found)
            assert [chunk.score_scale for chunk in chunks] == [distance] * DEPTH
            best = [expected[n] for n in ranked(expected, DEPTH)]
            assert [chunk.score for chunk in chunks] == pytest.approx(best, abs=1e-5)
            assert [chunk.scores["semantic"] for chunk in chunks] == [chunk.score for chunk in chunks]


def test_a_keyword_search_shows_the_score_of_the_vectors_beside_bm25(made: Any) -> None:
    distance, store = made
    with opened(store, mode="keyword") as retriever:
        for number, query in enumerate(QUERIES):
            terms, expected = keyword(number), semantic(distance, number)
            found = [n for n in ranked(terms) if terms[n] > 0][:DEPTH]
            candidates = tuple(retriever.candidates([query])[0])
            assert [c.chunk.chunk_id for c in candidates] == [chunk_id(n) for n in found]
            assert [c.scores["semantic"] for c in candidates] == pytest.approx([expected[n] for n in found], abs=1e-5)


def test_hybrid_by_rrf_fuses_the_places_of_both(made: Any) -> None:
    distance, store = made
    with opened(store, mode="hybrid", fusion="rrf") as retriever:
        for number, query in enumerate(QUERIES):
            sums = fused(distance, number, DEPTH)
            order = sorted(sums, key=lambda n: (-round(sums[n], 12), n))[:DEPTH]
            candidates = tuple(retriever.candidates([query])[0])
            assert [c.chunk.chunk_id for c in candidates] == [chunk_id(n) for n in order]
            assert [c.score for c in candidates] == pytest.approx([sums[n] for n in order])
            expected = semantic(distance, number)
            assert [c.scores["semantic"] for c in candidates] == pytest.approx([expected[n] for n in order], abs=1e-5)


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize("on", ["each", "best"])
def test_a_threshold_is_raw(made: Any, mode: str, on: str) -> None:
    distance, store = made
    threshold = 0.5 if distance == "cosine" else float(np.quantile(semantic(distance, 0), 0.3))
    way = {"mode": mode, "fusion": "rrf", "top_k": DEPTH}
    with opened(store, threshold=threshold, threshold_on=on, **way) as retriever:
        for number, query in enumerate(QUERIES):
            scores, session = semantic(distance, number), retriever.search(query)
            keeps = scores >= threshold
            found = [int(candidate.chunk.chunk_id[-2:]) for candidate in retriever.candidates([query])[0]]
            kept = [n for n in found if keeps[n]] if on == "each" else found if any(keeps[found]) else []
            assert [chunk.chunk.chunk_id for chunk in session.chunks] == [chunk_id(n) for n in kept]
            assert session.filtered_out == len(found) - len(kept) or mode == "semantic"


@pytest.mark.parametrize("lambda_", [1.0, 0.6])
def test_mmr_reads_cosines_under_every_distance(made: Any, lambda_: float) -> None:
    distance, store = made
    with opened(store, rerank="mmr", mmr_lambda=lambda_) as retriever:
        for number, query in enumerate(QUERIES):
            pool = ranked(semantic(distance, number), DEPTH)
            unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
            likeness = np.clip(unit @ QUERY_VECTORS[number] / np.linalg.norm(QUERY_VECTORS[number]), 0, 1)
            picks: list[int] = []
            while len(picks) < DEPTH:
                gains = {
                    n: lambda_ * likeness[n] - (1 - lambda_) * max((unit[n] @ unit[p] for p in picks), default=0.0)
                    for n in pool
                    if n not in picks
                }
                picks.append(max(gains, key=lambda n: (round(gains[n], 7), -pool.index(n))))
            candidates = tuple(retriever.candidates([query])[0])
            assert [int(c.chunk.chunk_id[-2:]) for c in candidates] == picks
            assert [c.original_score for c in candidates] == [c.score for c in candidates]


@pytest.mark.parametrize("distance", OTHERS)
def test_without_a_named_threshold_nothing_is_cut(distance: Distance, tmp_path: Path) -> None:
    with collection("edge", distance, tmp_path) as store, opened(store, top_k=DEPTH) as retriever:
        session = retriever.search(QUERIES[0])
        assert (len(session.chunks), session.filtered_out, session.parameters["threshold"]) == (DEPTH, 0, None)
        assert session.parameters["distance"] == distance
        assert session.confidence is not None
        assert session.confidence.scale == distance
        assert ", which nothing tells to be near or far, " in session.confidence.reason
        document = retriever.invoke(QUERIES[0])[0]
        assert document.metadata["score_scale"] == document.metadata["distance"] == distance


def test_a_threshold_is_on_the_scale_of_the_collection(tmp_path: Path) -> None:
    with collection("edge", "dot", tmp_path) as store, opened(store, threshold=2.5) as retriever:
        assert (retriever.settings.used_threshold, retriever.settings.threshold_scale) == (2.5, "dot")
    with (
        collection("edge", "cosine", tmp_path / "cosine") as store,
        pytest.raises(ConfigError, match="has the distance cosine: expected a number from 0 to 1"),
    ):
        QdrantRetriever.open(config(store, threshold=2.5), embeddings=EMBEDDINGS)


def test_weighted_fusion_of_an_open_scale_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with (
        collection("edge", "dot", tmp_path) as store,
        pytest.raises(ConfigError, match=r"has the distance dot: fusion 'weighted' adds .*; use fusion: rrf"),
    ):
        QdrantRetriever.open(config(store, mode="hybrid"), embeddings=EMBEDDINGS)


@pytest.mark.parametrize("distance", ["euclid", "manhattan"])
def test_a_distance_where_the_lower_score_is_the_nearer_is_refused(distance: str, tmp_path: Path) -> None:
    with (
        collection("server", distance, tmp_path) as store,
        pytest.raises(CollectionStateError, match=rf"'mine' has the distance {distance}, and only cosine and dot"),
    ):
        QdrantRetriever.open(config(store), embeddings=EMBEDDINGS)
