"""Candidates in the total order: brute force in numpy and bm25s are the oracles, ties the hard part."""

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from bm25s import BM25
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from retrievers.embedding.bm25 import B, Bm25Encoder, K
from retrievers.errors import StoreError
from retrievers.records import RetrievedChunk
from retrievers.search.candidates import Candidates
from retrievers.search.find import Search
from retrievers.search.query import Encoded, encode
from retrievers.store.chunks import ChunkTable
from retrievers.store.collection import NO_LIMITS
from retrievers.store.embedded import EmbeddedClient
from tests.support.collections import IDF, fill, settings
from tests.support.hybrid import BruteForceBm25, fill_sparse
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer

pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")
DRAWN = examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
OFFSETS = [math.sqrt(prime) / 100 for prime in (2, 3, 5, 7, 11, 13, 17, 19)]
"""Added to queries, so that no cosine is 0 but for rounding, which would order chunks by noise."""


def found(client: Any, queries: Sequence[Encoded], depth: int, **values: Any) -> list[list[RetrievedChunk]]:
    """Return the candidates of each query, with their chunks."""
    config = settings(**{"collection": "c", **values})
    chunks = ChunkTable(client, config)
    table = Search(client, config, depth, chunks, None, NO_LIMITS).find(queries)
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
        return Search(client, config, depth, ChunkTable(client, config), None, NO_LIMITS).find([query] * batch)


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
    """At depth 1 each side finds another chunk, so that each has to be asked for the other's score."""
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


# What a store may lack


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


def terms(text: str) -> list[str]:
    return [str(term) for term in BruteForceBm25({}, 1).terms(text)]


def bm25s(texts: Sequence[str], query: Sequence[str]) -> dict[str, float]:
    """BM25 of every text that holds a term of the query, by its number. bm25s leaves out the constant k + 1."""
    index = BM25(k1=K, b=B, method="lucene", dtype="float64")
    index.index([terms(text) for text in texts], show_progress=False)
    known = [term for term in query if term in index.vocab_dict]
    scores: NDArray[np.float64] = index.get_scores(known) if known else np.zeros(len(texts))
    return {str(number): score * (K + 1) for number, score in enumerate(scores.tolist()) if score > 0}


@DRAWN
@example(["robot robots run", "run the joint", "sensor"], "robot robot run robots")
@given(st.lists(SENTENCES, min_size=1, max_size=12).filter(lambda texts: any(map(terms, texts))), SENTENCES)
def test_random_texts_rank_as_bm25s_has_them(texts: Sequence[str], query: str) -> None:
    """The same scores at every place, each of them its text's: the same list but for the order of ties."""
    rows = [([1.0, 0.0], text, {"chunk_id": str(number)}) for number, text in enumerate(texts)]
    with closing(QdrantClient(":memory:")) as client:
        fill_sparse(client, "c", rows, Bm25Encoder("english", mean(len(terms(text)) for text in texts)))
        [row] = found(client, [encode([1.0, 0.0], Bm25Encoder().query(query))], 20, mode="keyword")
    ours, expected = {hit.chunk.chunk_id: hit.score for hit in row}, bm25s(texts, terms(query))
    assert [*ours.values()] == pytest.approx(sorted(expected.values(), reverse=True)[:20], rel=1e-5)
    assert ours == pytest.approx({text: expected[text] for text in ours}, rel=1e-5)
