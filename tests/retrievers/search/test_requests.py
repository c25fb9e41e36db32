"""Requests to Qdrant: ties at the edge, scores of given points, one round trip for many."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.sparse import sparse
from retrievers.errors import StoreError
from retrievers.search.requests import FoundPoints, PointProbe, Probe, ask, bm25, cosine, scores_of
from retrievers.store.edge import EdgeClient
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


def wanted(points: Sequence[int], *vector: float) -> PointProbe:
    return PointProbe(query=list(vector), using=None, points=points, read=bm25)


def numbers(hits: FoundPoints) -> list[int]:
    return [int(point) for point in hits.points]


def limits(server: QdrantServer) -> list[list[int]]:
    """Of every request what its searches asked for."""
    return [[s["limit"] for s in request.body.get("searches", [request.body])] for request in server.requests]


@pytest.mark.parametrize(
    ("score", "read"),
    [(0.5, 0.5), (-0.5, 0.0), (1.0000001, 1.0), (0.1, 0.10000000149011612), (-0.0, 0.0)],
)
def test_a_cosine_is_read_as_float32_and_clipped(score: float, read: float) -> None:
    (found,) = cosine(np.asarray([score], dtype=np.float32)).tolist()
    assert (found, math.copysign(1, found)) == (read, 1)
    assert bm25(np.asarray([31.1], dtype=np.float32)).tolist() == [31.100000381469727]


@pytest.mark.parametrize(
    ("depth", "asked", "count"),
    [(1, [[2], [4]], 4), (2, [[3], [6]], 6), (3, [[4]], 4), (5, [[6], [12]], 6), (6, [[7]], 6)],
)
def test_ties_at_the_edge_are_asked_for(
    server: QdrantServer, client: QdrantClient, config: RetrieverConfig, depth: int, asked: list[list[int]], count: int
) -> None:
    """Three points tie at the top; the fifth and sixth, at 0 and below, are both read as 0."""
    (found,) = ask(client, config, [dense(depth, 1.0, 0.0)])
    assert len(found.points) == len(found.scores) == count
    assert limits(server) == asked
    assert found.payloads == ()


def test_many_searches_are_one_round_trip_and_only_those_with_ties_another(
    server: QdrantServer, client: QdrantClient, config: RetrieverConfig
) -> None:
    found = ask(client, config, [dense(2, 1.0, 0.0), dense(2, 0.0, 1.0), terms("red", 1), terms("sea", 5)])
    assert limits(server) == [[3, 3, 2, 6], [6, 4]]
    assert numbers(found[1])[:2] == [4, 3]
    assert sorted(numbers(found[0])) == [0, 1, 2, 3, 4, 5]
    assert sorted(numbers(found[2])) == [0, 1]
    assert numbers(found[3]) == [4, 3]
    assert all(hits.scores.tolist() == sorted(hits.scores, reverse=True) for hits in found)


def test_payloads_come_along_where_they_are_wanted(client: QdrantClient, config: RetrieverConfig) -> None:
    with_payload = Probe(query=[1.0, 0.0], using=None, depth=6, among=None, read=cosine, with_payload=True)
    one, other = ask(client, config, [with_payload, dense(6, 1.0, 0.0)])
    texts = [payload["page_content"] for payload in one.payloads]
    assert dict(zip(numbers(one), texts, strict=True)) == {number: text for number, (_, text) in enumerate(ROWS)}
    assert other.payloads == ()
    (alone,) = ask(client, config, [with_payload])
    assert alone.payloads == one.payloads


def test_an_embedded_store_answers_as_a_server_does(
    client: QdrantClient, config: RetrieverConfig, tmp_path: Path
) -> None:
    probes = [dense(2, 1.0, 0.0), dense(4, 0.6, 0.8), dense(9, 0.0, 1.0)]
    points = [wanted([0, 3, 5], 0.6, 0.8), wanted([], 1.0, 0.0)]
    with EdgeClient(tmp_path / "store", create=True) as embedded:
        fill_sparse(embedded, "c", [(vector, text, {}) for vector, text in ROWS])  # type: ignore[arg-type]
        found = ask(embedded, config, probes)  # type: ignore[arg-type]
        scores = scores_of(embedded, config, points)  # type: ignore[arg-type]
    for ours, theirs in zip(found, ask(client, config, probes), strict=True):
        expected = dict(zip(theirs.points, theirs.scores, strict=True))
        assert dict(zip(ours.points, ours.scores, strict=True)) == pytest.approx(expected, abs=1e-6)
    assert scores == [pytest.approx(one, abs=1e-6) for one in scores_of(client, config, points)]


def test_nothing_is_asked_for_nothing(server: QdrantServer, client: QdrantClient, config: RetrieverConfig) -> None:
    assert ask(client, config, []) == []
    assert scores_of(client, config, [wanted([], 1.0, 0.0)]) == [{}]
    assert server.requests == []


def test_scores_of_given_points_are_those_of_the_search(
    server: QdrantServer, client: QdrantClient, config: RetrieverConfig
) -> None:
    query = sparse(Bm25Encoder().query("red sea"))
    by_terms = PointProbe(query=query, using="bm25", points=[1, 2, 4, 5], read=bm25)
    clipped = PointProbe(query=[1.0, 0.0], using=None, points=[0, 5], read=cosine)
    asked = [wanted([0, 5], 1.0, 0.0), wanted([], 0.0, 2.0), by_terms, clipped]
    first, second, third, fourth = scores_of(client, config, asked)
    assert limits(server) == [[2, 4, 2]]
    assert all(search["params"] == {"exact": True} for search in server.requests[0].body["searches"])
    assert (first, fourth) == ({0: 1.0, 5: -1.0}, {0: 1.0, 5: 0.0})
    assert second == {}
    (hits,) = ask(client, config, [terms("red sea", 6)])
    searched = dict(zip(hits.points, hits.scores, strict=True))
    assert third == {name: searched[name] for name in (1, 4)}, "those without a term are left out"


def test_a_point_that_is_not_there_has_no_score(client: QdrantClient, config: RetrieverConfig) -> None:
    assert scores_of(client, config, [wanted([0, 99], 1.0, 0.0)]) == [{0: 1.0}]


def test_what_is_searched_meets_the_filter(client: QdrantClient, config: RetrieverConfig) -> None:
    among = models.Filter(must=[models.HasIdCondition(has_id=[3, 4])])
    probe = Probe(query=[1.0, 0.0], using=None, depth=5, among=among, read=cosine)
    assert numbers(ask(client, config, [probe])[0]) == [3, 4]


@pytest.mark.parametrize("searches", [1, 2])
def test_a_score_that_is_not_a_number_is_refused(server: QdrantServer, config: RetrieverConfig, searches: int) -> None:
    point = {"id": 1, "version": 0, "score": math.nan}
    result = {"points": [point]} if searches == 1 else [{"points": []}, {"points": [point]}]
    client = QdrantClient(url=server.url, check_compatibility=False)
    with server.failing(Fault(reply=Reply.json({"result": result, "status": "ok", "time": 0}))):
        with pytest.raises(StoreError, match="'c' returned a score that is not a number; its vectors are broken"):
            ask(client, config, [dense(1, 1.0, 0.0)] * searches)
    client.close()


def test_a_point_comes_with_the_id_that_its_store_takes_back(tmp_path: Path) -> None:
    """Numbers and UUIDs, from an embedded store and over HTTP."""
    ids = [7, "6f9619ff-8b86-d011-b42d-00cf4fc964ff"]
    points = [models.PointStruct(id=i, vector=[1.0, float(n)], payload={}) for n, i in enumerate(ids)]
    params = models.VectorParams(size=2, distance=models.Distance.COSINE)
    config = settings(collection="c")
    with QdrantServer() as server, EdgeClient(tmp_path / "store", create=True) as embedded:
        over_http = QdrantClient(url=server.url, check_compatibility=False)
        pairs: list[tuple[Any, Any]] = [(embedded, embedded), (over_http, server.client)]
        for client, writer in pairs:
            writer.create_collection("c", params)
            writer.upsert("c", points)
            (hits,) = ask(client, config, [dense(5, 1.0, 0.0)])
            assert list(map(str, hits.points)) == list(map(str, ids))
            (scores,) = scores_of(
                client, config, [PointProbe(query=[1.0, 0.0], using=None, points=hits.points, read=bm25)]
            )
            assert scores == dict(zip(hits.points, hits.scores, strict=True))
        over_http.close()
