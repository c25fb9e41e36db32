"""What a collection says of itself, and the checks before it may be queried; their wording is in the snapshots."""

from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
from qdrant_client import models
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.store.collection import MANIFEST_KEY, CollectionInfo, read_info
from retrievers.store.opening import open_client
from tests.support.collections import OTHER, TABLE, TableEmbeddings, at, check, described, fill, indexed, texts
from tests.support.qdrant_server import KEY, QdrantServer, Rules

DENSE = models.VectorParams(size=3, distance=models.Distance.COSINE)
TABLED = TableEmbeddings(TABLE)


def held(server: QdrantServer, vectors: Any = None, payloads: Any = None, manifest: Any = None, **parts: Any) -> None:
    """Fill the collection `mine`, by default with the table's texts and vectors."""
    vectors = [*TABLE.values()] if vectors is None else vectors
    recorded = {MANIFEST_KEY: manifest} if manifest else None
    fill(server.client, "mine", vectors, texts(*TABLE) if payloads is None else payloads, metadata=recorded, **parts)


def judged(config: RetrieverConfig, embeddings: TableEmbeddings = TABLED) -> str:
    """Return why a collection is refused, or that it is accepted."""
    try:
        check(config, embeddings)
    except StoreError as error:
        return str(error).replace(config.store.url or "", "SERVER")
    return "accepted"


# Properties


def test_the_vector_that_is_searched_is_the_named_or_the_only_one(server: QdrantServer) -> None:
    several = models.VectorParams(
        size=3,
        distance=models.Distance.COSINE,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    two = {"dense": DENSE, "other": models.VectorParams(size=2, distance=models.Distance.DOT), "colbert": several}
    server.client.create_collection("mine", two, sparse_vectors_config={"bm25": models.SparseVectorParams()})
    info = described(at(server, vector_name="dense"))
    assert (info.dimension, info.distance, info.vectors) == (3, "cosine", {"dense": 3, "other": 2})
    assert (info.without_idf, info.manifest, info.points) == (("bm25",), {}, 0)
    for name in ("", "colbert"):
        with pytest.raises(StoreError, match=rf"vector '{name}': it has 'dense', 'other' \(multi-vectors are not"):
            described(at(server, vector_name=name))
    server.client.create_collection("one", {"dense": DENSE})
    assert described(at(server, collection="one")).vector_name == "dense"


def test_a_key_for_one_collection_is_enough(server: QdrantServer, tmp_path: Path) -> None:
    def read() -> CollectionInfo:
        with closing(open_client(config.store, {"QDRANT_API_KEY": KEY})) as client:
            return read_info(client, config)

    config = indexed(tmp_path, store={"url": server.url}, threshold=0)
    server.rules = Rules(api_key=KEY, scope="pages", read_only=True)
    assert read().points == 9
    hybrid = config.model_copy(update={"mode": "hybrid"})
    with QdrantRetriever.open(hybrid, env={"QDRANT_API_KEY": KEY}) as retriever:
        assert retriever.search("who sends messages").status == "success"
        assert len(retriever.chunks({"source_url": ["/docs/ros2/topics"]})) == 4
    server.rules = Rules(api_key=KEY, scope="others")
    with pytest.raises(StoreError, match=r"Access to collection pages is required; the API key in \w+ may not do this"):
        read()


# Checks

TRUSTED = {"trust_embedding": True}


BARE: dict[str, Any] = {"payloads": [], "vectors": []}
COLLECTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "a whole one": ({"manifest": {"state": "complete"}}, {}),
    "nothing to check the model by": (BARE, {}),
    "texts under another key": ({"vectors": [[1, 0, 0]], "payloads": [{"text": "a"}]}, {}),
    "an empty text": ({"vectors": [[1, 0, 0]], "payloads": [{"page_content": ""}]}, {}),
    "an interrupted run": ({"manifest": {"state": "indexing"}}, TRUSTED),
}


@pytest.mark.parametrize(("parts", "values"), COLLECTIONS.values(), ids=COLLECTIONS)
def test_a_collection_is_accepted_or_refused(
    server: QdrantServer, parts: dict[str, Any], values: dict[str, Any], snapshot: SnapshotAssertion
) -> None:
    held(server, params=DENSE, **parts)
    assert judged(at(server, **values)) == snapshot


# The model


def test_the_model_is_checked_by_embedding_three_chunks_again(server: QdrantServer) -> None:
    held(server)
    embeddings = Mock(wraps=TABLED)
    check(at(server), embeddings)
    assert embeddings.mock_calls == [call.embed_documents(["a", "b", "c"])]
    check(at(server, trust_embedding=True), TableEmbeddings({}))


def test_a_recorded_model_is_checked_first_and_named(server: QdrantServer, snapshot: SnapshotAssertion) -> None:
    own = {"model": "python:mine:make"}
    recorded = {"provider": "python", "model": "mine:make", "options": {"device": "cpu"}, "dimension": 3}
    held(server, manifest={"embedding": recorded})
    check(at(server), TABLED)
    assert judged(at(server), TableEmbeddings(OTHER)) == snapshot(name="it gives other vectors")
    prefixed = at(server, embedding=own | {"document_prefix": "p: "})
    assert judged(prefixed, TableEmbeddings({})) == snapshot(name="another prefix, of which no text is asked")


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (lambda v: v, True),
        (lambda v: [7 * x for x in v], True),  # another length
        (lambda v: [0.0005**0.5 * 1.4, *v[1:]] if v == TABLE["c"] else v, True),  # providers round
        (lambda v: [0.0545, *v[1:]] if v == TABLE["c"] else v, False),  # one of three chunks decides
        (lambda _: [0.0, 0.0, 0.0], False),
    ],
)
def test_nearly_the_same_vectors_are_the_same_model(server: QdrantServer, made: Any, same: bool) -> None:
    held(server)
    embeddings = TableEmbeddings({text: made(vector) for text, vector in TABLE.items()})
    said = judged(at(server), embeddings)
    assert said == "accepted" if same else "to theirs, expected at least 0.999; set embedding" in said


def test_a_named_vector_is_the_one_verified_and_points_without_it_are_passed_over(server: QdrantServer) -> None:
    vectors: list[Any] = [{}, *({"dense": vector, "other": vector[::-1]} for vector in TABLE.values())]
    held(server, vectors, texts("none", *TABLE), params={"dense": DENSE, "other": DENSE})
    check(at(server, vector_name="dense"), TABLED)
    assert "gives stored texts" in judged(at(server, vector_name="other"))
