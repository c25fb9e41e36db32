"""Chunks by field; stored vectors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionChangedError, CollectionStateError
from retrievers.store.stored_chunks import as_id, point_id, scroll, vectors_of
from tests.support.collections import fill, settings
from tests.support.hybrid import fill_sparse

ROWS = (([1.0, 0.0], "red"), ([0.6, 0.8], "sea"), ([0.0, 2.0], "red sea"))


def fill_rows(client: QdrantClient) -> None:
    fill_sparse(client, "c", [(vector, text, {"chunk_id": f"c{n}"}) for n, (vector, text) in enumerate(ROWS)])


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    made = QdrantClient(":memory:")
    fill_rows(made)
    yield made
    made.close()


# Of given points


def test_vectors_are_in_the_order_of_the_points(client: QdrantClient) -> None:
    found = vectors_of(client, settings(collection="c"), ["2", "0", "1"])
    assert found == pytest.approx(np.asarray([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]]), abs=1e-6)


def test_vectors_of_a_name_are_those_alone() -> None:
    client = QdrantClient(":memory:")
    params = {name: models.VectorParams(size=2, distance=models.Distance.COSINE) for name in ("a", "b")}
    fill(client, "c", [{"a": [1.0, 0.0], "b": [0.0, 1.0]}], [{}], params=params)
    assert vectors_of(client, settings(collection="c", vector_name="b"), ["0"]).tolist() == [[0.0, 1.0]]
    client.close()


def test_a_vector_that_is_not_there_is_told_apart_from_a_point_that_is_gone(client: QdrantClient) -> None:
    bare: dict[str, Any] = {"bm25": models.SparseVector(indices=[1], values=[1.0])}
    client.upsert("c", [models.PointStruct(id=9, vector=bare, payload={})])
    with pytest.raises(CollectionStateError, match="point 9 of collection 'c' has no dense vector, so that"):
        vectors_of(client, settings(collection="c"), ["0", "9"])
    with pytest.raises(CollectionChangedError, match="point 8"):
        vectors_of(client, settings(collection="c"), ["0", "8"])


# Without searching


@pytest.fixture(scope="module")
def foreign() -> Iterator[tuple[QdrantClient, RetrieverConfig]]:
    """2,500 points (three pages of the scroll), a flat payload, the address under an alias."""
    client = QdrantClient(":memory:")
    payloads = [{"text": f"t{n}", "url": f"/docs/{n % 3}", "lang": "en", "chunk_id": 9_999 - n} for n in range(2_500)]
    fill(client, "c", [[1.0, 0.0]] * len(payloads), payloads)
    yield client, settings(collection="c", metadata={"nested_under": "", "text_key": "text"})
    client.close()


def test_all_chunks_are_read_in_order_of_their_ids(foreign: tuple[QdrantClient, RetrieverConfig]) -> None:
    chunks = scroll(*foreign)
    assert [c.chunk_id for c in chunks] == sorted(str(9_999 - n) for n in range(2_500))


@pytest.mark.parametrize("field", ["source_url", "url"])
@pytest.mark.parametrize(
    ("values", "count"), [(["/docs/0"], 834), (["/docs/0", "/docs/2"], 1667), (["/docs/9"], 0), ([], 0)]
)
def test_chunks_are_found_by_a_field_under_any_of_its_names(
    foreign: tuple[QdrantClient, RetrieverConfig], field: str, values: list[str], count: int
) -> None:
    found = scroll(*foreign, {field: values})
    assert len(found) == count
    assert {c.source_url for c in found} <= set(values)


def test_a_mapped_field_is_found_by_its_key(foreign: tuple[QdrantClient, RetrieverConfig]) -> None:
    client, _ = foreign
    metadata = {"nested_under": "", "text_key": "text", "map": {"module": "lang"}}
    config = settings(collection="c", metadata=metadata)
    assert len(scroll(client, config, {"module": ["en"]})) == 2_500
    assert scroll(client, config, {"module": ["de"]}) == []
    assert len(scroll(client, config, {"module": ["en"], "source_url": ["/docs/1"]})) == 833


def test_a_mapped_key_of_any_characters_is_found() -> None:
    client = QdrantClient(":memory:")
    fill(client, "c", [[1.0, 0.0]] * 2, [{"metadata": {"page title": "x"}}, {"metadata": {"page title": "y"}}])
    config = settings(collection="c", metadata={"map": {"title": "page title"}})
    assert [c.title for c in scroll(client, config, {"title": ["y"]})] == ["y"]
    client.close()


def test_an_empty_collection_has_no_chunks(client: QdrantClient) -> None:
    client.delete("c", [0, 1, 2])
    assert scroll(client, settings(collection="c")) == []


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


@pytest.mark.parametrize(("point", "known"), [("7", 7), *[("6f9619ff-8b86-d011-b42d-00cf4fc964ff",) * 2]])
def test_the_id_of_a_point_found_goes_back_as_it_came(point: str, known: object) -> None:
    assert as_id(point) == known
