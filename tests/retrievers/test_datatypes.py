"""Vectors of whole numbers and of half precision, and vectors that are several."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from retrievers import QdrantRetriever
from retrievers.errors import EmbeddingMismatchError, RetrievalError
from retrievers.store import open_client, read_info
from tests.support.collections import TableEmbeddings, fill, settings
from tests.support.qdrant_server import QdrantServer
from tests.support.recorded_server import RecordedServer

RANDOM = np.random.default_rng(5)
TEXTS = tuple(f"text {number}" for number in range(12))
WHOLE = RANDOM.integers(0, 256, size=(12, 6)).astype(float)
ASKED = WHOLE[3] * 0.9 + 10.4


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


def opened(server: QdrantServer | RecordedServer, vectors: Any, query: Any, **values: Any) -> QdrantRetriever:
    table = {**dict(zip(TEXTS, np.asarray(vectors).tolist(), strict=True)), "what?": np.asarray(query).tolist()}
    embedding = {"provider": "python", "model": "mine:make"}
    config = settings(store={"url": server.url}, collection="mine", embedding=embedding, threshold=0, **values)
    return QdrantRetriever.open(config, embeddings=TableEmbeddings(table))


def stored(server: QdrantServer, vectors: Any, datatype: models.Datatype, distance: models.Distance) -> None:
    params = models.VectorParams(size=len(vectors[0]), distance=distance, datatype=datatype)
    payloads = [{"page_content": text, "metadata": {"chunk_id": text}} for text in TEXTS]
    fill(server.client, "mine", np.asarray(vectors).tolist(), payloads, params=params)


def test_whole_numbers_are_refused_in_a_sentence(server: QdrantServer) -> None:
    stored(server, WHOLE, models.Datatype.UINT8, models.Distance.COSINE)
    with pytest.raises(EmbeddingMismatchError, match=r"'mine' keeps vectors as whole numbers from 0 to 255 \(uint8\)"):
        opened(server, WHOLE, ASKED)


def test_half_precision_is_the_same_model(server: QdrantServer) -> None:
    vectors = RANDOM.normal(size=(12, 6))
    stored(server, vectors.astype(np.float16).astype(float), models.Datatype.FLOAT16, models.Distance.COSINE)
    with opened(server, vectors, vectors[2]) as retriever:
        assert retriever.info.datatype == "float16"
        first, second = retriever.search("what?"), retriever.search("what?", use_cache=False)
    assert first.chunks[0].chunk.chunk_id == TEXTS[2]
    assert [(hit.chunk, hit.score) for hit in first.chunks] == [(hit.chunk, hit.score) for hit in second.chunks]


def test_a_multi_vector_is_refused_in_a_sentence(server: QdrantServer) -> None:
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    params = {"colbert": models.VectorParams(size=2, distance=models.Distance.COSINE, multivector_config=several)}
    server.client.create_collection("mine", vectors_config=params)
    with pytest.raises(
        EmbeddingMismatchError, match=r"vector 'colbert' of collection 'mine' is a multi-vector, of which"
    ):
        opened(server, WHOLE, ASKED, vector_name="colbert")


@pytest.mark.parametrize(
    ("info", "vector_name", "said"),
    [
        (
            "info-multivector",
            "colbert",
            r"vector 'colbert' of collection 'mine' is a multi-vector, of which each point",
        ),
        ("info-q_named", "", r"collection 'mine' has no dense vector '': it has 'dense', 'other'; set vector_name"),
        ("info-q_dot", "", "collection 'mine' has the distance dot, where scores have no bounds, and threshold 0 is"),
    ],
)
def test_what_a_real_server_describes_is_refused_by_name(info: str, vector_name: str, said: str) -> None:
    with RecordedServer(info) as server, pytest.raises(RetrievalError, match=said):
        opened(server, WHOLE, ASKED, vector_name=vector_name)


def test_half_precision_is_read_off_a_real_server() -> None:
    with RecordedServer("info-q_f16") as server:
        config = settings(store={"url": server.url}, collection="mine")
        client = open_client(config.store, {})
        info = read_info(client, config)
        client.close()
    assert (info.datatype, info.distance, info.dimension, info.multivectors) == ("float16", "cosine", 256, ())
