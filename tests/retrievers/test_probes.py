"""Requests to Qdrant: ties at the edge, scores of given points, one round trip for many."""

import math
from collections.abc import Iterator, Sequence

import pytest
from qdrant_client import QdrantClient, models

from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.keyword import Bm25Encoder
from retrievers.probes import Probe, ask, bm25, cosine, point_id, scores_of, sparse
from tests.support.collections import settings
from tests.support.hybrid import fill_sparse
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer

ROWS: Sequence[tuple[Sequence[float], str]] = (
    ([1.0, 0.0], "red robot"),
    ([1.0, 0.0], "red robot"),
    ([1.0, 0.0], "blue robot"),
    ([0.6, 0.8], "blue sea"),
    ([0.0, 1.0], "sea"),
    ([-1.0, 0.0], "the and of"),
)


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        fill_sparse(running.client, "c", [(vector, text, {}) for vector, text in ROWS])
        yield running


@pytest.fixture
def client(server: QdrantServer) -> Iterator[QdrantClient]:
    server.requests.clear()
    made = QdrantClient(url=server.url, check_compatibility=False)
    yield made
    made.close()


@pytest.fixture
def config(server: QdrantServer) -> RetrieverConfig:
    return settings(store={"url": server.url}, collection="c")


def dense(depth: int, *vector: float) -> Probe:
    return Probe(query=list(vector), using=None, depth=depth, among=None, read=cosine)


def terms(text: str, depth: int) -> Probe:
    return Probe(query=sparse(Bm25Encoder().query(text)), using="bm25", depth=depth, among=None, read=bm25)


def limits(server: QdrantServer) -> list[list[int]]:
    """Of every request what its searches asked for."""
    return [[s["limit"] for s in request.body.get("searches", [request.body])] for request in server.requests]


@pytest.mark.parametrize(
    ("score", "read"),
    [(0.5, 0.5), (-0.5, 0.0), (1.0000001, 1.0), (0.1, 0.10000000149011612), (-0.0, 0.0)],
)
def test_a_cosine_is_read_as_float32_and_clipped(score: float, read: float) -> None:
    assert cosine(score) == read
    assert bm25(31.1) == 31.100000381469727


@pytest.mark.parametrize(
    ("depth", "asked", "count"),
    [(1, [[2], [4]], 4), (2, [[3], [6]], 6), (3, [[4]], 4), (5, [[6], [12]], 6), (6, [[7]], 6)],
)
def test_ties_at_the_edge_are_asked_for(
    server: QdrantServer, client: QdrantClient, config: RetrieverConfig, depth: int, asked: list[list[int]], count: int
) -> None:
    """Three points tie at the top; the fifth and sixth, at 0 and below, are both read as 0."""
    (found,) = ask(client, config, [dense(depth, 1.0, 0.0)])
    assert len(found) == count
    assert limits(server) == asked


def test_many_searches_are_one_round_trip_and_only_those_with_ties_another(
    server: QdrantServer, client: QdrantClient, config: RetrieverConfig
) -> None:
    found = ask(client, config, [dense(2, 1.0, 0.0), dense(2, 0.0, 1.0), terms("red", 1), terms("sea", 5)])
    assert limits(server) == [[3, 3, 2, 6], [6, 4]]
    assert [point.id for point in found[1]][:2] == [4, 3]
    assert sorted(point.id for point in found[0]) == [0, 1, 2, 3, 4, 5]
    assert sorted(point.id for point in found[2]) == [0, 1]
    assert [point.id for point in found[3]] == [4, 3]


def test_nothing_is_asked_for_nothing(server: QdrantServer, client: QdrantClient, config: RetrieverConfig) -> None:
    assert ask(client, config, []) == []
    assert scores_of(client, config, [([1.0, 0.0], None)], [[]]) == [{}]
    assert server.requests == []


def test_scores_of_given_points_are_those_of_the_search(
    server: QdrantServer, client: QdrantClient, config: RetrieverConfig
) -> None:
    query = sparse(Bm25Encoder().query("red sea"))
    vectors = [([1.0, 0.0], None), ([0.0, 2.0], None), (query, "bm25")]
    first, second, third = scores_of(client, config, vectors, [["0", "5"], [], ["1", "2", "4", "5"]])
    assert len(server.requests) == 1
    assert first == {"0": 1.0, "5": -1.0}, "raw: who reads them clips them"
    assert second == {}
    searched = {str(point.id): bm25(point.score) for point in ask(client, config, [terms("red sea", 6)])[0]}
    assert third == {name: searched[name] for name in ("1", "4")}, "those without a term are left out"


def test_a_point_that_is_not_there_has_no_score(client: QdrantClient, config: RetrieverConfig) -> None:
    assert scores_of(client, config, [([1.0, 0.0], None)], [["0", "99"]]) == [{"0": 1.0}]


def test_what_is_searched_meets_the_filter(client: QdrantClient, config: RetrieverConfig) -> None:
    among = models.Filter(must=[models.HasIdCondition(has_id=[3, 4])])
    probe = Probe(query=[1.0, 0.0], using=None, depth=5, among=among, read=cosine)
    assert [point.id for point in ask(client, config, [probe])[0]] == [3, 4]


@pytest.mark.parametrize("searches", [1, 2])
def test_a_score_that_is_not_a_number_is_refused(server: QdrantServer, config: RetrieverConfig, searches: int) -> None:
    point = {"id": 1, "version": 0, "score": math.nan}
    result = {"points": [point]} if searches == 1 else [{"points": []}, {"points": [point]}]
    client = QdrantClient(url=server.url, check_compatibility=False)
    with server.failing(Fault(reply=Reply.json({"result": result, "status": "ok", "time": 0}))):
        with pytest.raises(StoreError, match="'c' returned a score that is not a number; its vectors are broken"):
            ask(client, config, [dense(1, 1.0, 0.0)] * searches)
    client.close()


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("7", 7),
        ("0", 0),
        ("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ("6F9619FF8B86D011B42D00CF4FC964FF", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ("chunk-1", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
    ],
)
def test_a_point_id_is_a_whole_number_or_a_uuid(text: str, known: object) -> None:
    assert point_id(text) == known
