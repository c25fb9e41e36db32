"""Collections with several dense and sparse vectors: which are searched, by whose encoder, against brute force."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from retrievers import QdrantRetriever
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


def split(text: str) -> tuple[list[int], list[float]]:
    return [*splade(text)], [*splade(text).values()]


def sparse(text: str) -> models.SparseVector:
    indices, values = split(text)
    return models.SparseVector(indices=indices, values=values)


def arrays(text: str) -> Iterator[Any]:
    indices, values = map(np.array, split(text))
    yield SimpleNamespace(indices=indices, values=values)


# Factories, named in the settings: every kind of encoder that is taken, one that fails, and one that makes none.


def mapping() -> Any:
    return splade


def lists() -> Any:
    return split


def langchain() -> Any:
    return SimpleNamespace(embed_query=sparse)


def fastembed() -> Any:
    return SimpleNamespace(query_embed=arrays)


def broken() -> Any:
    return lambda text: {"no": "number"}


def none() -> Any:
    return 7


def fill(client: QdrantClient) -> None:
    idf = models.SparseVectorParams(modifier=models.Modifier.IDF)
    client.create_collection(
        "mine",
        vectors_config={
            "small": models.VectorParams(size=3, distance=models.Distance.COSINE),
            "large": models.VectorParams(size=4, distance=models.Distance.DOT),
        },
        sparse_vectors_config={"splade": models.SparseVectorParams(), "minicoil": idf, "words": idf},
    )
    points = []
    for number, text in enumerate(TEXTS):
        dense: dict[str, Any] = {"small": SMALL[number].tolist(), "large": LARGE[number].tolist()}
        vectors = dense | {"splade": sparse(text), "minicoil": sparse(text), "words": bm25_of(text)}
        payload = {"page_content": text, "metadata": {"chunk_id": f"{number:02}"}}
        points.append(models.PointStruct(id=number, vector=vectors, payload=payload))
    client.upsert("mine", points)


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


def opened(store: Mapping[str, Any], dimension: int = 3, **values: Any) -> QdrantRetriever:
    own = {"embedding": {"provider": "python", "model": "mine:make"}, "collection": "mine", "vector_name": "small"}
    config = settings(**{"store": dict(store), **own, **values})
    return QdrantRetriever.open(config, embeddings=EMBEDDED[dimension])


def keyword(name: str, encoder: str) -> dict[str, str]:
    return {"vector_name": name, "encoder": f"python:{__name__}:{encoder}"}


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
    with opened(store, mode="keyword", keyword=keyword(name, made)) as retriever:
        candidates = found(retriever)
        assert [n for n, _ in candidates] == [n for n, _ in of_terms(name)]
        assert [score for _, score in candidates] == pytest.approx([score for _, score in of_terms(name)], abs=1e-4)
        session = retriever.search(QUERY)
        assert ({chunk.score_scale for chunk in session.chunks}, session.error) == ({"sparse"}, None)


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf"])
def test_hybrid_fuses_the_named_vectors(store: dict[str, Any], fusion: str) -> None:
    with opened(store, mode="hybrid", fusion=fusion, keyword=keyword("splade", "mapping"), threshold=0) as retriever:
        chunks = retriever.search(QUERY).chunks
    assert [{*chunk.scores} for chunk in chunks] == [{"semantic", "keyword", "fused"}] * 5


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"vector_name": "smal"}, r"has no dense vector 'smal': it has '(small|large)', '"),
        ({"mode": "keyword"}, r"has no sparse vector 'bm25', .* it has '\w+', '\w+', '\w+'; set"),
        (
            {"mode": "hybrid", "keyword": {"vector_name": "splade"}},
            r"has no IDF modifier on .*, keyword.encoder: python:module:factory",
        ),
    ],
)
def test_a_vector_that_is_not_there_is_refused_with_those_that_are(
    store: dict[str, Any], values: dict[str, Any], said: str
) -> None:
    with pytest.raises(StoreError, match=said):
        opened(store, **values)


def test_faults_of_an_encoder_are_typed(store: dict[str, Any]) -> None:
    with opened(store, mode="keyword", keyword=keyword("splade", "broken")) as retriever:
        assert "keyword.encoder 'tests.retrievers" in str(retriever.search(QUERY).error)
        with pytest.raises(EmbeddingError, match="broken' failed: ValueError"):
            retriever.invoke(QUERY)
    with pytest.raises(ConfigError, match=r"expected a function from a text to a sparse vector, .* made int"):
        opened(store, mode="keyword", keyword=keyword("splade", "none"))
