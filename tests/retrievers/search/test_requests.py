"""Requests to Qdrant: ties at the edge, scores of given points, one round trip for many."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from retrievers.search.requests import ask, cosine, scores_of

from retrievers.config import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import StoreError
from retrievers.search.candidates import Candidates, CandidateTable
from retrievers.store.chunks import ChunkTable
from tests.support.collections import settings
from tests.support.hybrid import fill_sparse
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer
from tests.support.writable import WritableClient

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


def dense(*vector: float, **values: Any) -> models.QueryRequest:
    return models.QueryRequest(query=list(vector), **values)


def terms(text: str) -> models.QueryRequest:
    return models.QueryRequest(query=Bm25Encoder().query(text), using="bm25")


class Asked:
    """Requests to one collection, whose chunks are numbered as they come."""

    def __init__(self, client: Any, config: RetrieverConfig) -> None:
        self.client, self.config, self.chunks = client, config, ChunkTable(client, config)

    def ask(self, depth: int, *requests: models.QueryRequest) -> CandidateTable:
        return ask(self.client, self.config, requests, [depth] * len(requests), self.chunks)

    def scores_of(self, *pairs: tuple[models.QueryRequest, Sequence[Any]]) -> list[dict[Any, float]]:
        """The scores by point instead of by code."""
        codes = [self.chunks.codes(points) for _, points in pairs]
        found = scores_of(self.client, self.config, [request for request, _ in pairs], codes, self.chunks)
        return [dict(zip(self.points(scores), scores.values(), strict=True)) for scores in found]

    def points(self, codes: Iterable[int]) -> list[Any]:
        return self.chunks.given(np.asarray(list(codes), dtype=np.int32))

    def by_point(self, found: Candidates) -> dict[Any, float]:
        return dict(zip(self.points(found.codes), found.scores.tolist(), strict=True))


@pytest.fixture
def asked_of(client: QdrantClient, config: RetrieverConfig) -> Asked:
    return Asked(client, config)


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


@pytest.mark.parametrize(
    ("depth", "asked", "count"),
    [(1, [[2], [4]], 4), (2, [[3], [6]], 6), (3, [[4]], 4), (5, [[6], [12]], 6), (6, [[7]], 6)],
)
def test_ties_at_the_edge_are_asked_for(
    server: QdrantServer, asked_of: Asked, depth: int, asked: list[list[int]], count: int
) -> None:
    """Three points tie at the top; the fifth and sixth, at 0 and below, are both read as 0."""
    (found,) = asked_of.ask(depth, dense(1.0, 0.0))
    assert len(found.codes) == len(found.scores) == count
    assert limits(server) == asked
    assert (found.scale, found.columns) == ("cosine", {})


def test_many_searches_are_one_round_trip_and_only_those_with_ties_another(
    server: QdrantServer, asked_of: Asked
) -> None:
    found = asked_of.ask(1, dense(1.0, 0.0), dense(0.0, 1.0), terms("red"), terms("sea"))
    assert limits(server) == [[2, 2, 2, 2], [4, 4]]
    points = [asked_of.points(each.codes) for each in found]
    assert [sorted(points[0]), points[1], sorted(points[2]), points[3]] == [[0, 1, 2, 3], [4, 3], [0, 1], [4, 3]]
    assert [each.scale for each in found] == ["cosine", "cosine", "bm25", "bm25"]
    assert all(each.scores.tolist() == sorted(each.scores, reverse=True) for each in found)


def test_an_embedded_store_answers_as_a_server_does(asked_of: Asked, config: RetrieverConfig, tmp_path: Path) -> None:
    searches = [(2, dense(1.0, 0.0)), (4, dense(0.6, 0.8)), (9, dense(0.0, 1.0))]
    points = [(dense(0.6, 0.8), [0, 3, 5]), (dense(1.0, 0.0), [])]
    with closing(WritableClient(tmp_path / "store", create=True)) as embedded:
        fill_sparse(embedded, "c", [(vector, text, {}) for vector, text in ROWS])  # type: ignore[arg-type]
        ours = Asked(embedded, config)
        for search in searches:
            [found], [theirs] = ours.ask(*search), asked_of.ask(*search)
            assert ours.by_point(found) == pytest.approx(asked_of.by_point(theirs), abs=1e-6)
        assert ours.scores_of(*points) == [pytest.approx(each, abs=1e-6) for each in asked_of.scores_of(*points)]


def test_nothing_is_asked_for_nothing(server: QdrantServer, asked_of: Asked) -> None:
    assert asked_of.ask(3).codes.tolist() == []
    assert asked_of.scores_of((dense(1.0, 0.0), [])) == [{}]
    assert server.requests == []


def test_scores_of_given_points_are_those_of_the_search(server: QdrantServer, asked_of: Asked) -> None:
    by_terms = (terms("red sea"), [1, 2, 4, 5])
    first, second, third = asked_of.scores_of((dense(1.0, 0.0), [0, 5]), (dense(0.0, 2.0), []), by_terms)
    assert limits(server) == [[2, 4]]
    assert all(search["params"] == {"exact": True} for search in server.requests[0].body["searches"])
    assert first == {0: 1.0, 5: 0.0}, "a cosine below 0 is read as 0"
    assert second == {}
    (found,) = asked_of.ask(6, terms("red sea"))
    searched = asked_of.by_point(found)
    assert third == {name: searched[name] for name in (1, 4)}, "those without a term are left out"


def test_a_point_that_is_not_there_has_no_score(asked_of: Asked) -> None:
    assert asked_of.scores_of((dense(1.0, 0.0), [0, 99])) == [{0: 1.0}]


def test_what_is_searched_meets_the_filter(asked_of: Asked) -> None:
    among = models.Filter(must=[models.HasIdCondition(has_id=[3, 4])])
    (found,) = asked_of.ask(5, dense(1.0, 0.0, filter=among))
    assert asked_of.points(found.codes) == [3, 4]


@pytest.mark.parametrize("searches", [1, 2])
def test_a_score_that_is_not_a_number_is_refused(server: QdrantServer, asked_of: Asked, searches: int) -> None:
    point = {"id": 1, "version": 0, "score": math.nan}
    result = {"points": [point]} if searches == 1 else [{"points": []}, {"points": [point]}]
    with server.failing(Fault(reply=Reply.json({"result": result, "status": "ok", "time": 0}))):
        with pytest.raises(StoreError, match="'c' returned a score that is not a number; its vectors are broken"):
            asked_of.ask(1, *[dense(1.0, 0.0)] * searches)


def test_a_point_comes_with_the_id_that_its_store_takes_back(tmp_path: Path) -> None:
    """Numbers and UUIDs, from an embedded store and over HTTP."""
    ids = [7, "6f9619ff-8b86-d011-b42d-00cf4fc964ff"]
    points = [models.PointStruct(id=i, vector=[1.0, float(n)], payload={}) for n, i in enumerate(ids)]
    params = models.VectorParams(size=2, distance=models.Distance.COSINE)
    with QdrantServer() as server, closing(WritableClient(tmp_path / "store", create=True)) as embedded:
        over_http = QdrantClient(url=server.url, check_compatibility=False)
        pairs: list[tuple[Any, Any]] = [(embedded, embedded), (over_http, server.client)]
        for client, writer in pairs:
            writer.create_collection("c", params)
            writer.upsert("c", points)
            asked_of = Asked(client, settings(collection="c"))
            (found,) = asked_of.ask(5, dense(1.0, 0.0))
            searched = asked_of.by_point(found)
            assert list(map(str, searched)) == list(map(str, ids))
            assert asked_of.scores_of((dense(1.0, 0.0), list(searched))) == [searched]
        over_http.close()
