"""Candidates in the total order, against brute force in numpy and against langchain-qdrant."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from langchain_qdrant import QdrantVectorStore
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from retrievers.retriever.stages import every_place, ordered
from retrievers.search.sides import Search

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import CollectionChangedError, StoreError
from retrievers.records import RetrievedChunk
from retrievers.search.query import Encoded
from retrievers.store.chunks import ChunkTable
from tests.support.collections import TableEmbeddings, fill, settings, widen
from tests.support.hybrid import fill_sparse
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer
from tests.support.writable import WritableClient

pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")

CONFIG = settings(collection="c")
OFFSETS = [math.sqrt(prime) / 100 for prime in (2, 3, 5, 7, 11, 13, 17, 19)]
"""Added to queries, so that no cosine is 0 but for rounding, which would order chunks by noise."""


def searched(
    client: QdrantClient, config: RetrieverConfig, queries: Sequence[Encoded], depth: int
) -> list[tuple[RetrievedChunk, ...]]:
    """All candidates of each query."""
    chunks = ChunkTable(client, config)
    return read_of(Search(client=client, config=config, depth=depth, chunks=chunks), queries)


def read_of(search: Search, queries: Sequence[Encoded]) -> list[tuple[RetrievedChunk, ...]]:
    """All candidates of each query, with their chunks."""
    found = ordered(search.find(queries), search.depth, search.chunks, every_place)
    return [tuple(candidates) for candidates in found]


def search_for(vector: Sequence[float]) -> Encoded:
    return {"semantic": list(vector)}


class World:
    """A collection whose vectors are few and short, so that scores tie, repeat, and fall below 0."""

    def __init__(self, seed: int, size: int, dimension: int) -> None:
        generator = np.random.default_rng(seed)
        vectors = generator.integers(-2, 3, (size, dimension)).astype(float)
        vectors[~vectors.any(axis=1), 0] = 1
        self.ids = [f"{number:04d}" for number in generator.permutation(size)]
        self.client = QdrantClient(":memory:")
        payloads = [{"page_content": f"t{n}", "metadata": {"chunk_id": n}} for n in self.ids]
        fill(self.client, "c", vectors.tolist(), payloads)
        self.dimension = dimension
        self.unit: NDArray[np.float64] = np.asarray([p.vector for p in self.points()], dtype=float)
        self.unit /= np.linalg.norm(self.unit, axis=1, keepdims=True)

    def points(self) -> list[Any]:
        found, _ = self.client.scroll("c", limit=10_000, with_vectors=True)
        return sorted(found, key=lambda point: int(point.id))

    def brute_force(self, query: Sequence[float]) -> list[tuple[str, float]]:
        """Every chunk in the total order: cosine in float64, to float32, clipped."""
        vector = np.asarray(query, dtype=float)
        scores = np.clip((self.unit @ (vector / np.linalg.norm(vector))).astype(np.float32), 0, 1)
        return sorted(zip(self.ids, map(float, scores), strict=True), key=lambda pair: (-pair[1], pair[0]))

    def found(self, query: Sequence[float], depth: int) -> list[tuple[str, float]]:
        (candidates,) = searched(self.client, CONFIG, [search_for(query)], depth)
        assert [c.rank for c in candidates] == list(range(1, len(candidates) + 1))
        return [(c.chunk.chunk_id, c.known_score) for c in candidates]


@pytest.fixture(scope="module", params=[(0, 1, 2), (1, 40, 2), (2, 97, 3), (3, 150, 8)], ids=str)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(*request.param)
    yield made
    made.client.close()


def queries(dimension: int) -> st.SearchStrategy[list[float]]:
    grid = st.lists(st.integers(-2, 2), min_size=dimension, max_size=dimension)
    return grid.map(lambda values: [value + offset for value, offset in zip(values, OFFSETS, strict=False)])


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_candidates_are_the_first_of_brute_force_in_the_total_order(world: World, data: st.DataObject) -> None:
    query, depth = data.draw(queries(world.dimension)), data.draw(st.integers(1, 160))
    assert world.found(query, depth) == world.brute_force(query)[:depth]


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_deeper_search_never_changes_a_shallower_one(world: World, data: st.DataObject) -> None:
    query = data.draw(queries(world.dimension))
    shallow, deep = sorted((data.draw(st.integers(1, 50)), data.draw(st.integers(1, 100))))
    assert world.found(query, shallow) == world.found(query, deep)[:shallow]


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_scores_are_langchain_qdrants_clipped_to_0_and_1(world: World, data: st.DataObject) -> None:
    query = data.draw(queries(world.dimension))
    store = QdrantVectorStore(
        world.client, "c", embedding=TableEmbeddings({"q": query}), validate_collection_config=False
    )
    theirs = store.similarity_search_with_score("q", k=20)
    ours = world.found(query, 20)
    assert [score for _, score in ours] == pytest.approx([min(1, max(0, score)) for _, score in theirs], abs=1e-6)
    exact = {document.metadata["chunk_id"]: score for document, score in store.similarity_search_with_score("q", k=999)}
    assert {name: score for name, score in ours} == pytest.approx(
        {name: min(1, max(0, exact[name])) for name, _ in ours}, abs=1e-6
    )


def test_a_query_repeated_gives_the_same_bits(world: World) -> None:
    query = [1.0, *[0.3] * (world.dimension - 1)]
    assert len({tuple(world.found(query, 30)) for _ in range(5)}) == 1


def test_each_vector_of_a_batch_has_its_own_candidates(world: World) -> None:
    vectors = [[1.0] * world.dimension, [-1.0] * world.dimension, [1.0] * world.dimension]
    batch = searched(world.client, CONFIG, [search_for(vector) for vector in vectors], 5)
    assert [[(c.chunk.chunk_id, c.score) for c in found] for found in batch] == [world.found(v, 5) for v in vectors]
    assert searched(world.client, CONFIG, [], 5) == []


def test_all_points_tied_are_ordered_by_chunk_id() -> None:
    client = QdrantClient(":memory:")
    ids = [f"{number:03d}" for number in np.random.default_rng(5).permutation(130)]
    fill(client, "c", [[0.3, 0.4, 0.5]] * 130, [{"metadata": {"chunk_id": n}} for n in ids])
    for depth in (1, 2, 64, 129, 130, 131):
        (found,) = searched(client, CONFIG, [search_for([0.1, 0.9, 0.2])], depth)
        assert [c.chunk.chunk_id for c in found] == sorted(ids)[:depth]
        assert len({c.score for c in found}) == 1
    client.close()


def test_an_empty_collection_has_no_candidates() -> None:
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="c")
        fill(server.client, "c", [[1.0, 0.0]], [{}])
        server.client.delete("c", [0])
        client = QdrantClient(url=server.url, check_compatibility=False)
        assert searched(client, config, [search_for([1.0, 0.0])], 10) == [()]
        client.close()


def test_no_more_is_fetched_than_the_answer_and_its_ties_need() -> None:
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="c")
        vectors = [[1.0, 0.0]] * 3 + [[1.0, float(n)] for n in range(1, 30)]
        fill(server.client, "c", vectors, [{"metadata": {"chunk_id": f"{n:02d}"}} for n in range(32)])
        client = QdrantClient(url=server.url, check_compatibility=False)
        for depth, limits in ((5, [6]), (3, [4]), (2, [3, 6]), (1, [2, 4]), (32, [33])):
            server.requests.clear()
            searched(client, config, [search_for([1.0, 0.0])], depth)
            *searches, read = server.requests
            assert [request.body["limit"] for request in searches] == limits
            assert not any(request.body["with_payload"] for request in searches)
            assert depth <= len(read.body["ids"]) <= max(depth, 3), "all that tie are read"
        client.close()


def test_a_named_vector_is_the_one_searched() -> None:
    client = QdrantClient(":memory:")
    params = {name: models.VectorParams(size=2, distance=models.Distance.COSINE) for name in ("a", "b")}
    vectors = [{"a": [1.0, 0.0], "b": [0.0, 1.0]}, {"a": [0.0, 1.0], "b": [1.0, 0.0]}]
    fill(client, "c", vectors, [{"metadata": {"chunk_id": n}} for n in "xy"], params=params)
    for name, first in (("a", "x"), ("b", "y")):
        (found,) = searched(client, settings(collection="c", vector_name=name), [search_for([1.0, 0.0])], 1)
        assert found[0].chunk.chunk_id == first
    client.close()


def test_a_score_that_is_not_a_number_is_refused() -> None:
    nan = Reply.json({"result": {"points": [{"id": 1, "version": 0, "score": math.nan}]}, "status": "ok", "time": 0})
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="c")
        client = QdrantClient(url=server.url, check_compatibility=False)
        with server.failing(Fault(reply=nan)), pytest.raises(StoreError, match="a score that is not a number"):
            searched(client, config, [search_for([1.0])], 5)
        client.close()


# Keyword and hybrid


TWINS = (
    ([1.0, 0.0], "red robot arm", {"chunk_id": "0", "source_url": "/a"}),
    ([0.9, 0.1], "blue robot", {"chunk_id": "1", "source_url": "/a"}),
    ([0.8, 0.6], "green sea", {"chunk_id": "0", "source_url": "/b"}),
    ([0.0, 1.0], "red sea", {"chunk_id": "1", "source_url": "/b"}),
    ([0.6, 0.8], "the and of", {"chunk_id": "2", "source_url": "/b"}),
)
"""Chunks numbered anew on every page, so that their ids repeat."""


@pytest.fixture(scope="module")
def twins() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    fill_sparse(client, "c", TWINS)
    widen(client, "c")
    yield client
    client.close()


def encoded(text: str, *vector: float) -> Encoded:
    terms = Bm25Encoder().query(text)
    return {"semantic": list(vector)} | ({"keyword": terms} if terms.indices else {})


def found_in(client: QdrantClient, query: Encoded, depth: int, **values: Any) -> list[RetrievedChunk]:
    (candidates,) = searched(client, settings(collection="c", **values), [query], depth)
    assert [c.rank for c in candidates] == list(range(1, len(candidates) + 1))
    return list(candidates)


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf"])
def test_chunks_that_share_an_id_are_not_merged(twins: QdrantClient, fusion: str) -> None:
    found = found_in(twins, encoded("red robot", 1.0, 0.0), 5, mode="hybrid", fusion=fusion)
    assert sorted(c.chunk.point_id for c in found) == ["0", "1", "2", "3", "4"]
    texts = {c.chunk.point_id: c.chunk.text for c in found}
    assert texts == {str(number): text for number, (_, text, _) in enumerate(TWINS)}
    cosines = {c.chunk.point_id: c.scores["semantic"] for c in found}
    assert cosines == pytest.approx({"0": 1.0, "1": 0.9 / 0.82**0.5, "2": 0.8, "3": 0.0, "4": 0.6}, abs=1e-6)


def test_hybrid_by_hand(twins: QdrantClient) -> None:
    """ "red" is in two of five texts, idf ln(3.5/2.5 + 1); of length 3 and 2 at an average of 256."""
    idf = math.log(3.5 / 2.5 + 1)
    long, short = (idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * length / 256)) for length in (3, 2))
    found = found_in(twins, encoded("red", 0.0, 1.0), 5, mode="hybrid")
    expected = {
        "red sea": 0.7 + 0.3,
        "the and of": 0.7 * 0.8,
        "green sea": 0.7 * 0.6,
        "red robot arm": 0.3 * long / short,
        "blue robot": 0.7 * 0.1 / 0.82**0.5,
    }
    assert [c.chunk.text for c in found] == list(expected)
    assert [c.score for c in found] == pytest.approx(list(expected.values()), abs=1e-6)
    assert found[0].scores == pytest.approx({"semantic": 1.0, "keyword": short, "fused": 1.0}, abs=1e-5)
    assert found[1].scores == pytest.approx({"semantic": 0.8, "fused": 0.56}, abs=1e-6), "no term, no keyword score"


def test_keyword_by_hand(twins: QdrantClient) -> None:
    found = found_in(twins, encoded("red robots", 0.6, 0.8), 5, mode="keyword")
    assert [c.chunk.text for c in found] == ["red robot arm", "blue robot", "red sea"], "equal scores by chunk id"
    assert [(c.score, c.score_scale) for c in found] == [(c.scores["keyword"], "bm25") for c in found]
    assert [c.scores["semantic"] for c in found] == pytest.approx([0.6, (0.54 + 0.08) / 0.82**0.5, 0.8], abs=1e-6)


def test_a_query_without_terms_finds_nothing_by_keywords(twins: QdrantClient) -> None:
    assert found_in(twins, encoded("the and of", 1.0, 0.0), 5, mode="keyword") == []
    batch = [encoded("the", 1.0, 0.0), encoded("red", 1.0, 0.0), encoded("🤖", 1.0, 0.0)]
    counts = [len(found) for found in searched(twins, settings(collection="c", mode="keyword"), batch, 5)]
    assert counts == [0, 2, 0]
    assert searched(twins, settings(collection="c", mode="hybrid"), [], 5) == []


def test_keyword_ties_at_the_edge_are_cut_by_chunk_id() -> None:
    client = QdrantClient(":memory:")
    names = [f"{number:03d}" for number in np.random.default_rng(3).permutation(60)]
    fill_sparse(client, "c", [([1.0, 0.0], "red robot", {"chunk_id": name}) for name in names])
    for depth in (1, 7, 59, 60, 61):
        found = found_in(client, encoded("red", 1.0, 0.0), depth, mode="keyword")
        assert [c.chunk.chunk_id for c in found] == sorted(names)[:depth]
    client.close()


@pytest.mark.parametrize(
    ("mode", "fusion", "paths"),
    [
        ("semantic", "weighted", ["query", "read"]),
        ("keyword", "weighted", ["query", "query", "read"]),
        ("hybrid", "rrf", ["query", "query", "read"]),
        ("hybrid", "weighted", ["query", "query", "read"]),
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_search_is_a_bounded_number_of_requests(mode: str, fusion: str, paths: list[str], batch: int) -> None:
    """Depth 1: each side finds another chunk, so each has to be asked for the other's score."""
    with QdrantServer() as server:
        fill_sparse(server.client, "c", TWINS)
        client = QdrantClient(url=server.url, check_compatibility=False)
        config = settings(store={"url": server.url}, collection="c", mode=mode, fusion=fusion)
        chunks = ChunkTable(client, config)
        search = Search(client=client, config=config, depth=1, chunks=chunks)
        found = read_of(search, [encoded("red sea", 1.0, 0.0)] * batch)
        assert [len(one) for one in found] == [1] * batch
        kinds = {"query": "query", "query/batch": "query", "": "read"}
        assert [kinds[r.path.partition("/points/")[2]] for r in server.requests] == paths
        client.close()


def test_hybrid_search_reads_the_payloads_of_what_it_returns_alone() -> None:
    with QdrantServer() as server:
        fill_sparse(server.client, "c", TWINS)
        client = QdrantClient(url=server.url, check_compatibility=False)
        config = settings(store={"url": server.url}, collection="c", mode="hybrid")
        searched(client, config, [encoded("red", 0.0, 1.0)], 2)
        *queries, read = server.requests
        assert not any(one["with_payload"] for request in queries for one in request.body["searches"])
        assert sorted(read.body["ids"]) == [3, 4]
        client.close()


# What a store may lack


def foreign(client: QdrantClient, *dense: Sequence[float] | None) -> None:
    """Points that all hold "red robot", some of them without a vector."""
    client.create_collection(
        "c",
        vectors_config={"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    terms = Bm25Encoder().document("red robot")
    sparse = models.SparseVector(indices=list(terms.indices), values=list(terms.values))
    client.upsert(
        "c",
        [
            models.PointStruct(id=n, vector={"bm25": sparse, **({"dense": list(vector)} if vector else {})}, payload={})
            for n, vector in enumerate(dense)
        ],
    )


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("embedded", [True, False])
def test_a_point_without_the_vector_that_the_threshold_reads_is_an_error(
    mode: str, embedded: bool, tmp_path: Path
) -> None:
    client: Any = WritableClient(tmp_path / "store", create=True) if embedded else QdrantClient(":memory:")
    foreign(client, [1.0, 0.0], None, [0.0, 1.0])
    config = settings(collection="c", vector_name="dense", mode=mode)
    with pytest.raises(StoreError, match="point 1 of collection 'c' has no vector 'dense'") as caught:
        searched(client, config, [encoded("robot", 1.0, 0.0)], 5)
    assert "store one for every point" in str(caught.value)
    semantic = searched(client, settings(collection="c", vector_name="dense"), [search_for([1.0, 0.0])], 5)
    assert [c.chunk.point_id for c in semantic[0]] == ["0", "2"], "by meaning it cannot be found at all"
    client.close()


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("after", [1, 2])
def test_a_point_that_goes_during_a_search_is_an_error_of_its_own(mode: str, after: int) -> None:
    """It is removed after the first request, which finds it, or after the second, which gives its cosine."""
    with QdrantServer() as server:
        fill_sparse(server.client, "c", TWINS)
        client = QdrantClient(url=server.url, check_compatibility=False)
        config = settings(store={"url": server.url}, collection="c", mode=mode)
        answer = server.answer

        def then_removed(request: Any) -> Any:
            reply = answer(request)
            if len(server.requests) == after:
                server.client.delete("c", [3])
            return reply

        server.answer = then_removed  # type: ignore[method-assign]
        search = Search(client=client, config=config, depth=1, chunks=ChunkTable(client, config))
        with pytest.raises(CollectionChangedError, match="collection 'c' changed during the search: point 3"):
            read_of(search, [encoded("red sea", 0.7, 0.7)])
        client.close()
