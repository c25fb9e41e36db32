"""A collection that is written to between two requests of one search; the steps are tested with the retriever."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionChangedError
from tests.support.collections import index_pages, settings, write_pages
from tests.support.qdrant_server import QdrantServer

QUERY = "how do nodes stream messages"
TRIES = 3
"""How often a search is begun before it is given up."""
WAYS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "mmr": {"rerank": "mmr"},
    "grouped": {"group_by": "source_url"},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        index_pages(settings(store={"url": running.url}, collection="pages"), write_pages(tmp_path / "pages"))
        yield running


def config(server: QdrantServer, **values: Any) -> RetrieverConfig:
    return settings(**{"store": {"url": server.url}, "collection": "pages", "threshold": 0, "mode": "hybrid", **values})


@contextmanager
def losing_its_best(server: QdrantServer, times: int) -> Iterator[list[str]]:
    """A server that, after a search has found points, removes the best of them, so often."""
    answer = server.answer
    removed: list[str] = []

    def then_removed(request: Any) -> Any:
        reply = answer(request)
        searches = request.body.get("searches", [{}]) if request.path.endswith("points/query/batch") else [{}]
        if len(removed) < times and "limit" in searches[0] and not searches[0].get("params"):
            point = json.loads(reply.body)["result"][0]["points"][0]["id"]
            server.client.delete("pages", [point])
            removed.append(str(point))
        return reply

    server.answer = then_removed  # type: ignore[method-assign]
    try:
        yield removed
    finally:
        server.answer = answer  # type: ignore[method-assign]


@pytest.mark.parametrize("way", ["hybrid", "mmr", "grouped"])
@pytest.mark.parametrize("times", [1, TRIES - 1])
def test_a_search_is_begun_anew_when_what_it_found_is_gone(server: QdrantServer, way: str, times: int) -> None:
    with QdrantRetriever.open(config(server, **WAYS[way]), env={}) as retriever:
        with losing_its_best(server, times) as removed:
            session = retriever.search(QUERY)
        assert (session.status, len(removed)) == ("success", times)
        assert not {found.chunk.point_id for found in session.chunks} & set(removed)
        settled = retriever.search(QUERY)
        assert [c.chunk for c in session.chunks] == [c.chunk for c in settled.chunks]


def test_a_collection_that_does_not_stand_still_is_an_error_that_says_so(server: QdrantServer) -> None:
    with QdrantRetriever.open(config(server), env={}) as retriever:
        with losing_its_best(server, 9) as removed:
            session = retriever.search(QUERY)
            assert len(removed) == TRIES
            with pytest.raises(CollectionChangedError):
                retriever.invoke(QUERY)
        assert session.status == "error"
        assert "changed during the search" in (session.error or "")


def test_candidates_of_a_batch_are_begun_anew_as_well(server: QdrantServer) -> None:
    with QdrantRetriever.open(config(server), env={}) as retriever:
        with losing_its_best(server, 1) as removed:
            found = retriever.candidates([QUERY, "request answer client"])
        assert all(c.chunk.point_id not in removed for one in found for c in one)
        again = retriever.candidates([QUERY, "request answer client"])
        assert [[c.chunk for c in one] for one in found] == [[c.chunk for c in one] for one in again]


def test_a_chunk_that_an_earlier_batch_found_is_not_read_again(server: QdrantServer) -> None:
    with QdrantRetriever.open(config(server, mode="semantic"), env={}) as retriever:
        chunks = retriever.chunk_table()
        server.requests.clear()
        first = retriever.candidates([QUERY, "robot"], depth=20, chunks=chunks)
        assert len(server.requests) == 2, "ids and scores, then the chunks"
        search, read = server.requests
        assert not any(one["with_payload"] for one in search.body["searches"])
        assert sorted(map(str, read.body["ids"])) == sorted({c.chunk.point_id for row in first for c in row})
        server.requests.clear()
        again = retriever.candidates([QUERY, "robot"], depth=20, chunks=chunks)
        assert [request.path.endswith("/query/batch") for request in server.requests] == [True]
        assert [[c.chunk for c in row] for row in again] == [[c.chunk for c in row] for row in first]
