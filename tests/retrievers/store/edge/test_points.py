"""Points: stored as given or refused whole; read, overwritten, removed."""

import uuid
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from retrievers.errors import EmbeddingMismatchError, StoreError, StoreUnsupportedError
from retrievers.store.edge import EdgeClient

NAME = "pages"
FIRST = "00000000-0000-0000-0000-000000000001"
PAIR = models.VectorParams(size=2, distance=models.Distance.DOT)


@pytest.fixture
def pages(client: EdgeClient) -> EdgeClient:
    """Points 1 to 3, with dense and sparse vectors."""
    with client.changing(NAME):
        client.create_collection(NAME, PAIR, {"bm25": models.SparseVectorParams()})
        client.upsert(NAME, [point(i, payload={"n": i, "tags": ["x"] * i}) for i in (1, 2, 3)])
    return client


def point(point_id: Any, dense: Any = (1.0, 1.0), payload: Any = None, **sparse: Any) -> models.PointStruct:
    fields: dict[str, Any] = {"indices": [1], "values": [1.0]} | sparse
    terms = models.SparseVector.model_construct(**fields)
    return models.PointStruct.model_construct(id=point_id, vector={"": dense, "bm25": terms}, payload=payload)


def ids(client: EdgeClient, **options: Any) -> list[Any]:
    return [record.id for record in client.scroll(NAME, **options)[0]]


def test_ids_come_back_in_one_form(pages: EdgeClient) -> None:
    wanted = uuid.UUID(int=1)
    pages.upsert(NAME, [point(wanted), point(wanted.hex), point(str(wanted).upper()), point(2**64 - 1)])
    assert ids(pages) == [1, 2, 3, 2**64 - 1, FIRST]
    assert [r.id for r in pages.retrieve(NAME, [3, wanted, 9, 1, 3])] == [3, FIRST, 1, 3]


@pytest.mark.parametrize("bad", ["chunk-1", -1, 2**64, True, 1.5, None])
def test_ids_that_cannot_be(pages: EdgeClient, bad: Any) -> None:
    with pytest.raises(StoreError, match=r"expected an integer from 0 .*, or a UUID"):
        pages.upsert(NAME, [point(bad)])


def test_vectors_in_every_form(pages: EdgeClient) -> None:
    array: dict[str, Any] = {"id": 5, "vector": np.array([3, 4]), "payload": None}
    pages.upsert(NAME, [models.PointStruct.model_construct(**array)])
    pages.upsert(NAME, models.Batch(ids=[6, 7], vectors=[[1, 2], [3, 4]], payloads=[{"a": 1}, {}]))
    pages.upsert(NAME, models.Batch(ids=[8], vectors={"": [[5, 6]]}))
    found = pages.retrieve(NAME, [5, 6, 7, 8], with_vectors=True)
    assert [r.vector for r in found] == [[3, 4], [1, 2], [3, 4], [5, 6]]
    assert [r.payload for r in found] == [{}, {"a": 1}, {}, {}]


def test_payload_is_what_json_makes_of_it(pages: EdgeClient) -> None:
    kept: dict[str, Any] = {"text": "né 🤖", "deep": {"x": [None, True, 2**53, 1.5]}}
    given = kept | {"at": datetime(2025, 1, 2, tzinfo=UTC), "pair": (1, 2)}
    pages.upsert(NAME, [point(5, payload=given)])
    assert pages.retrieve(NAME, [5])[0].payload == kept | {"at": "2025-01-02T00:00:00Z", "pair": [1, 2]}


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (point(9, [1.0]), EmbeddingMismatchError, "point 9: expected 2 dimensions in vector '', got 1"),
        (point(9, [1.0, float("nan")]), StoreError, "point 9: vector '' holds a value that is not a finite"),
        (point(9, [1.0, float("-inf")]), StoreError, "not a finite"),
        (point(9, [1.0, 1e39]), StoreError, "not a finite"),
        (point(9, [1.0, "x"]), StoreError, "not a finite"),
        (point(9, [[1.0, 1.0]]), StoreUnsupportedError, "several vectors under one name"),
        (point(9, models.SparseVector(indices=[1], values=[1])), StoreError, "is dense, but a sparse one was given"),
        (point(9, indices=[1, 1], values=[1, 1]), StoreError, "point 9: vector 'bm25' has an index twice"),
        (point(9, indices=[1, 2]), StoreError, "2 indices but 1 values"),
        (point(9, indices=[-1]), StoreError, "outside 0 to"),
        (point(9, indices=[2**32]), StoreError, "outside 0 to"),
        (point(9, values=[float("nan")]), StoreError, "point 9: vector 'bm25' holds a value"),
        (models.PointStruct(id=9, vector={"bm52": [1, 1]}), StoreError, "no vector 'bm52'.*did you mean 'bm25'"),
        (models.PointStruct(id=9, vector={"bm25": [1, 1]}), StoreError, "is sparse, but a dense one was given"),
        (models.PointStruct(id=9, vector=models.Document(text="x", model="m")), StoreUnsupportedError, "Document"),
        (point(9, payload={"x": float("nan")}), StoreError, "payload of point 9 cannot be stored as JSON"),
        (point(9, payload={"x": object()}), StoreError, "payload of point 9 cannot be stored as JSON"),
    ],
)
def test_refused_whole(pages: EdgeClient, bad: models.PointStruct, error: type[StoreError], says: str) -> None:
    before = pages.generation(NAME)
    with pages.changing(NAME):
        with pytest.raises(error, match=says):
            pages.upsert(NAME, [point(8), bad])
        assert ids(pages) == [1, 2, 3], "the points beside it neither"
    assert pages.generation(NAME) == before


def test_batch_of_different_lengths(pages: EdgeClient) -> None:
    with pytest.raises(StoreError, match="batch of 2 ids"):
        pages.upsert(NAME, models.Batch(ids=[5, 6], vectors=[[1, 2]]))


def test_nothing_to_do(pages: EdgeClient) -> None:
    before = pages.generation(NAME)
    done = [pages.upsert(NAME, []), pages.delete(NAME, []), pages.overwrite_payload(NAME, {}, [])]
    assert {result.status for result in done} == {models.UpdateStatus.COMPLETED}
    assert pages.generation(NAME) == before


def test_upsert_replaces_the_whole_point(pages: EdgeClient) -> None:
    pages.upsert(NAME, [models.PointStruct(id=2, vector={"": [5, 5]}, payload={"new": 1})])
    found = pages.retrieve(NAME, [2], with_vectors=True)[0]
    assert (found.payload, found.vector) == ({"new": 1}, [5, 5])


def test_sparse_vector_without_terms_is_none(pages: EdgeClient) -> None:
    pages.upsert(NAME, [point(2, indices=[], values=[])])
    assert pages.retrieve(NAME, [2], with_vectors=True)[0].vector == [1, 1]
    assert pages.query_points(NAME, models.SparseVector(indices=[], values=[]), "bm25").points == []


def test_overwrite(pages: EdgeClient) -> None:
    pages.overwrite_payload(NAME, {"a": 1}, points=[1])
    pages.overwrite_payload(NAME, {"b": 2}, points=at_least(3))
    assert [r.payload for r in pages.scroll(NAME)[0]] == [{"a": 1}, {"n": 2, "tags": ["x", "x"]}, {"b": 2}]
    with pytest.raises(StoreError, match="No point with id 99"):
        pages.overwrite_payload(NAME, {"c": 3}, points=[2, 99])
    assert pages.count(NAME, models.Filter(must=[has("c", 3)])).count == 0


def test_delete(pages: EdgeClient) -> None:
    assert pages.delete(NAME, [1, 99], wait=True).status == models.UpdateStatus.COMPLETED
    pages.delete(NAME, models.PointIdsList(points=[99]))
    assert ids(pages) == [2, 3]
    pages.delete(NAME, points_selector=models.FilterSelector(filter=at_least(3)))
    assert ids(pages) == [2]
    pages.delete(NAME, models.Filter(must=[]))
    assert ids(pages) == []
    with pytest.raises(StoreError, match="expected a list of point ids or a filter, got str"):
        pages.delete(NAME, "1")


def test_what_is_returned(pages: EdgeClient) -> None:
    assert pages.scroll(NAME, limit=1, with_payload=["n"], with_vectors=["bm25"]) == (
        [models.Record(id=1, payload={"n": 1}, vector={"bm25": models.SparseVector(indices=[1], values=[1.0])})],
        2,
    )
    assert pages.scroll(NAME, limit=1, offset=3, with_payload=False)[0] == [models.Record(id=3, payload=None)]
    assert pages.scroll(NAME, limit=3, offset=2)[1] is None
    selector = models.PayloadSelectorExclude(exclude=["tags"])
    assert pages.retrieve(NAME, [2], with_payload=selector)[0].payload == {"n": 2}
    assert [
        p.payload for p in pages.query_points(NAME, [1, 1], with_payload=["n"], query_filter=at_least(3)).points
    ] == [{"n": 3}]
    with pytest.raises(StoreError, match="with_vectors='bm25'"):
        pages.scroll(NAME, with_vectors="bm25")
    with pytest.raises(StoreError, match="no vector 'bm52'"):
        pages.scroll(NAME, with_vectors=["bm52"])


@pytest.mark.parametrize("call", ["scroll", "count", "retrieve", "delete", "upsert", "overwrite_payload"])
def test_unknown_options(pages: EdgeClient, call: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"retrieve": ([1],), "delete": ([1],), "upsert": ([],)}
    arguments |= {"overwrite_payload": ({}, [1])}
    with pytest.raises(StoreUnsupportedError, match="timeout=3"):
        getattr(pages, call)(NAME, *arguments.get(call, ()), timeout=3)
    getattr(pages, call)(NAME, *arguments.get(call, ()), timeout=None)


def at_least(n: int) -> models.Filter:
    return models.Filter(must=models.FieldCondition(key="n", range=models.Range(gte=n)))


def has(key: str, value: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))
