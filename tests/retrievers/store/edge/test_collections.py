"""Collections: made, described, changed, removed; what the engine is not used for is refused by name."""

from typing import Any

import pytest
from qdrant_client import models

from retrievers.errors import CollectionNotFoundError, StoreError, StoreUnsupportedError
from retrievers.store.edge import EdgeClient

PAIR = models.VectorParams(size=2, distance=models.Distance.COSINE)
BM25 = models.SparseVectorParams(modifier=models.Modifier.IDF)


def names(client: EdgeClient) -> list[str]:
    return [found.name for found in client.get_collections().collections]


def test_made_and_removed(client: EdgeClient) -> None:
    assert (names(client), client.collection_exists("a"), client.generation("a")) == ([], False, "")
    assert client.create_collection("b", PAIR)
    assert client.create_collection("a", vectors_config={"x": PAIR})
    assert names(client) == ["a", "b"]
    with pytest.raises(StoreError, match="collection 'a' exists"):
        client.create_collection("a", PAIR)
    assert client.delete_collection("a")
    assert not client.delete_collection("a")
    assert (names(client), client.collection_exists("a")) == (["b"], False)
    assert not (client.path / "collections" / "a").exists()


def test_described(client: EdgeClient) -> None:
    client.create_collection("unnamed", PAIR, {"bm25": BM25}, metadata={"made": {"by": ("us",)}})
    info = client.get_collection("unnamed")
    assert info.config.params.vectors == PAIR
    assert info.config.params.sparse_vectors == {"bm25": BM25}
    assert info.config.metadata == {"made": {"by": ["us"]}}
    assert (info.points_count, info.status, info.payload_schema) == (0, "green", {})


def test_described_when_named(client: EdgeClient) -> None:
    client.create_collection("named", {"x": PAIR, "y": models.VectorParams(size=3, distance=models.Distance.DOT)})
    params = client.get_collection("named").config.params
    assert isinstance(params.vectors, dict)
    assert {name: (v.size, v.distance.value) for name, v in params.vectors.items()} == {
        "x": (2, "Cosine"),
        "y": (3, "Dot"),
    }
    assert (params.sparse_vectors, client.get_collection("named").config.metadata) == (None, None)


def test_described_without_dense_vectors(client: EdgeClient) -> None:
    client.create_collection("sparse", sparse_vectors_config={"bm25": models.SparseVectorParams()})
    client.upsert("sparse", [models.PointStruct(id=1, vector={"bm25": models.SparseVector(indices=[3], values=[2.0])})])
    found = client.query_points("sparse", models.SparseVector(indices=[3], values=[2.0]), "bm25").points
    assert [(p.id, p.score) for p in found] == [(1, 4.0)], "no modifier, no IDF"
    assert client.get_collection("sparse").config.params.vectors == {}


def test_metadata_is_merged(client: EdgeClient) -> None:
    client.create_collection("a", PAIR)
    client.update_collection("a", metadata={"x": {"p": 1, "q": 2}, "y": 1})
    client.update_collection("a", metadata={"x": {"p": 3}, "y": None, "z": 0})
    assert client.get_collection("a").config.metadata == {"x": {"p": 3}, "z": 0}
    before = client.generation("a")
    assert client.update_collection("a", metadata={"z": 0})
    assert client.generation("a") == before, "nothing was changed"
    with pytest.raises(CollectionNotFoundError):
        client.update_collection("b", metadata={})


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a b", "né→é", "edge.json", "CURRENT", "100%", "x" * 200])
def test_any_name_is_a_folder_of_its_own(client: EdgeClient, name: str) -> None:
    client.create_collection(name, PAIR)
    assert names(client) == [name]
    assert len(list((client.path / "collections").iterdir())) == 1
    with EdgeClient(client.path) as other:
        assert other.collection_exists(name)


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_names_that_cannot_be(client: EdgeClient, name: str) -> None:
    with pytest.raises(StoreError, match="expected 1 to 200"):
        client.create_collection(name, PAIR)
    assert not client.collection_exists(name)


def test_missing_collection_is_named_with_the_nearest(client: EdgeClient) -> None:
    client.create_collection("handbook", PAIR)
    for call in (client.get_collection, client.count, client.scroll, client.query_points, client.optimize):
        with pytest.raises(CollectionNotFoundError, match="no collection 'handbok'"):
            call("handbok")
    with pytest.raises(CollectionNotFoundError, match="it has 'handbook'; did you mean 'handbook'"):
        client.count("handbok")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"vectors_config": models.VectorParams(size=2, distance=models.Distance.DOT, on_disk=True)}, "on_disk"),
        ({"vectors_config": PAIR, "quantization_config": {}}, "quantization_config"),
        ({"vectors_config": PAIR, "shard_number": 2}, "shard_number=2"),
        ({"vectors_config": PAIR, "sparse_vectors_config": {"": models.SparseVectorParams()}}, "both dense and sparse"),
        (
            {"sparse_vectors_config": {"s": models.SparseVectorParams(index=models.SparseIndexParams(on_disk=True))}},
            "sparse vector 's'.* index",
        ),
        ({}, "needs a vector"),
        ({"vectors_config": PAIR, "metadata": {"x": float("nan")}}, "metadata cannot be stored"),
    ],
)
def test_refused(client: EdgeClient, options: dict[str, Any], says: str) -> None:
    with pytest.raises(StoreError, match=says):
        client.create_collection("a", **options)
    assert names(client) == []


def test_indexes(client: EdgeClient) -> None:
    client.create_collection("a", PAIR)
    client.upsert("a", [models.PointStruct(id=1, vector=[1, 1], payload={"metadata": {"tags": ["x"]}, "n": 1})])
    client.create_payload_index("a", "metadata.tags", models.PayloadSchemaType.KEYWORD)
    client.create_payload_index("a", "n", field_schema="integer", wait=True)
    client.create_payload_index("a", "n", field_schema="integer")
    schema = client.get_collection("a").payload_schema
    assert {key: (index.data_type.value, index.points) for key, index in schema.items()} == {
        "metadata.tags": ("keyword", 1),
        "n": ("integer", 1),
    }
    with pytest.raises(StoreUnsupportedError, match="expected one of bool, float, integer, keyword"):
        client.create_payload_index("a", "text", models.PayloadSchemaType.TEXT)


def test_closed(client: EdgeClient) -> None:
    client.create_collection("a", PAIR)
    client.count("a")
    client.close()
    client.close()
    for call in (client.count, client.collection_exists, client.generation, client.delete_collection, client.optimize):
        with pytest.raises(StoreError, match="has been closed"):
            call("a")
    with pytest.raises(StoreError, match="has been closed"):
        client.upsert("a", [])
