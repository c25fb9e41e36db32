"""What holds in every mode, fusion and reranker, on part of the handbook; each against brute force."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as examples
from qdrant_client.hybrid.fusion import distribution_based_score_fusion
from qdrant_client.models import ScoredPoint

from retrievers import QdrantRetriever
from retrievers.config import RERANKERS, Reranker, RetrieverConfig
from retrievers.errors import RerankError
from retrievers.records import RetrievedChunk
from tests.support.collections import index_pages, settings
from tests.support.expressions import Tree, as_text, holds, trees
from tests.support.hybrid import BruteForce, ids, mmr, of_mode, scores, top, variant
from tests.support.rerankers import overlap
from tests.support.selecting import select_by

DEPTH = 25
QUERIES = (
    "how do nodes stream messages",
    "quality of service reliability depth",
    "what is the capital of France",
    "URDF tf2 transform tree",
    "launch launch launch",
)
WITHOUT_TERMS = ("the and of", "🤖", "?! …", "-- \x00")
ODD = (
    *WITHOUT_TERMS,
    "日本語 ロボット",
    "wie sende ich eine Nachricht",
    "'; DROP TABLE",
    "C++ & R&D (e.g.)",
    "x" * 4_000,
)
PLAIN: tuple[dict[str, Any], ...] = (
    {"mode": "semantic"},
    {"mode": "keyword"},
    {"mode": "hybrid", "fusion": "weighted"},
    {"mode": "hybrid", "fusion": "rrf"},
    {"mode": "hybrid", "fusion": "dbsf"},
)
WAYS: tuple[dict[str, Any], ...] = (
    *({**way, "rerank": rerank} for way in PLAIN for rerank in ("none", "mmr", "cross-encoder")),
)
QUICK = (
    "semantic-none",
    "keyword-mmr",
    "hybrid-weighted-cross-encoder",
    "hybrid-rrf-none",
    "hybrid-dbsf-mmr",
    "hybrid-rrf",
)
"""Every mode, fusion and reranker once; the other ways are slow tests."""


def name_of(way: dict[str, Any]) -> str:
    return "-".join(way.values())


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, handbook: Path) -> RetrieverConfig:
    """The ROS 2 module in an embedded store; threshold 0, top_k 20, candidate depth 25 of more than 100 chunks."""
    made = settings(
        store={"path": str(tmp_path_factory.mktemp("modes"))},
        collection="ros2",
        threshold=0,
        top_k=20,
        candidates=DEPTH,
        cross_encoder={"provider": "python", "model": "tests.support.rerankers:Scorer"},
    )
    index_pages(made, handbook / "docs" / "module-1-ros2")
    return made


@pytest.fixture(scope="module")
def opened(config: RetrieverConfig) -> Iterator[QdrantRetriever]:
    with QdrantRetriever.open(of_mode(config, mode="hybrid"), env={}) as retriever:
        yield retriever


@pytest.fixture(scope="module")
def brute_force(opened: QdrantRetriever) -> BruteForce:
    return BruteForce(opened)


@pytest.fixture(
    params=[pytest.param(way, id=name_of(way), marks=[] if name_of(way) in QUICK else pytest.mark.slow) for way in WAYS]
)
def retriever(request: pytest.FixtureRequest, opened: QdrantRetriever) -> QdrantRetriever:
    return variant(opened, **request.param)


def untimed(chunks: Sequence[RetrievedChunk]) -> list[RetrievedChunk]:
    return [replace(found, retrieved_at=None) for found in chunks]


def points(chunks: Sequence[RetrievedChunk]) -> list[str]:
    return [found.chunk.point_id for found in chunks]


def found_by(retriever: QdrantRetriever, query: str) -> Sequence[RetrievedChunk]:
    (candidates,) = retriever.candidates([query])
    return candidates


# In every mode, fusion and reranker


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.35])
@pytest.mark.parametrize("group_by", [None, "source_url"])
def test_three_results_are_the_first_of_twenty(
    retriever: QdrantRetriever, threshold: float, group_by: str | None
) -> None:
    """The selection is that of an oracle, whose threshold reads the cosine."""
    for query in QUERIES:
        twenty = variant(retriever, threshold=threshold, group_by=group_by)
        three = variant(twenty, top_k=3).search(query)
        expected = select_by(twenty.settings, found_by(retriever, query)).chunks
        assert untimed(three.chunks) == untimed(twenty.search(query).chunks)[:3] == untimed(expected)[:3]
        assert untimed(twenty.search(query).chunks) == untimed(expected)
        assert three.status == "success"


def test_every_candidate_carries_its_cosine_and_its_bm25(retriever: QdrantRetriever, brute_force: BruteForce) -> None:
    for query in QUERIES:
        cosines, bm25 = brute_force.cosines(query), brute_force.bm25.scores(query)
        for found in found_by(retriever, query):
            name = found.chunk.chunk_id
            assert found.scores["semantic"] == pytest.approx(cosines[name], abs=1e-6)
            if "keyword" in found.scores:
                assert found.scores["keyword"] == pytest.approx(bm25[name], rel=1e-5)


def test_the_order_is_total_the_same_every_time_and_by_scores_of_the_scale_told(retriever: QdrantRetriever) -> None:
    for query in QUERIES:
        candidates = found_by(retriever, query)
        assert [c.rank for c in candidates] == list(range(1, len(candidates) + 1)) and len(candidates) <= DEPTH
        assert len(set(ids(candidates))) == len(candidates)
        assert {c.score_scale for c in candidates} <= {retriever.settings.score_scale}
        if retriever.settings.score_scale in ("cosine", "weighted", "rerank"):
            assert all(0 <= (c.score or 0.0) <= 1 for c in candidates)
        if retriever.settings.rerank != "mmr":
            keys = [(-(c.score or 0.0), c.chunk.chunk_id) for c in candidates]
            assert all(one < other for one, other in pairwise(keys))
        assert untimed(found_by(retriever, query)) == untimed(candidates)


@pytest.mark.parametrize("query", ODD)
def test_any_query_is_a_success(retriever: QdrantRetriever, query: str) -> None:
    session = retriever.search(query)
    assert (session.status, session.error) == ("success", None)
    if retriever.settings.mode == "keyword" and query in WITHOUT_TERMS:
        assert session.chunks == ()
    elif retriever.settings.mode != "keyword":
        assert len(session.chunks) == 20


# Keyword


def test_synonyms_are_searched_along_at_half_the_weight(opened: QdrantRetriever, brute_force: BruteForce) -> None:
    synonyms = {"bus": ("topic", "message broker"), "zebra": ("node",)}
    keyword = opened.settings.keyword.model_copy(update={"synonyms": synonyms})
    retriever = variant(opened, mode="keyword", keyword=keyword)
    expected = brute_force.bm25.scores("a bus of robots", ["topic", "message broker"], 0.5)
    found = scores(found_by(retriever, "a bus of robots"))
    assert len(found) == DEPTH
    assert found == pytest.approx({name: expected[name] for name in found}, rel=1e-5)
    assert scores(found_by(retriever, "zebra")) == pytest.approx(
        top(brute_force.bm25.scores("zebra", ["node"], 0.5), DEPTH), rel=1e-5
    )


def test_the_keyword_side_does_not_know_abbreviations(opened: QdrantRetriever) -> None:
    spelt = variant(opened, abbreviations={"QoS": "quality of service"})
    for mode, same_as in (("semantic", "QoS (quality of service)"), ("keyword", "QoS")):
        found, expected = found_by(variant(spelt, mode=mode), "QoS"), found_by(variant(opened, mode=mode), same_as)
        assert scores(found) == scores(expected)


# Fusion


@pytest.mark.parametrize("weight", [0.7, 0.5, 0.0, 1.0])
def test_hybrid_weighted_is_brute_force(opened: QdrantRetriever, brute_force: BruteForce, weight: float) -> None:
    retriever = variant(opened, mode="hybrid", fusion="weighted", semantic_weight=weight)
    for query in (*QUERIES, *WITHOUT_TERMS):
        expected = brute_force.weighted(query, DEPTH, weight)
        found = scores(found_by(retriever, query))
        assert list(found.values()) == pytest.approx(list(expected.values()), abs=1e-5)
        assert len(found.keys() & expected.keys()) >= DEPTH - 1, "but for a tie at the edge"
        shared = found.keys() & expected.keys()
        assert {name: found[name] for name in shared} == pytest.approx({n: expected[n] for n in shared}, abs=1e-5)


def sides(opened: QdrantRetriever, query: str) -> list[dict[str, float]]:
    """Return the results of semantic and keyword search alone."""
    return [scores(found_by(variant(opened, mode=mode), query)) for mode in ("semantic", "keyword")]


@pytest.mark.parametrize("weight", [0.7, 0.5, 0.2])
def test_hybrid_rrf_is_brute_force(opened: QdrantRetriever, weight: float) -> None:
    retriever = variant(opened, fusion="rrf", mode="hybrid", semantic_weight=weight)
    for query in (*QUERIES, *WITHOUT_TERMS):
        meaning, terms = (list(side) for side in sides(opened, query))
        expected = {
            name: sum(
                share / (60 + side.index(name) + 1)
                for share, side in ((weight, meaning), (1 - weight, terms))
                if name in side
            )
            for name in {*meaning, *terms}
        }
        assert scores(found_by(retriever, query)) == pytest.approx(top(expected, DEPTH), abs=1e-12)


def test_hybrid_dbsf_is_qdrants(opened: QdrantRetriever) -> None:
    retriever = variant(opened, mode="hybrid", fusion="dbsf")
    for query in (*QUERIES, *WITHOUT_TERMS):
        numbers: dict[str, int] = {}
        responses = [
            [ScoredPoint(id=numbers.setdefault(n, len(numbers)), version=0, score=s) for n, s in side.items()]
            for side in sides(opened, query)
        ]
        fused = {point.id: point.score for point in distribution_based_score_fusion(responses, limit=1_000)}
        expected = top({name: fused[number] for name, number in numbers.items()}, DEPTH)
        found = scores(found_by(retriever, query))
        assert list(found.values()) == pytest.approx(list(expected.values()), abs=1e-9)
        assert found == pytest.approx({name: fused[numbers[name]] for name in found}, abs=1e-9)


# Rerankers


@pytest.mark.parametrize("scale", ["rerank", None])
@pytest.mark.parametrize("way", PLAIN, ids=name_of)
def test_a_declared_reranker_gets_what_it_needs(
    opened: QdrantRetriever, way: dict[str, Any], scale: Literal["rerank"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = "tests.support.rerankers:make_farthest"
    declared = Reranker(make=make, scale=scale, needs_texts=True, needs_vectors=True)
    monkeypatch.setitem(RERANKERS, "farthest", declared)
    retriever = variant(opened, **way, rerank="farthest")
    before = found_by(variant(opened, **way, rerank="none"), QUERIES[0])
    after = found_by(retriever, QUERIES[0])
    assert sorted(points(after)) == sorted(points(before))
    assert [found.scores["length"] for found in after] == [len(found.chunk.text) for found in after]
    assert {found.score_scale for found in after} == {scale or before[0].score_scale}
    if scale:
        assert [found.score for found in after] == sorted(scores(after).values(), reverse=True)
    assert points(retriever.search(QUERIES[0]).chunks) == points(select_by(retriever.settings, after).chunks)


def reranked(
    opened: QdrantRetriever, way: dict[str, Any], **reranker: Any
) -> Iterator[tuple[str, Sequence[RetrievedChunk], Sequence[RetrievedChunk]]]:
    """Yield queries with their candidates before and after reranking, which is of all queries at once."""
    after = variant(opened, **way, **reranker).candidates(QUERIES)
    for query, candidates in zip(QUERIES, after, strict=True):
        before = found_by(variant(opened, **way), query)
        was = {found.chunk.chunk_id: found for found in before}
        for found in candidates:
            old = was[found.chunk.chunk_id]
            assert (found.original_rank, found.original_score) == (old.rank, old.score)
            assert old.scores.items() <= found.scores.items(), "what was known before stays visible"
        yield query, before, candidates


@pytest.mark.parametrize("way", PLAIN, ids=name_of)
def test_a_reranker_orders_the_candidates_by_its_scores(opened: QdrantRetriever, way: dict[str, Any]) -> None:
    for lambda_ in (0.7, 0.3):
        for _, before, after in reranked(opened, way, rerank="mmr", mmr_lambda=lambda_):
            picks = mmr(opened, before, lambda_) if before else []
            assert [(c.chunk.chunk_id, c.scores["diversity"]) for c in after] == picks
            assert scores(after) == scores(before)
    for query, before, after in reranked(opened, way, rerank="cross-encoder"):
        expected = top({c.chunk.chunk_id: overlap(query, c.chunk.text) for c in before}, DEPTH)
        assert list(scores(after).items()) == list(expected.items())
        assert [c.scores["rerank"] for c in after] == [c.score for c in after]


@pytest.mark.parametrize(
    ("model", "said"),
    [("ReversingCompressor", "the cross-encoder gives no scores"), ("Logits", "the cross-encoder gives a score of ")],
)
def test_the_threshold_reads_no_scores_without_bounds(opened: QdrantRetriever, model: str, said: str) -> None:
    own = {"provider": "python", "model": f"tests.support.rerankers:{model}"}
    cross = opened.settings.cross_encoder.model_copy(update=own)
    way = {"mode": "hybrid", "rerank": "cross-encoder", "cross_encoder": cross}
    before, after = (found_by(variant(opened, **one), QUERIES[0]) for one in ({"mode": "hybrid"}, way))
    assert sorted(ids(after)) == sorted(ids(before)), "which order all the same"
    if model == "ReversingCompressor":
        assert ids(after) == ids(before)[::-1]
    retriever = variant(opened, **way, threshold_on="final")
    error = retriever.search(QUERIES[0]).error or ""
    assert error.startswith(said) and "threshold_on: each" in error
    with pytest.raises(RerankError):
        retriever.invoke(QUERIES[0])


# Filters


FIELDS: dict[str, Sequence[Any]] = {
    "source_url": ("/docs/module-1-ros2/topics", "/docs/module-1-ros2/tf2", "/docs/none"),
    "url": ("/docs/module-1-ros2/services",),
    "tags": ("qos", "ros2", "topics", "none"),
    "chunk_token_count": (20, 60, 100, 150),
    "metadata.chunk_index": (0, 1, 2.0, 5),
    "sidebar_position": (1, 2, 5, 20),
}


def value_in(payload: Any, field: str) -> Any:
    name = {"url": "source_url", "metadata.chunk_index": "chunk_index"}.get(field, field)
    return payload["metadata"].get(name)


@pytest.mark.slow
@pytest.mark.parametrize("way", PLAIN, ids=name_of)
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(expression=trees(FIELDS, size=4))
def test_a_filter_comes_before_the_cut(
    opened: QdrantRetriever, brute_force: BruteForce, way: dict[str, Any], expression: Tree
) -> None:
    """Check that a filtered search finds the best of all matches, even if few are found without the filter."""
    allowed = {n for n, p in brute_force.payloads.items() if holds(expression, lambda f, p=p: value_in(p, f))}  # type: ignore[misc]
    assume(allowed)

    def best(mode: str) -> dict[str, float]:
        everything = scores(found_by(variant(opened, mode=mode, candidates=10_000), QUERIES[1]))
        return dict([pair for pair in everything.items() if pair[0] in allowed][:DEPTH])

    found = scores(found_by(variant(opened, **way, filters=as_text(expression)), QUERIES[1]))
    if way["mode"] != "hybrid":
        assert list(found.items()) == list(best(way["mode"]).items())
        return
    reachable = {*best("semantic"), *best("keyword")}
    assert found.keys() <= reachable and len(found) == min(DEPTH, len(reachable))
    if way["fusion"] == "weighted":
        expected = brute_force.weighted(QUERIES[1], DEPTH, 0.7, allowed)
        assert list(found.values()) == pytest.approx(list(expected.values()), abs=1e-5)
