"""What holds in every mode, fusion and reranker, on part of the handbook; each against brute force."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from qdrant_client.hybrid.fusion import distribution_based_score_fusion
from qdrant_client.models import ScoredPoint

from retrievers import QdrantRetriever
from retrievers.errors import RerankError
from retrievers.records import RetrievedChunk
from tests.support.collections import index_pages, settings
from tests.support.hybrid import BruteForce, ids, mmr, scores, select_by, top, variant
from tests.support.rerankers import overlap

DEPTH = 25
QUERIES = (
    "how do nodes stream messages",
    "quality of service reliability depth",
    "what is the capital of France",
    "URDF tf2 transform tree",
    "launch launch launch",
)
WITHOUT_TERMS = ("the and of", "🤖", "?! …", "-- \x00")
ODD = (*WITHOUT_TERMS, "日本語 ロボット", "wie sende ich", "'; DROP TABLE", "C++ & R&D (e.g.)", "x" * 4_000)
PLAIN: tuple[dict[str, Any], ...] = (
    {"mode": "semantic"},
    {"mode": "keyword"},
    *({"mode": "hybrid", "fusion": fusion} for fusion in ("weighted", "rrf", "dbsf")),
)
WAYS = [{**way, "rerank": rerank} for way in PLAIN for rerank in ("none", "mmr", "cross-encoder")]
# Every mode, fusion and reranker once; the other ways are slow tests.
QUICK = "semantic-none keyword-mmr hybrid-weighted-cross-encoder hybrid-rrf-none hybrid-dbsf-mmr".split()


def name_of(way: dict[str, Any]) -> str:
    return "-".join(map(str, way.values()))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, handbook: Path) -> Iterator[QdrantRetriever]:
    """The ROS 2 module in an embedded store; threshold 0, top_k 20, candidate depth 25 of more than 100 chunks."""
    store = {"path": str(tmp_path_factory.mktemp("modes"))}
    scorer = {"model": "python:tests.support.rerankers:Scorer"}
    cut = {"threshold": 0, "top_k": 20, "candidates": DEPTH}
    config = settings(store=store, collection="ros2", mode="hybrid", cross_encoder=scorer, **cut)
    index_pages(config, handbook / "docs" / "module-1-ros2")
    with QdrantRetriever.open(config, env={}) as retriever:
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


def found_by(retriever: QdrantRetriever, query: str) -> Sequence[RetrievedChunk]:
    (candidates,) = retriever.candidates([query])
    return candidates


# In every mode, fusion and reranker


def test_a_search_is_a_selection_of_its_candidates_in_the_total_order(retriever: QdrantRetriever) -> None:
    """The selection is that of an oracle, whose threshold reads the cosine."""
    scale = retriever.settings.score_scale
    for query in QUERIES:
        candidates = found_by(retriever, query)
        assert untimed(found_by(retriever, query)) == untimed(candidates), "it is the same every time"
        assert [c.rank for c in candidates] == list(range(1, len(candidates) + 1)) and len(candidates) <= DEPTH
        assert len(set(ids(candidates))) == len(candidates) and {c.score_scale for c in candidates} <= {scale}
        if scale in ("cosine", "weighted", "rerank"):
            assert all(0 <= (c.score or 0.0) <= 1 for c in candidates)
        if retriever.settings.rerank != "mmr":
            keys = [(-(c.score or 0.0), c.chunk.chunk_id) for c in candidates]
            assert all(one < other for one, other in pairwise(keys))
        for threshold, group_by in product((0.0, 0.2, 0.35), (None, "source_url")):
            twenty = variant(retriever, threshold=threshold, group_by=group_by)
            expected = untimed(select_by(twenty.settings, candidates).chunks)
            assert untimed(twenty.search(query).chunks) == expected
            assert untimed(variant(twenty, top_k=3).search(query).chunks) == expected[:3], "the first of twenty"


@pytest.mark.parametrize("query", ODD)
def test_any_query_is_a_success(retriever: QdrantRetriever, query: str) -> None:
    session = retriever.search(query)
    assert (session.status, session.error) == ("success", None)
    assert len(session.chunks) == 20 or retriever.settings.mode == "keyword"


# Beside brute force


def expected_of(
    opened: QdrantRetriever, brute_force: BruteForce, query: str, among: Collection[str], **way: Any
) -> dict[str, float]:
    """Return the candidates among some chunks, and their scores.

    rrf and dbsf are those of the two sides that the retriever finds, each of which brute force finds, too.
    """
    weight = way.get("semantic_weight", 0.7)
    if way.get("fusion") == "weighted":
        return brute_force.weighted(query, DEPTH, weight, among)
    if way["mode"] != "hybrid":
        every = brute_force.cosines(query) if way["mode"] == "semantic" else brute_force.bm25.scores(query)
        return top({name: score for name, score in every.items() if name in among}, DEPTH)
    filters = way.get("filters")
    sides = [scores(found_by(variant(opened, mode=m, filters=filters), query)) for m in ("semantic", "keyword")]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    if way["fusion"] == "dbsf":
        given = [[ScoredPoint(id=names.index(n), version=0, score=s) for n, s in side.items()] for side in sides]
        fused = {names[int(p.id)]: p.score for p in distribution_based_score_fusion(given, limit=1_000)}
        return top(fused, DEPTH)
    shares = zip(sides, (weight, 1 - weight), strict=True)
    ranked = [{name: share / (60 + rank) for rank, name in enumerate(side, 1)} for side, share in shares]
    return top({name: sum(side.get(name, 0.0) for side in ranked) for name in names}, DEPTH)


def assert_same(found: dict[str, float], expected: dict[str, float], tolerance: float = 1e-5) -> None:
    """Check for the same scores, each of them its chunk's: a tie at the edge may go to another chunk."""
    assert [*found.values()] == pytest.approx([*expected.values()], rel=tolerance, abs=tolerance)
    shared = found.keys() & expected.keys()
    assert len(shared) >= len(expected) - 1
    ours, theirs = ({name: side[name] for name in shared} for side in (found, expected))
    assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(
    "way", [*PLAIN, *({**way, "semantic_weight": w} for way in PLAIN[2:4] for w in (0.5, 0.0, 1.0))], ids=name_of
)
def test_candidates_are_those_of_brute_force(
    opened: QdrantRetriever, brute_force: BruteForce, way: dict[str, Any]
) -> None:
    for query in (*QUERIES, *WITHOUT_TERMS):
        found, exact = found_by(variant(opened, **way), query), way.get("fusion") in ("rrf", "dbsf")
        expected = expected_of(opened, brute_force, query, brute_force.payloads, **way)
        assert_same(scores(found), expected, 1e-9 if exact else 1e-5)
        cosines, bm25 = brute_force.cosines(query), brute_force.bm25.scores(query)
        for hit in found:
            assert hit.scores["semantic"] == pytest.approx(cosines[hit.chunk.chunk_id], abs=1e-6)
            if "keyword" in hit.scores:
                assert hit.scores["keyword"] == pytest.approx(bm25[hit.chunk.chunk_id], rel=1e-5)


def test_synonyms_are_searched_along_at_half_the_weight(opened: QdrantRetriever, brute_force: BruteForce) -> None:
    synonyms = {"bus": ("topic", "message broker"), "zebra": ("node",)}
    keyword = opened.settings.keyword.model_copy(update={"synonyms": synonyms})
    retriever = variant(opened, mode="keyword", keyword=keyword)
    for query, expansions in (("a bus of robots", ["topic", "message broker"]), ("zebra", ["node"])):
        expected = top(brute_force.bm25.scores(query, expansions, 0.5), DEPTH)
        assert_same(scores(found_by(retriever, query)), expected)


def test_the_keyword_side_does_not_know_abbreviations(opened: QdrantRetriever) -> None:
    spelt = variant(opened, abbreviations={"QoS": "quality of service"})
    for mode, same_as in (("semantic", "QoS (quality of service)"), ("keyword", "QoS")):
        found, expected = found_by(variant(spelt, mode=mode), "QoS"), found_by(variant(opened, mode=mode), same_as)
        assert scores(found) == scores(expected)


# Rerankers


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
            assert ids(after) == picks
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
    own = {"model": f"python:tests.support.rerankers:{model}"}
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


@pytest.mark.parametrize("way", PLAIN, ids=name_of)
def test_a_filter_comes_before_the_cut(opened: QdrantRetriever, brute_force: BruteForce, way: dict[str, Any]) -> None:
    """Only chunks are let through that the search does not find without the filter."""
    without = ids(found_by(variant(opened, **way), QUERIES[0]))
    allowed = [name for name in brute_force.payloads if name not in without]
    filtered = {**way, "filters": {"chunk_id": allowed}}
    found = scores(found_by(variant(opened, **filtered), QUERIES[0]))
    assert_same(found, expected_of(opened, brute_force, QUERIES[0], allowed, **filtered))
    assert found
