"""Quantised vectors in the real engine, with a built index: what a search misses, and what rescoring brings back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from evals.collect.index_recall import is_approximate, recall
from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.store.edge import EdgeClient
from tests.support.collections import TableEmbeddings, settings

SCALAR = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
)
BINARY = models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
PRODUCT = models.ProductQuantization(product=models.ProductQuantizationConfig(compression=models.CompressionRatio.X16))
SIZE = 1_024
QUERIES = np.random.default_rng(2).normal(size=(20, SIZE)) / np.sqrt(np.arange(1, SIZE + 1))


def test_what_the_collection_says_of_it(tmp_path: Path) -> None:
    with EdgeClient(tmp_path / "store", create=True) as client:
        for name, quantization in (("scalar", SCALAR), ("binary", BINARY)):
            params = models.VectorParams(size=4, distance=models.Distance.COSINE, quantization_config=quantization)
            client.create_collection(name, params)
    with EdgeClient(tmp_path / "store") as reader:
        for name, quantization in (("scalar", SCALAR), ("binary", BINARY)):
            vectors: Any = reader.get_collection(name).config.params.vectors
            assert vectors.quantization_config == quantization


@pytest.mark.parametrize(
    ("quantization", "said"),
    [
        (PRODUCT, "scalar and binary quantisation alone"),
        (
            models.BinaryQuantization(
                binary=models.BinaryQuantizationConfig(encoding=models.BinaryQuantizationEncoding.TWO_BITS)
            ),
            "binary quantisation: .* without encoding",
        ),
    ],
)
def test_other_kinds_are_refused(tmp_path: Path, quantization: Any, said: str) -> None:
    params = models.VectorParams(size=4, distance=models.Distance.COSINE, quantization_config=quantization)
    with EdgeClient(tmp_path / "store", create=True) as client, pytest.raises(StoreError, match=said):
        client.create_collection("c", params)


@pytest.fixture(scope="module", params=["scalar", "binary"])
def retriever(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantRetriever]:
    """2,700 points: the engine builds no index for fewer than ten megabytes of vectors."""
    folder = tmp_path_factory.mktemp("quantised") / "store"
    vectors = np.random.default_rng(1).normal(size=(2_700, SIZE)) / np.sqrt(np.arange(1, SIZE + 1))
    params = models.VectorParams(
        size=SIZE,
        distance=models.Distance.COSINE,
        quantization_config={"scalar": SCALAR, "binary": BINARY}[request.param],
    )
    with EdgeClient(folder, create=True) as client, client.changing("c"):
        client.create_collection("c", params)
        client.upsert(
            "c",
            [models.PointStruct(id=n, vector=v, payload={"page_content": "x"}) for n, v in enumerate(vectors.tolist())],
        )
        assert client.optimize("c")
    config = settings(store={"path": str(folder)}, collection="c", trust_embedding=True, candidates=20)
    with QdrantRetriever.open(config, env={}, embeddings=TableEmbeddings({"q": QUERIES[0].tolist()})) as opened:
        yield opened


@pytest.mark.slow
def test_rescoring_and_oversampling_bring_back_what_quantised_vectors_lose(retriever: QdrantRetriever) -> None:
    def found(**search: Any) -> float:
        chunks = retriever.chunk_table()
        exact = retriever.neighbours(QUERIES.tolist(), {"exact": True}, 10, chunks)
        points = retriever.neighbours(QUERIES.tolist(), search, 10, chunks)
        return float(np.mean([recall(a, b, 10) for a, b in zip(exact, points, strict=True)]))

    assert retriever.info.in_hnsw and is_approximate(retriever)
    assert found(exact=True) == found(quantization={"ignore": True}, hnsw_ef=2_700) == 1.0
    wide = {"rescore": True, "oversampling": 20.0}
    rough = found(hnsw_ef=512, quantization={"rescore": True})
    assert rough < found(hnsw_ef=512, quantization=wide)
    # The sign of a dimension says little where few dimensions carry most of the length.
    assert retriever.info.quantization == "binary" or found(hnsw_ef=512, quantization=wide) > 0.99


@pytest.mark.slow
def test_an_answer_is_the_beginning_of_the_candidates(retriever: QdrantRetriever) -> None:
    """The search behind an answer of five goes as deep as that of the candidates, so that as many are rescored."""
    plain = retriever.settings.model_dump()
    for search in ({}, {"hnsw_ef": 8}, {"quantization": {"ignore": True}}, {"quantization": {"oversampling": 2.0}}):
        config = RetrieverConfig.model_validate({**plain, "threshold": 0, "search_params": search})
        embeddings = TableEmbeddings({"q": QUERIES[0].tolist()})
        with QdrantRetriever.open(config, env={}, embeddings=embeddings) as opened:
            answer = [(hit.chunk.chunk_id, hit.score) for hit in opened.search("q", use_cache=False).chunks]
            whole = [(hit.chunk.chunk_id, hit.score) for hit in opened.candidates(["q"])[0]]
        assert len(answer) == 5 and answer == whole[:5]
