"""What is found: brute force in numpy, bm25s and the fusions of qdrant-client are the oracles, ties the hard part."""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models
from qdrant_client.hybrid.fusion import distribution_based_score_fusion
from qdrant_client.models import ScoredPoint

from retrievers import QdrantRetriever
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import RerankError, StoreError
from retrievers.records import RetrievedChunk
from retrievers.search.candidates import Candidates
from retrievers.search.find import Search
from retrievers.search.query import Encoded, encode
from retrievers.store.chunks import ChunkTable
from retrievers.store.embedded import EmbeddedClient
from tests.support.collections import IDF, fill, index_pages, settings
from tests.support.hybrid import Bm25, BruteForce, fill_sparse, ids, mmr, scores, select_by, terms, top, variant
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer
from tests.support.rerankers import overlap

pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")
OFFSETS = [math.sqrt(prime) / 100 for prime in (2, 3, 5, 7, 11, 13, 17, 19)]
"""Added to queries, so that no cosine is 0 but for rounding, which would order chunks by noise."""


def found(client: Any, queries: Sequence[Encoded], depth: int, **values: Any) -> list[list[RetrievedChunk]]:
    """Return the candidates of each query, with their chunks."""
    config = settings(**{"collection": "c", **values})
    chunks = ChunkTable(client, config)
    table = Search(client, config, depth, chunks, None).find(queries)
    chunks.read(table.codes[table.codes >= 0].tolist())
    for row in table:
        assert [hit.rank for hit in row] == list(range(1, len(row) + 1))
    return [list(row) for row in table]


def encoded(text: str, *vector: float) -> Encoded:
    terms = Bm25Encoder().query(text)
    return {"semantic": list(vector)} | ({"keyword": terms} if terms.indices else {})


@given(st.integers(0, 10**6), st.integers(1, 150), st.integers(2, 8), st.integers(1, 160))
def test_candidates_are_the_first_of_brute_force(seed: int, size: int, dimension: int, depth: int) -> None:
    """Vectors are few and short, so that scores tie, repeat, and fall below 0; brute force is in float64."""
    generator = np.random.default_rng(seed)
    vectors = generator.integers(-2, 3, (size, dimension)).astype(float)
    vectors[~vectors.any(axis=1), 0] = 1
    query = generator.integers(-2, 3, dimension) + np.asarray(OFFSETS[:dimension])
    names = [f"{number:04d}" for number in generator.permutation(size)]
    with closing(QdrantClient(":memory:")) as client:
        fill(client, "c", vectors.tolist(), [{"metadata": {"chunk_id": name}} for name in names])
        [row] = found(client, [{"semantic": query.tolist()}], depth)
        points, _ = client.scroll("c", limit=size, with_vectors=True)
    stored = np.asarray([point.vector for point in points], dtype=float)
    cosines = stored @ query / np.linalg.norm(stored, axis=1) / np.linalg.norm(query)
    pairs = zip(names, np.clip(cosines.astype(np.float32), 0, 1).tolist(), strict=True)
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:depth]
    assert [(hit.chunk.chunk_id, hit.score) for hit in row] == expected


@pytest.mark.parametrize("way", ["semantic", "keyword", "weighted", "rrf", "dbsf"])
def test_where_all_tie_the_chunk_id_decides_who_is_in_and_in_which_place(memory: QdrantClient, way: str) -> None:
    names = [f"{number:03d}" for number in np.random.default_rng(3).permutation(130)]
    fill_sparse(memory, "c", [([0.3, 0.4], "red robot", {"chunk_id": name}) for name in names])
    mode = {"mode": way} if way in ("semantic", "keyword") else {"mode": "hybrid", "fusion": way}
    for depth in (1, 64, 129, 130, 131):
        [candidates] = found(memory, [encoded("red", 1.0, 0.2)], depth, **mode)
        assert [hit.chunk.chunk_id for hit in candidates] == sorted(names)[:depth]


def on(server: QdrantServer, query: Encoded, depth: int, *, batch: int = 1, **values: Any) -> Candidates:
    """Search a server's collection."""
    config = settings(store={"url": server.url}, collection="c", **values)
    with closing(QdrantClient(url=server.url, check_compatibility=False)) as client:
        return Search(client, config, depth, ChunkTable(client, config), None).find([query] * batch)


def test_no_more_is_fetched_than_the_answer_and_its_ties_need(server: QdrantServer) -> None:
    vectors = [[1.0, 0.0]] * 3 + [[1.0, float(n)] for n in range(1, 30)]
    fill(server.client, "c", vectors, [{"metadata": {"chunk_id": f"{n:02d}"}} for n in range(32)])
    for depth, limits in ((5, [6]), (3, [4]), (2, [3, 6]), (1, [2, 4]), (32, [33])):
        server.requests.clear()
        on(server, {"semantic": [1.0, 0.0]}, depth)
        *searches, read = server.requests
        asked = [one for request in searches for one in request.body["searches"]]
        assert [one["limit"] for one in asked] == limits
        assert not any(one["with_payload"] for one in asked)
        assert sorted(read.body["ids"]) == [0, 1, 2], "of those that tie alone the chunk id is read"


@pytest.mark.parametrize(("mode", "searches"), [("semantic", 1), ("keyword", 2), ("hybrid", 2)])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_search_is_a_bounded_number_of_requests(server: QdrantServer, mode: str, searches: int, batch: int) -> None:
    fill_sparse(server.client, "c", TWINS)
    server.requests.clear()
    assert on(server, encoded("red sea", 1.0, 0.0), 1, batch=batch, mode=mode).lengths.tolist() == [1] * batch
    assert [request.path.rpartition("/")[2] for request in server.requests] == ["batch"] * searches
    missing = [one for request in server.requests[1:] for one in request.body["searches"]]
    assert all(one["params"]["exact"] for one in missing), "an index may not find all points that are asked for"


# Keyword and hybrid

TWINS = (
    ([1.0, 0.0], "red robot arm", {"chunk_id": "0", "source_url": "/a"}),
    ([0.9, 0.1], "blue robot", {"chunk_id": "1", "source_url": "/a"}),
    ([0.8, 0.6], "green sea", {"chunk_id": "0", "source_url": "/b"}),
    ([0.0, 1.0], "red sea", {"chunk_id": "1", "source_url": "/b"}),
    ([0.6, 0.8], "the and of", {"chunk_id": "2", "source_url": "/b"}),
)
"""Chunks numbered anew on every page, so that their ids repeat."""


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf"])
def test_chunks_that_share_an_id_are_not_merged(memory: QdrantClient, fusion: str) -> None:
    fill_sparse(memory, "c", TWINS)
    [row] = found(memory, [encoded("red robot", 1.0, 0.0)], 5, mode="hybrid", fusion=fusion)
    texts = {hit.chunk.point_id: hit.chunk.text for hit in row}
    assert texts == {str(number): text for number, (_, text, _) in enumerate(TWINS)}
    cosines = {hit.chunk.point_id: hit.scores["semantic"] for hit in row}
    assert cosines == pytest.approx({"0": 1.0, "1": 0.9 / 0.82**0.5, "2": 0.8, "3": 0.0, "4": 0.6}, abs=1e-6)


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("embedded", [True, False])
def test_a_point_without_a_cosine_is_an_error(mode: str, embedded: bool, tmp_path: Path) -> None:
    client = EmbeddedClient(tmp_path / "store", create=True) if embedded else QdrantClient(":memory:")
    terms = {"bm25": Bm25Encoder().document("red robot")}
    params = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    vectors = [terms | {"dense": [1.0, 0.0]}, terms, terms | {"dense": [0.0, 1.0]}]
    fill(client, "c", vectors, [{}] * 3, params=params, sparse={"bm25": IDF})
    with pytest.raises(StoreError, match="point 1 of collection 'c' has no dense vector 'dense'"):
        found(client, [encoded("robot", 1.0, 0.0)], 5, vector_name="dense", mode=mode)
    [row] = found(client, [encoded("", 1.0, 0.0)], 5, vector_name="dense")
    assert [hit.chunk.point_id for hit in row] == ["0", "2"], "by meaning it cannot be found at all"
    client.close()


def test_a_score_that_is_not_a_number_is_refused(server: QdrantServer) -> None:
    points = {"points": [{"id": 1, "version": 0, "score": math.nan}]}
    nan = Reply.json({"result": [points], "status": "ok", "time": 0})
    with server.failing(Fault(reply=nan)), pytest.raises(StoreError, match="a score that is no number"):
        on(server, {"semantic": [1.0]}, 5)


# BM25, beside bm25s: the same terms, k and b; queries repeat words

WORDS = ("robot", "robots", "run", "running", "joint", "the", "of", "sensor", "lidar", "x1", "gait")
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=10).map(" ".join)


@example(["robot robots run", "run the joint", "sensor"], "robot robot run robots")
@given(st.lists(SENTENCES, min_size=1, max_size=12).filter(lambda texts: any(map(terms, texts))), SENTENCES)
def test_random_texts_rank_as_bm25s_has_them(texts: Sequence[str], query: str) -> None:
    rows = [([1.0, 0.0], text, {"chunk_id": str(number)}) for number, text in enumerate(texts)]
    with closing(QdrantClient(":memory:")) as client:
        fill_sparse(client, "c", rows, Bm25Encoder("english", mean(len(terms(text)) for text in texts)))
        [row] = found(client, [encode([1.0, 0.0], Bm25Encoder().query(query))], 20, mode="keyword")
    ours = {hit.chunk.chunk_id: hit.score for hit in row}
    expected = Bm25({str(number): text for number, text in enumerate(texts)}).scores(query)
    assert [*ours.values()] == pytest.approx(sorted(expected.values(), reverse=True)[:20], rel=1e-5)
    assert ours == pytest.approx({text: expected[text] for text in ours}, rel=1e-5)


# Every mode, fusion and reranker, on part of the handbook

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


def found_by(retriever: QdrantRetriever, query: str) -> Sequence[RetrievedChunk]:
    (candidates,) = retriever.candidates([query])
    return candidates


# In every mode, fusion and reranker


def test_a_search_is_a_selection_of_its_candidates_in_the_total_order(retriever: QdrantRetriever) -> None:
    scale = retriever.settings.score_scale
    for query in (*QUERIES, *ODD):
        candidates = found_by(retriever, query)
        assert retriever.search(query).status == "success" and (candidates or retriever.settings.mode == "keyword")
        assert list(found_by(retriever, query)) == list(candidates), "it is the same every time"
        assert [c.rank for c in candidates] == list(range(1, len(candidates) + 1)) and len(candidates) <= DEPTH
        assert len(set(ids(candidates))) == len(candidates) and {c.score_scale for c in candidates} <= {scale}
        if scale in ("cosine", "weighted", "rerank"):
            assert all(0 <= (c.score or 0.0) <= 1 for c in candidates)
        if retriever.settings.rerank != "mmr":
            keys = [(-(c.score or 0.0), c.chunk.chunk_id) for c in candidates]
            assert all(one < other for one, other in pairwise(keys))
        for threshold, group_by in product((0.0, 0.2, 0.35), (None, "source_url")):
            twenty = variant(retriever, threshold=threshold, group_by=group_by)
            expected = list(select_by(twenty.settings, candidates)[0])
            assert list(twenty.search(query).chunks) == expected
            assert list(variant(twenty, top_k=3).search(query).chunks) == expected[:3], "the first of twenty"


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
    synonyms = {"bus": ("topic", "message broker", "robot"), "zebra": ("node",)}
    keyword = opened.settings.keyword.model_copy(update={"synonyms": synonyms})
    retriever = variant(opened, mode="keyword", keyword=keyword)
    for query, expansions in (("a bus of robots", synonyms["bus"]), ("zebra", synonyms["zebra"])):
        expected = top(brute_force.bm25.scores(query, expansions), DEPTH)
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
            assert ids(after) == picks and scores(after) == scores(before)
    for query, before, after in reranked(opened, way, rerank="cross-encoder"):
        expected = top({c.chunk.chunk_id: overlap(query, c.chunk.text) for c in before}, DEPTH)
        assert list(scores(after).items()) == list(expected.items())
        assert [c.scores["rerank"] for c in after] == [c.score for c in after]


def test_the_threshold_reads_no_scores_without_bounds(opened: QdrantRetriever) -> None:
    own = {"model": "python:tests.support.rerankers:Logits"}
    cross = opened.settings.cross_encoder.model_copy(update=own)
    way = {"mode": "hybrid", "rerank": "cross-encoder", "cross_encoder": cross}
    before, after = (found_by(variant(opened, **one), QUERIES[0]) for one in ({"mode": "hybrid"}, way))
    assert sorted(ids(after)) == sorted(ids(before)), "which order all the same"
    retriever = variant(opened, **way, threshold_on="final")
    error = retriever.search(QUERIES[0]).error or ""
    assert error.startswith("the cross-encoder gives a score of ") and "threshold_on: each" in error
    with pytest.raises(RerankError):
        retriever.invoke(QUERIES[0])


# Filters


@pytest.mark.parametrize("way", PLAIN, ids=name_of)
def test_a_filter_comes_before_the_cut(opened: QdrantRetriever, brute_force: BruteForce, way: dict[str, Any]) -> None:
    without = ids(found_by(variant(opened, **way), QUERIES[0]))
    allowed = [name for name in brute_force.payloads if name not in without]
    filtered = {**way, "filters": {"chunk_id": allowed}}
    found = scores(found_by(variant(opened, **filtered), QUERIES[0]))
    assert_same(found, expected_of(opened, brute_force, QUERIES[0], allowed, **filtered))
    assert found
