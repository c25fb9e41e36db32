"""`inspect` on collections that other programs made: flat payloads, sparse vectors of any name, other distances."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from qdrant_client import models

from retrievers.__main__ import main
from retrievers.embedding.bm25 import Bm25Encoder
from tests.support.command import call
from tests.support.qdrant_server import QdrantServer

TEXTS = [f"Joint number {i} of the robot reads encoder {i} and moves at once." for i in range(9)]
COSINE = models.Distance.COSINE


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


def made(server: QdrantServer, distance: models.Distance = COSINE, sparse: Any = None, **payload: Any) -> list[Any]:
    """Make collection `theirs` of vectors of the packaged model, and sparse ones by a function of the text."""
    from retrievers.config import EmbeddingConfig
    from retrievers.embedding.models import make_embeddings

    vectors = make_embeddings(EmbeddingConfig(), {}).embed_documents(TEXTS)
    server.client.create_collection(
        "theirs",
        models.VectorParams(size=256, distance=distance),
        sparse_vectors_config={"langchain-sparse": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        if sparse
        else None,
    )
    points = [
        models.PointStruct(
            id=i,
            vector={"": vector, "langchain-sparse": sparse(text)} if sparse else vector,
            payload={name: text if value == "TEXT" else value for name, value in payload.items()},
        )
        for i, (text, vector) in enumerate(zip(TEXTS, vectors, strict=True))
    ]
    server.client.upsert("theirs", points)
    return ["--store.url", server.url, "--collection", "theirs"]


def marks(capsys: pytest.CaptureFixture[str], *flags: object) -> dict[str, tuple[str, str]]:
    """Return the mark and the words of each check by its name."""
    done = call(main, ["inspect", *flags], capsys)
    assert done.code == 0
    lines = done.out.partition("\nChecked on ")[2].splitlines()[1:]
    split = [(line[2:8].strip(), *line[8:].partition(": ")[::2]) for line in lines if line.startswith("  ")]
    return {name: (mark, words) for mark, name, words in split}


def test_the_proposed_payload_keys_are_audited_where_none_is_named(
    server: QdrantServer, capsys: pytest.CaptureFixture[str]
) -> None:
    where = made(server, text="TEXT", url="/a")
    found = marks(capsys, *where)
    assert {found[name] for name in ("embedding model", "empty texts", "tiny texts", "duplicate texts")} == {("ok", "")}
    named = marks(capsys, *where, "--metadata.text-key", "body")
    assert named["empty texts"][0] == "FAULT" and named["tiny texts"][0] == "–"


def test_the_only_sparse_vector_is_taken_if_it_is_of_bm25(
    server: QdrantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = made(server, sparse=Bm25Encoder(average_length=500.0).document, page_content="TEXT", metadata={})
    found = marks(capsys, *where, "--write", tmp_path / "theirs.yaml")
    assert found["IDF of BM25"] == ("ok", "")
    assert found["average length of BM25"][0] == "FAULT"
    written = yaml.safe_load((tmp_path / "theirs.yaml").read_text())["retriever"]
    assert (written["mode"], written["keyword"]) == ("hybrid", {"vector_name": "langchain-sparse"})


@pytest.mark.parametrize("sparse", [None, lambda text: models.SparseVector(indices=[1, 2], values=[0.5, 1.5])])
def test_what_is_not_of_bm25_is_not_checked_as_such(
    sparse: Any, server: QdrantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = made(server, sparse=sparse, page_content="TEXT", metadata={})
    found = marks(capsys, *where, "--write", tmp_path / "theirs.yaml")
    assert {found[name][0] for name in ("IDF of BM25", "average length of BM25")} == {"–"}
    assert ("'langchain-sparse'" in found["IDF of BM25"][1]) == bool(sparse)
    assert "mode" not in yaml.safe_load((tmp_path / "theirs.yaml").read_text())["retriever"]


def test_a_distance_that_no_search_takes_is_a_fault(server: QdrantServer, capsys: pytest.CaptureFixture[str]) -> None:
    where = made(server, models.Distance.EUCLID, page_content="TEXT", metadata={})
    mark, words = marks(capsys, *where)["distance"]
    assert mark == "FAULT" and words.startswith("it has the distance euclid, and only cosine and dot")


def test_an_empty_collection_is_called_empty(server: QdrantServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.client.create_collection("theirs", models.VectorParams(size=256, distance=COSINE))
    done = call(main, ["search", "joint", "--store.url", server.url, "--collection", "theirs"], capsys)
    assert done.code == 2 and "collection 'theirs' is empty; index pages into it" in done.err
