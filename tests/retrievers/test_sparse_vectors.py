"""Collections with several dense and sparse vectors: which are searched, by whose encoder, against brute force."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, EmbeddingError, StoreError
from tests.support.bm25 import bm25_of
from tests.support.collections import TableEmbeddings, embedded, settings
from tests.support.qdrant_server import QdrantServer

WORDS = ("arm", "battery", "camera", "drone", "encoder", "fuse")
RANDOM = np.random.default_rng(3)
TEXTS = tuple(" ".join(RANDOM.choice(WORDS, size=5)) for _ in range(24))
SMALL, LARGE = RANDOM.normal(size=(24, 3)), RANDOM.normal(size=(24, 4))
QUERY = "drone battery battery"
SMALL_QUERY, LARGE_QUERY = [0.3, -1.0, 0.4], [1.0, 0.2, -0.5, 0.1]
EMBEDDED = {
    3: TableEmbeddings({**dict(zip(TEXTS, SMALL.tolist(), strict=True)), QUERY: SMALL_QUERY}),
    4: TableEmbeddings({**dict(zip(TEXTS, LARGE.tolist(), strict=True)), QUERY: LARGE_QUERY}),
}


def splade(text: str) -> dict[int, float]:
    """Weigh words as a made model does, which adds a related word to each."""
    weights: dict[int, float] = {}
    for word in text.split():
        place = WORDS.index(word)
        weights[place] = weights.get(place, 0.0) + 1.5
        weights[(place + 1) % len(WORDS)] = 0.25
    return weights


def mapping() -> Any:
    return splade


def lists() -> Any:
    return lambda text: tuple(zip(*splade(text).items(), strict=True))


def langchain() -> Any:
    def embed_query(text: str) -> Any:
        weights = splade(text)
        return SimpleNamespace(indices=list(weights), values=list(weights.values()))

    return SimpleNamespace(embed_query=embed_query)


def fastembed() -> Any:
    def query_embed(text: str) -> Iterator[Any]:
        weights = splade(text)
        yield SimpleNamespace(indices=np.array(list(weights)), values=np.array(list(weights.values())))

    return SimpleNamespace(query_embed=query_embed)


def broken() -> Any:
    return lambda text: {"no": "number"}


def none() -> Any:
    return 7


def fill(client: QdrantClient) -> None:
    client.create_collection(
        "mine",
        vectors_config={
            "small": models.VectorParams(size=3, distance=models.Distance.COSINE),
            "large": models.VectorParams(size=4, distance=models.Distance.DOT),
        },
        sparse_vectors_config={
            "splade": models.SparseVectorParams(),
            "minicoil": models.SparseVectorParams(modifier=models.Modifier.IDF),
            "words": models.SparseVectorParams(modifier=models.Modifier.IDF),
        },
    )
    client.upsert("mine", [_point(number, text) for number, text in enumerate(TEXTS)])


def _point(number: int, text: str) -> models.PointStruct:
    weights = splade(text)
    learned = models.SparseVector(indices=list(weights), values=list(weights.values()))
    return models.PointStruct(
        id=number,
        vector={
            "small": SMALL[number].tolist(),
            "large": LARGE[number].tolist(),
            "splade": learned,
            "minicoil": learned,
            "words": bm25_of(text),
        },
        payload={"page_content": text, "metadata": {"chunk_id": f"{number:02}"}},
    )


@pytest.fixture(scope="module", params=["edge", "server"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    if request.param == "server":
        with QdrantServer() as server:
            fill(server.client)
            yield {"url": server.url}
        return
    folder = tmp_path_factory.mktemp("store")
    with embedded(folder) as client:
        fill(client)
    yield {"path": str(folder)}


def config(store: Mapping[str, Any], **values: Any) -> RetrieverConfig:
    own = {"embedding": {"provider": "python", "model": "mine:make"}, "collection": "mine", "vector_name": "small"}
    return settings(**{"store": dict(store), **own, **values})


@contextmanager
def opened(store: Mapping[str, Any], dimension: int = 3, **values: Any) -> Iterator[QdrantRetriever]:
    retriever = QdrantRetriever.open(config(store, **values), embeddings=EMBEDDED[dimension])
    try:
        yield retriever
    finally:
        retriever.close()


def found(retriever: QdrantRetriever) -> list[tuple[int, float]]:
    return [(int(c.chunk.chunk_id), c.score or 0.0) for c in retriever.candidates([QUERY])[0]]


def of_terms(name: str) -> list[tuple[int, float]]:
    """Weigh every text by brute force, with the IDF where the vector has it."""
    documents = [splade(text) for text in TEXTS]
    scores = np.zeros(len(TEXTS))
    for term, weight in splade(QUERY).items():
        held = sum(term in document for document in documents)
        rarity = np.log((len(TEXTS) - held + 0.5) / (held + 0.5) + 1) if name == "minicoil" else 1
        scores += [weight * document.get(term, 0) * rarity for document in documents]
    order = sorted(range(len(TEXTS)), key=lambda n: (-round(float(scores[n]), 5), n))
    return [(n, float(scores[n])) for n in order if scores[n] > 0]


def test_the_named_dense_vector_is_searched_by_its_own_distance(store: dict[str, Any]) -> None:
    cosines = SMALL @ np.asarray(SMALL_QUERY) / np.linalg.norm(SMALL, axis=1) / np.linalg.norm(SMALL_QUERY)
    with opened(store, vector_name="small") as retriever:
        assert retriever.info.dimension == 3
        best = sorted(range(24), key=lambda n: (-max(0.0, float(cosines[n])), n))
        assert [n for n, _ in found(retriever)] == best
    products = LARGE @ np.asarray(LARGE_QUERY)
    with opened(store, 4, vector_name="large") as retriever:
        assert (retriever.info.dimension, retriever.settings.distance) == (4, "dot")
        assert [n for n, _ in found(retriever)] == np.argsort(-products).tolist()


@pytest.mark.parametrize("made", ["mapping", "lists", "langchain", "fastembed"])
@pytest.mark.parametrize("name", ["splade", "minicoil"])
def test_a_sparse_vector_is_searched_by_a_model_of_ones_own(store: dict[str, Any], name: str, made: str) -> None:
    keyword = {"vector_name": name, "encoder": f"python:{__name__}:{made}"}
    with opened(store, mode="keyword", keyword=keyword) as retriever:
        candidates = found(retriever)
        assert [n for n, _ in candidates] == [n for n, _ in of_terms(name)]
        assert [score for _, score in candidates] == pytest.approx([score for _, score in of_terms(name)], abs=1e-4)
        session = retriever.search(QUERY)
        assert {chunk.score_scale for chunk in session.chunks} <= {"sparse"}
        assert session.error is None


def test_hybrid_fuses_the_named_vectors(store: dict[str, Any]) -> None:
    keyword = {"vector_name": "splade", "encoder": f"python:{__name__}:mapping"}
    for fusion in ("weighted", "rrf", "dbsf"):
        with opened(store, mode="hybrid", fusion=fusion, keyword=keyword, threshold=0) as retriever:
            session = retriever.search(QUERY)
            assert len(session.chunks) == 5
            assert {name for chunk in session.chunks for name in chunk.scores} == {"semantic", "keyword", "fused"}


def test_a_vector_that_is_not_there_is_refused_with_those_that_are(store: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match=r"has no dense vector 'smal': it has '(small|large)', '"):
        QdrantRetriever.open(config(store, vector_name="smal"), embeddings=EMBEDDED[3])
    with pytest.raises(StoreError, match=r"has no sparse vector 'bm25', .* it has '\w+', '\w+', '\w+'; set"):
        QdrantRetriever.open(config(store, mode="keyword"), embeddings=EMBEDDED[3])
    keyword = {"vector_name": "splade"}
    with pytest.raises(StoreError, match=r"has no IDF modifier on .*, keyword.encoder: python:module:factory"):
        QdrantRetriever.open(config(store, mode="keyword", keyword=keyword), embeddings=EMBEDDED[3])


def test_faults_of_an_encoder_are_typed(store: dict[str, Any]) -> None:
    keyword = {"vector_name": "splade", "encoder": f"python:{__name__}:broken"}
    with opened(store, mode="keyword", keyword=keyword) as retriever:
        assert "keyword.encoder 'tests.retrievers" in str(retriever.search(QUERY).error)
        with pytest.raises(EmbeddingError, match="broken' failed: ValueError"):
            retriever.invoke(QUERY)
    keyword["encoder"] = f"python:{__name__}:none"
    with pytest.raises(ConfigError, match=r"expected a function from a text to a sparse vector, .* made int"):
        QdrantRetriever.open(config(store, mode="keyword", keyword=keyword), embeddings=EMBEDDED[3])
