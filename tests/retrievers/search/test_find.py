"""Candidates in the total order: brute force in numpy and langchain-qdrant are the oracles, ties the hard part."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
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

from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import CollectionChangedError, StoreError
from retrievers.records import RetrievedChunk
from retrievers.search.candidates import Candidates
from retrievers.search.find import Search
from retrievers.search.query import Encoded
from retrievers.store.chunks import ChunkTable
from tests.support.collections import TableEmbeddings, fill, settings, widen
from tests.support.hybrid import fill_sparse
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer
from tests.support.writable import WritableClient

pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")
DRAWN = examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
OFFSETS = [math.sqrt(prime) / 100 for prime in (2, 3, 5, 7, 11, 13, 17, 19)]
"""Added to queries, so that no cosine is 0 but for rounding, which would order chunks by noise."""


def found(client: Any, queries: Sequence[Encoded], depth: int, **values: Any) -> list[list[RetrievedChunk]]:
    """Return the candidates of each query, with their chunks."""
    config = settings(**{"collection": "c", **values})
    chunks = ChunkTable(client, config)
    table = Search(client, config, depth, chunks).find(queries)
    chunks.read(table.codes[table.codes >= 0].tolist())
    for row in table:
        assert [hit.rank for hit in row] == list(range(1, len(row) + 1))
    return [list(row) for row in table]


def encoded(text: str, *vector: float) -> Encoded:
    terms = Bm25Encoder().query(text)
    return {"semantic": list(vector)} | ({"keyword": terms} if terms.indices else {})


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
        points, _ = self.client.scroll("c", limit=10_000, with_vectors=True)
        stored: Any = [point.vector for point in sorted(points, key=lambda point: int(point.id))]
        self.unit: NDArray[np.float64] = np.asarray(stored, dtype=float)
        self.unit /= np.linalg.norm(self.unit, axis=1, keepdims=True)

    def brute_force(self, query: Sequence[float]) -> list[tuple[str, float]]:
        """Return every chunk in the total order: cosine in float64, to float32, clipped."""
        vector = np.asarray(query, dtype=float)
        scores = np.clip((self.unit @ (vector / np.linalg.norm(vector))).astype(np.float32), 0, 1)
        return sorted(zip(self.ids, map(float, scores), strict=True), key=lambda pair: (-pair[1], pair[0]))

    def found(self, query: Sequence[float], depth: int) -> list[tuple[str, float]]:
        [candidates] = found(self.client, [{"semantic": [*query]}], depth)
        return [(hit.chunk.chunk_id, hit.score or 0.0) for hit in candidates]


@pytest.fixture(scope="module", params=[(0, 1, 2), (1, 40, 2), (2, 97, 3), (3, 150, 8)], ids=str)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(*request.param)
    yield made
    made.client.close()


def vectors_of(dimension: int) -> st.SearchStrategy[list[float]]:
    grid = st.lists(st.integers(-2, 2), min_size=dimension, max_size=dimension)
    return grid.map(lambda values: [value + offset for value, offset in zip(values, OFFSETS, strict=False)])


@DRAWN
@given(data=st.data())
def test_candidates_are_the_first_of_brute_force_however_deep(world: World, data: st.DataObject) -> None:
    query, depth = data.draw(vectors_of(world.dimension)), data.draw(st.integers(1, 160))
    assert world.found(query, depth) == world.brute_force(query)[:depth]


@DRAWN
@given(data=st.data())
def test_scores_are_langchain_qdrants_clipped_to_0_and_1(world: World, data: st.DataObject) -> None:
    query = data.draw(vectors_of(world.dimension))
    model = TableEmbeddings({"q": query})
    store = QdrantVectorStore(world.client, "c", embedding=model, validate_collection_config=False)
    theirs = {
        d.metadata["chunk_id"]: min(1, max(0, score)) for d, score in store.similarity_search_with_score("q", k=999)
    }
    ours = world.found(query, 20)
    assert [score for _, score in ours] == pytest.approx(sorted(theirs.values(), reverse=True)[:20], abs=1e-6)
    assert dict(ours) == pytest.approx({name: theirs[name] for name, _ in ours}, abs=1e-6)


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf"])
def test_where_all_tie_the_chunk_id_decides_who_is_in_and_in_which_place(mode: str, fusion: str) -> None:
    client = QdrantClient(":memory:")
    names = [f"{number:03d}" for number in np.random.default_rng(3).permutation(130)]
    fill_sparse(client, "c", [([0.3, 0.4], "red robot", {"chunk_id": name}) for name in names])
    for depth in (1, 64, 129, 130, 131):
        [candidates] = found(client, [encoded("red", 1.0, 0.2)], depth, mode=mode, fusion=fusion)
        assert [hit.chunk.chunk_id for hit in candidates] == sorted(names)[:depth]
    client.close()


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


def on(server: QdrantServer, query: Encoded, depth: int, *, batch: int = 1, **values: Any) -> Candidates:
    """Search a server's collection."""
    config = settings(store={"url": server.url}, collection="c", **values)
    with closing(QdrantClient(url=server.url, check_compatibility=False)) as client:
        return Search(client, config, depth, ChunkTable(client, config)).find([query] * batch)


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


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf"])
def test_chunks_that_share_an_id_are_not_merged(twins: QdrantClient, fusion: str) -> None:
    [row] = found(twins, [encoded("red robot", 1.0, 0.0)], 5, mode="hybrid", fusion=fusion)
    texts = {hit.chunk.point_id: hit.chunk.text for hit in row}
    assert texts == {str(number): text for number, (_, text, _) in enumerate(TWINS)}
    cosines = {hit.chunk.point_id: hit.scores["semantic"] for hit in row}
    assert cosines == pytest.approx({"0": 1.0, "1": 0.9 / 0.82**0.5, "2": 0.8, "3": 0.0, "4": 0.6}, abs=1e-6)


# What a store may lack


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("embedded", [True, False])
def test_a_point_without_the_vector_that_the_threshold_reads_is_an_error(
    mode: str, embedded: bool, tmp_path: Path
) -> None:
    client: Any = WritableClient(tmp_path / "store", create=True) if embedded else QdrantClient(":memory:")
    size = models.VectorParams(size=2, distance=models.Distance.COSINE)
    sparse = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    client.create_collection("c", vectors_config={"dense": size}, sparse_vectors_config=sparse)
    terms = Bm25Encoder().document("red robot")
    for number, vector in enumerate(({"dense": [1.0, 0.0]}, {}, {"dense": [0.0, 1.0]})):
        own = {"bm25": models.SparseVector(indices=list(terms.indices), values=list(terms.values)), **vector}
        client.upsert("c", [models.PointStruct(id=number, vector=own, payload={})])
    with pytest.raises(StoreError, match="point 1 of collection 'c' has no dense vector 'dense'"):
        found(client, [encoded("robot", 1.0, 0.0)], 5, vector_name="dense", mode=mode)
    [row] = found(client, [encoded("", 1.0, 0.0)], 5, vector_name="dense")
    assert [hit.chunk.point_id for hit in row] == ["0", "2"], "by meaning it cannot be found at all"
    client.close()


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("after", [1, 2])
def test_a_point_that_goes_during_a_search_is_an_error_of_its_own(server: QdrantServer, mode: str, after: int) -> None:
    """It is removed after the first request, which finds it, or after the second, which gives its cosine."""
    fill_sparse(server.client, "c", TWINS)
    server.requests.clear()
    answer = server.answer

    def then_removed(request: Any) -> Any:
        reply = answer(request)
        if len(server.requests) == after:
            server.client.delete("c", [3])
        return reply

    server.answer = then_removed  # type: ignore[method-assign]
    with pytest.raises(CollectionChangedError, match="collection 'c' changed during the search: point 3"):
        with closing(QdrantClient(url=server.url, check_compatibility=False)) as client:
            found(client, [encoded("red sea", 0.7, 0.7)], 1, store={"url": server.url}, mode=mode)


def test_a_score_that_is_not_a_number_is_refused(server: QdrantServer) -> None:
    points = {"points": [{"id": 1, "version": 0, "score": math.nan}]}
    nan = Reply.json({"result": [points], "status": "ok", "time": 0})
    with server.failing(Fault(reply=nan)), pytest.raises(StoreError, match="a score that is no number"):
        on(server, {"semantic": [1.0]}, 5)


def test_an_empty_collection_has_no_candidates() -> None:
    client = QdrantClient(":memory:")
    fill_sparse(client, "c", TWINS[:1])
    client.delete("c", [0])
    for mode in ("semantic", "keyword", "hybrid"):
        assert found(client, [encoded("red", 1.0, 0.0)], 10, mode=mode) == [[]]
    client.close()
