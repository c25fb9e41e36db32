"""Candidates in the total order, against brute force in numpy and against langchain-qdrant."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from langchain_qdrant import QdrantVectorStore
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from retrievers import search
from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.keyword import Bm25Encoder
from retrievers.records import Chunk, RetrievedChunk
from tests.support.collections import TableEmbeddings, fill, settings, widen
from tests.support.hybrid import fill_sparse
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer

CONFIG = settings(collection="c")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OFFSETS = [math.sqrt(prime) / 100 for prime in (2, 3, 5, 7, 11, 13, 17, 19)]
"""Added to queries, so that no cosine is 0 but for rounding, which would order chunks by noise."""


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
        (candidates,) = search.semantic(self.client, CONFIG, [query], depth)
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


@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_candidates_are_the_first_of_brute_force_in_the_total_order(world: World, data: st.DataObject) -> None:
    query, depth = data.draw(queries(world.dimension)), data.draw(st.integers(1, 160))
    assert world.found(query, depth) == world.brute_force(query)[:depth]


@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_deeper_search_never_changes_a_shallower_one(world: World, data: st.DataObject) -> None:
    query = data.draw(queries(world.dimension))
    shallow, deep = sorted((data.draw(st.integers(1, 50)), data.draw(st.integers(1, 100))))
    assert world.found(query, shallow) == world.found(query, deep)[:shallow]


@examples(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    batch = search.semantic(world.client, CONFIG, vectors, 5)
    assert [[(c.chunk.chunk_id, c.score) for c in found] for found in batch] == [world.found(v, 5) for v in vectors]
    assert search.semantic(world.client, CONFIG, [], 5) == []


def test_all_points_tied_are_ordered_by_chunk_id() -> None:
    client = QdrantClient(":memory:")
    ids = [f"{number:03d}" for number in np.random.default_rng(5).permutation(130)]
    fill(client, "c", [[0.3, 0.4, 0.5]] * 130, [{"metadata": {"chunk_id": n}} for n in ids])
    for depth in (1, 2, 64, 129, 130, 131):
        (found,) = search.semantic(client, CONFIG, [[0.1, 0.9, 0.2]], depth)
        assert [c.chunk.chunk_id for c in found] == sorted(ids)[:depth]
        assert len({c.score for c in found}) == 1
    client.close()


def test_an_empty_collection_has_no_candidates() -> None:
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="c")
        fill(server.client, "c", [[1.0, 0.0]], [{}])
        server.client.delete("c", [0])
        client = QdrantClient(url=server.url, check_compatibility=False)
        assert search.semantic(client, config, [[1.0, 0.0]], 10) == [()]
        assert search.scroll(client, config) == []
        client.close()


def test_no_more_is_fetched_than_the_answer_and_its_ties_need() -> None:
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="c")
        vectors = [[1.0, 0.0]] * 3 + [[1.0, float(n)] for n in range(1, 30)]
        fill(server.client, "c", vectors, [{"metadata": {"chunk_id": f"{n:02d}"}} for n in range(32)])
        client = QdrantClient(url=server.url, check_compatibility=False)
        for depth, limits in ((5, [6]), (3, [4]), (2, [3, 6]), (1, [2, 4]), (32, [33])):
            server.requests.clear()
            search.semantic(client, config, [[1.0, 0.0]], depth)
            assert [request.body["limit"] for request in server.requests] == limits
        client.close()


def test_a_named_vector_is_the_one_searched() -> None:
    client = QdrantClient(":memory:")
    params = {name: models.VectorParams(size=2, distance=models.Distance.COSINE) for name in ("a", "b")}
    vectors = [{"a": [1.0, 0.0], "b": [0.0, 1.0]}, {"a": [0.0, 1.0], "b": [1.0, 0.0]}]
    fill(client, "c", vectors, [{"metadata": {"chunk_id": n}} for n in "xy"], params=params)
    for name, first in (("a", "x"), ("b", "y")):
        (found,) = search.semantic(client, settings(collection="c", vector_name=name), [[1.0, 0.0]], 1)
        assert found[0].chunk.chunk_id == first
    client.close()


def test_a_score_that_is_not_a_number_is_refused() -> None:
    nan = Reply.json({"result": {"points": [{"id": 1, "version": 0, "score": math.nan}]}, "status": "ok", "time": 0})
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="c")
        client = QdrantClient(url=server.url, check_compatibility=False)
        with server.failing(Fault(reply=nan)), pytest.raises(StoreError, match="a score that is not a number"):
            search.semantic(client, config, [[1.0]], 5)
        client.close()


def chunk(name: str) -> Chunk:
    return Chunk(chunk_id=name, point_id=name, text="t")


def ranked(*scored: tuple[str, float]) -> tuple[RetrievedChunk, ...]:
    return search.rank([(chunk(name), score) for name, score in scored], NOW)


@pytest.mark.parametrize(
    ("scored", "order"),
    [
        ((("b", 0.5), ("a", 0.5), ("c", 0.9)), [("c", 0.9), ("a", 0.5), ("b", 0.5)]),
        ((("b", 0.5 + 1e-9), ("a", 0.5)), [("a", 0.5), ("b", 0.5)]),  # the same in float32
        ((("b", -0.1), ("a", -0.9)), [("a", 0.0), ("b", 0.0)]),
        ((("b", 1.0000001), ("a", 1.0)), [("a", 1.0), ("b", 1.0)]),
        ((("10", 0.5), ("9", 0.5)), [("10", 0.5), ("9", 0.5)]),  # ids are text
        ((), []),
    ],
)
def test_the_order_is_score_descending_then_chunk_id(
    scored: tuple[tuple[str, float], ...], order: list[tuple[str, float]]
) -> None:
    found = ranked(*scored)
    assert [(c.chunk.chunk_id, c.score) for c in found] == [(name, float(np.float32(score))) for name, score in order]
    assert [c.rank for c in found] == list(range(1, len(order) + 1))
    assert all(c.scores == {"semantic": c.score} and c.score_scale == "cosine" for c in found)
    assert all(c.retrieved_at == NOW for c in found)


@given(st.lists(st.tuples(st.uuids().map(str), st.floats(-1.1, 1.1)), unique_by=lambda pair: pair[0]))
def test_the_order_is_total_and_does_not_depend_on_the_order_given(scored: list[tuple[str, float]]) -> None:
    found = ranked(*scored)
    assert ranked(*reversed(scored)) == found
    assert all(0 <= c.known_score <= 1 for c in found)
    assert all((-a.known_score, a.chunk.chunk_id) < (-b.known_score, b.chunk.chunk_id) for a, b in pairwise(found))


# Reading without searching


@pytest.fixture(scope="module")
def foreign() -> Iterator[tuple[QdrantClient, RetrieverConfig]]:
    """2,500 points (three pages of the scroll), a flat payload, the address under an alias."""
    client = QdrantClient(":memory:")
    payloads = [{"text": f"t{n}", "url": f"/docs/{n % 3}", "lang": "en", "chunk_id": 9_999 - n} for n in range(2_500)]
    fill(client, "c", [[1.0, 0.0]] * len(payloads), payloads)
    yield client, settings(collection="c", metadata={"nested_under": "", "text_key": "text"})
    client.close()


def test_all_chunks_are_read_in_order_of_their_ids(foreign: tuple[QdrantClient, RetrieverConfig]) -> None:
    chunks = search.scroll(*foreign)
    assert [c.chunk_id for c in chunks] == sorted(str(9_999 - n) for n in range(2_500))


@pytest.mark.parametrize("field", ["source_url", "url"])
@pytest.mark.parametrize(
    ("values", "count"), [(["/docs/0"], 834), (["/docs/0", "/docs/2"], 1667), (["/docs/9"], 0), ([], 0)]
)
def test_chunks_are_found_by_a_field_under_any_of_its_names(
    foreign: tuple[QdrantClient, RetrieverConfig], field: str, values: list[str], count: int
) -> None:
    found = search.scroll(*foreign, {field: values})
    assert len(found) == count
    assert {c.source_url for c in found} <= set(values)


def test_a_mapped_field_is_found_by_its_key(foreign: tuple[QdrantClient, RetrieverConfig]) -> None:
    client, _ = foreign
    metadata = {"nested_under": "", "text_key": "text", "map": {"module": "lang"}}
    config = settings(collection="c", metadata=metadata)
    assert len(search.scroll(client, config, {"module": ["en"]})) == 2_500
    assert search.scroll(client, config, {"module": ["de"]}) == []
    assert len(search.scroll(client, config, {"module": ["en"], "source_url": ["/docs/1"]})) == 833


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


def encoded(text: str, *vector: float) -> search.EncodedQuery:
    return search.EncodedQuery(vector=vector, terms=Bm25Encoder().query(text))


def found_in(client: QdrantClient, query: search.EncodedQuery, depth: int, **values: Any) -> list[RetrievedChunk]:
    (candidates,) = search.candidates(client, settings(collection="c", **values), [query], depth)
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
    counts = [len(found) for found in search.candidates(twins, settings(collection="c", mode="keyword"), batch, 5)]
    assert counts == [0, 2, 0]
    assert search.candidates(twins, settings(collection="c", mode="hybrid"), [], 5) == []


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
        ("semantic", "weighted", ["query"]),
        ("keyword", "weighted", ["query", "query"]),
        ("hybrid", "rrf", ["query", "query", "query"]),
        ("hybrid", "weighted", ["query", "query", "query", "query"]),
    ],
)
def test_a_search_is_a_bounded_number_of_requests(mode: str, fusion: str, paths: list[str]) -> None:
    """Depth 1: each side finds another chunk, so each has to be asked for the other's score."""
    with QdrantServer() as server:
        fill_sparse(server.client, "c", TWINS)
        client = QdrantClient(url=server.url, check_compatibility=False)
        values: dict[str, Any] = {"store": {"url": server.url}, "collection": "c", "mode": mode, "fusion": fusion}
        for batch, kind in ((1, "query"), (3, "query/batch")):
            server.requests.clear()
            search.candidates(client, settings(**values), [encoded("red sea", 1.0, 0.0)] * batch, 1)
            assert [r.path.partition("/points/")[2] for r in server.requests] == [kind for _ in paths]
        client.close()


def test_vectors_of_chunks_are_in_their_order_by_name_or_without() -> None:
    client = QdrantClient(":memory:")
    fill_sparse(client, "c", TWINS)
    found = found_in(client, encoded("red sea", 0.0, 1.0), 5, mode="hybrid")
    vectors = search.vectors_of(client, settings(collection="c"), found)
    expected = np.asarray([TWINS[int(c.chunk.point_id)][0] for c in found])
    assert vectors == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)
    client.delete("c", [0])
    with pytest.raises(StoreError, match="collection 'c' changed during the search: a chunk found is gone; try again"):
        search.vectors_of(client, settings(collection="c"), found)
    client.close()


def test_a_mapped_key_of_any_characters_is_found() -> None:
    client = QdrantClient(":memory:")
    fill(client, "c", [[1.0, 0.0]] * 2, [{"metadata": {"page title": "x"}}, {"metadata": {"page title": "y"}}])
    config = settings(collection="c", metadata={"map": {"title": "page title"}})
    assert [c.title for c in search.scroll(client, config, {"title": ["y"]})] == ["y"]
    client.close()
