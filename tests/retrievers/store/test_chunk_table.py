"""Chunks by number, each read once."""

from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient, models

from retrievers.errors import CollectionChangedError
from retrievers.store.chunk_table import ChunkTable
from tests.support.collections import settings
from tests.support.hybrid import fill_sparse
from tests.support.qdrant_server import QdrantServer

ROWS = [([1.0, 0.0], text, {"chunk_id": f"c{n}"}) for n, text in enumerate(("red", "sea", "red sea"))]


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    made = QdrantClient(":memory:")
    fill_sparse(made, "c", ROWS)
    yield made
    made.close()


def test_a_point_keeps_its_number(client: QdrantClient) -> None:
    chunks = ChunkTable(client, settings(collection="c"))
    assert chunks.codes([2, 0, 2]).tolist() == [0, 1, 0]
    codes = chunks.codes([1, 0, "6f9619ff-8b86-d011-b42d-00cf4fc964ff"])
    assert (codes.tolist(), len(chunks)) == ([2, 1, 3], 4)
    assert chunks.given(codes) == [1, 0, "6f9619ff-8b86-d011-b42d-00cf4fc964ff"]
    assert [chunks.point(code) for code in range(3)] == ["2", "0", "1"]
    assert chunks.codes([]).tolist() == []


def test_a_chunk_is_read_once_and_what_came_along_not_at_all() -> None:
    with QdrantServer() as server:
        fill_sparse(server.client, "c", ROWS)
        client = QdrantClient(url=server.url, check_compatibility=False)
        chunks = ChunkTable(client, settings(store={"url": server.url}, collection="c"))
        zero, one, two = chunks.codes([0, 1, 2]).tolist()
        chunks.keep(one, {"page_content": "came along", "metadata": {"chunk_id": 7}})
        chunks.read([zero, one, zero])
        chunks.keep(zero, {"page_content": "too late"})
        chunks.read([two, zero])
        chunks.read([])
        assert [request.body["ids"] for request in server.requests] == [[0], [2]]
        assert [chunks[code].text for code in (zero, one, two)] == ["red", "came along", "red sea"]
        assert [chunks.name(code) for code in (zero, two, one)] == [("c0", "0"), ("c2", "2"), ("7", "1")]
        assert chunks[zero] is chunks[zero]
        client.close()


def test_a_point_without_a_payload_is_a_chunk_known_by_its_point(client: QdrantClient) -> None:
    client.upsert("c", [models.PointStruct(id=9, vector={"": [1.0, 0.0]}, payload=None)])
    chunks = ChunkTable(client, settings(collection="c"))
    (code,) = chunks.codes([9]).tolist()
    chunks.read([code])
    assert (chunks[code].chunk_id, chunks.chunk_id(code)) == ("9", "9")


def test_a_point_that_is_gone_is_told(client: QdrantClient) -> None:
    chunks = ChunkTable(client, settings(collection="c"))
    codes = chunks.codes([0, 5]).tolist()
    with pytest.raises(CollectionChangedError, match="'c' changed during the search: point 5, which it found, is gone"):
        chunks.read(codes)


def test_a_chunk_that_was_not_read_is_not_there(client: QdrantClient) -> None:
    chunks = ChunkTable(client, settings(collection="c"))
    (code,) = chunks.codes([0]).tolist()
    with pytest.raises(KeyError):
        chunks[code]
