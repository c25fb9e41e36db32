"""The QdrantVectorStore inside, whose own search is the oracle; every kind of store; distances; several vectors."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langchain_qdrant import QdrantVectorStore
from qdrant_client import models

from retrievers import QdrantRetriever
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import ConfigError, EmbeddingError, StoreError
from retrievers.records import Distance
from retrievers.search.rerank import mmr_order
from retrievers.store.embedded import EmbeddedClient
from tests.support import distances
from tests.support.collections import IDF, embedded, fill, settings
from tests.support.hybrid import variant

OWN: dict[str, Any] = {"embedding": {"model": "python:mine:make"}, "collection": "mine"}


@pytest.mark.parametrize("kind", distances.STORES)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
def test_invoke_finds_what_the_store_finds(kind: str, mode: str, tmp_path: Path) -> None:
    more = {"mode": mode, "top_k": 100, "keyword": {"synonyms": {"hinge": ["drone"]}}}
    with distances.collection(kind, "cosine", tmp_path) as place:
        retriever = QdrantRetriever.open(settings(store=place, **OWN, **more), embeddings=distances.EMBEDDINGS)
        store = retriever.vector_store
        assert isinstance(store, QdrantVectorStore)
        assert (store.client, store.embeddings) == (retriever.client, retriever._embeddings)
        for query in distances.QUERIES:
            ours, theirs = retriever.invoke(query), store.similarity_search_with_score(query, k=100)
            assert {d.id: d.page_content for d in ours} == {str(d.metadata["_id"]): d.page_content for d, _ in theirs}
            scores = {str(d.metadata["_id"]): max(0.0, score) for d, score in theirs}
            assert {d.id: d.metadata["score"] for d in ours} == pytest.approx(scores, abs=1e-5)
        others = [d.page_content for d in ours if "hinge" not in d.page_content and "fuse" not in d.page_content]
        assert others and all("drone" in text for text in others) == (mode == "keyword"), "synonyms are searched along"
        retriever.close()


# Both distances, against brute force

DEPTH = 15


@pytest.mark.parametrize("kind", distances.STORES)
@pytest.mark.parametrize("distance", distances.DISTANCES)
def test_a_collection_is_searched_by_its_own_distance(kind: str, distance: Distance, tmp_path: Path) -> None:
    def ids(retriever: QdrantRetriever, query: str) -> list[int]:
        [row] = retriever.candidates([query])
        assert [hit.scores["semantic"] for hit in row] == pytest.approx(
            [scores[int(hit.chunk.chunk_id[-2:])] for hit in row], abs=1e-5
        )
        return [int(hit.chunk.chunk_id[-2:]) for hit in row]

    with distances.collection(kind, distance, tmp_path) as store:
        config = settings(store=store, top_k=DEPTH, candidates=DEPTH, **OWN)
        with QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS) as retriever:
            assert retriever.settings.distance == distance
            unit = distances.VECTORS / np.linalg.norm(distances.VECTORS, axis=1, keepdims=True)
            for number, query in enumerate(distances.QUERIES):
                scores = distances.semantic(distance, number)
                best = distances.ranked(scores, DEPTH)
                assert ids(retriever, query) == best
                assert {hit.score_scale for hit in retriever.search(query).chunks} == {distance}
                sums = Counter[int]()
                for share, side in ((0.7, best), (0.3, ids(variant(retriever, mode="keyword"), query))):
                    sums.update({n: share / (60 + rank) for rank, n in enumerate(side, 1)})
                fused = sorted(sums, key=lambda n: (-round(sums[n], 12), n))[:DEPTH]
                assert ids(variant(retriever, mode="hybrid", fusion="rrf"), query) == fused
                cut = float(scores[best[4]] + scores[best[5]]) / 2
                for on, kept in (("each", [n for n in best if scores[n] >= cut]), ("best", best)):
                    session = variant(retriever, threshold=cut, threshold_on=on).search(query)
                    assert [int(hit.chunk.chunk_id[-2:]) for hit in session.chunks] == kept
                # MMR reads cosines, whatever the distance.
                vector = distances.QUERY_VECTORS[number]
                likeness = np.clip(unit @ vector / np.linalg.norm(vector), 0, 1)
                picks = mmr_order(likeness[best], unit[best], 0.6)
                assert ids(variant(retriever, rerank="mmr", mmr_lambda=0.6), query) == [best[place] for place in picks]
            told: Any = retriever.search(distances.QUERIES[0])
            assert told.parameters.get("distance", "cosine") == told.confidence.scale == distance
        if distance == "dot":
            with pytest.raises(ConfigError, match="fusion 'weighted'"):
                QdrantRetriever.open(config.model_copy(update={"mode": "hybrid"}), embeddings=distances.EMBEDDINGS)


def test_a_distance_where_the_lower_score_is_the_nearer_is_refused(tmp_path: Path) -> None:
    with distances.collection("server", "euclid", tmp_path) as store:
        config = settings(store=store, **OWN)
        with pytest.raises(StoreError, match="has the distance euclid, and only cosine and dot"):
            QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS)


# Several dense and sparse vectors: which are searched, by whose encoder, against brute force

QUERY = distances.QUERIES[1]


def splade(text: str) -> dict[int, float]:
    """Weigh words as a made model does, which adds a related word to each."""
    weights: dict[int, float] = {}
    for place in (distances.WORDS.index(word) for word in text.split() if word in distances.WORDS):
        weights[place] = weights.get(place, 0.0) + 1.5
        weights[(place + 1) % len(distances.WORDS)] = 0.25
    return weights


def sparse(text: str) -> models.SparseVector:
    return models.SparseVector(indices=[*splade(text)], values=[*splade(text).values()])


def arrays(text: str) -> Iterator[Any]:
    vector = sparse(text)
    yield SimpleNamespace(indices=np.array(vector.indices), values=np.array(vector.values))


ENCODERS: dict[str, Any] = {
    "mapping": splade,
    "LangChain's": SimpleNamespace(embed_query=sparse),
    "FastEmbed's": SimpleNamespace(query_embed=arrays),
}
MADE: dict[str, Any] = {}


def make() -> Any:
    """Make the encoder of the test, which its settings name."""
    return MADE["encoder"]


def keyword(vector_name: str, encoder: Any) -> dict[str, str]:
    MADE["encoder"] = encoder
    return {"vector_name": vector_name, "encoder": f"python:{__name__}:make"}


def fill_several(client: EmbeddedClient) -> None:
    vectors = [
        {
            **{"small": distances.VECTORS[number].tolist(), "large": distances.VECTORS[number, :4].tolist()},
            **{"splade": sparse(text), "minicoil": sparse(text), "words": Bm25Encoder().document(text)},
        }
        for number, text in enumerate(distances.TEXTS)
    ]
    payloads = [{"page_content": text, "metadata": {"chunk_id": f"{n:02}"}} for n, text in enumerate(distances.TEXTS)]
    params = {
        "small": models.VectorParams(size=5, distance=models.Distance.COSINE),
        "large": models.VectorParams(size=4, distance=models.Distance.DOT),
    }
    weighed = {"splade": models.SparseVectorParams(), "minicoil": IDF, "words": IDF}
    fill(client, "mine", vectors, payloads, params=params, sparse=weighed)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("store")
    with embedded(folder) as client:
        fill_several(client)
    return {"path": str(folder)}


def over(store: Mapping[str, Any], **values: Any) -> QdrantRetriever:
    config = settings(**{"store": dict(store), "vector_name": "small", **OWN, **values})
    return QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS)


def found(retriever: QdrantRetriever) -> list[tuple[int, float]]:
    return [(int(c.chunk.chunk_id), c.score or 0.0) for c in retriever.candidates([QUERY])[0]]


def of_terms(name: str) -> list[tuple[int, float]]:
    """Weigh every text by brute force, with the IDF where the vector has it."""
    documents = [splade(text) for text in distances.TEXTS]
    scores = np.zeros(distances.COUNT)
    for term, weight in splade(QUERY).items():
        held = sum(term in document for document in documents)
        rarity = np.log((distances.COUNT - held + 0.5) / (held + 0.5) + 1) if name == "minicoil" else 1
        scores += [weight * document.get(term, 0) * rarity for document in documents]
    order = sorted(range(distances.COUNT), key=lambda n: (-round(float(scores[n]), 5), n))
    return [(n, float(scores[n])) for n in order if scores[n] > 0]


@pytest.mark.parametrize("made", ENCODERS)
@pytest.mark.parametrize("name", ["splade", "minicoil"])
def test_a_sparse_vector_is_searched_by_a_model_of_ones_own(several: dict[str, Any], name: str, made: str) -> None:
    with over(several, mode="keyword", keyword=keyword(name, ENCODERS[made])) as retriever:
        candidates = found(retriever)
        assert [n for n, _ in candidates] == [n for n, _ in of_terms(name)]
        assert [score for _, score in candidates] == pytest.approx([score for _, score in of_terms(name)], abs=1e-4)
        session = retriever.search(QUERY)
        assert ({chunk.score_scale for chunk in session.chunks}, session.error) == ({"sparse"}, None)


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
def test_a_vector_that_is_not_there_is_refused(several: dict[str, Any], values: dict[str, Any], said: str) -> None:
    with pytest.raises(StoreError, match=said):
        over(several, **values)


def test_faults_of_an_encoder_are_typed(several: dict[str, Any]) -> None:
    with over(several, mode="keyword", keyword=keyword("splade", lambda text: {"no": "number"})) as retriever:
        assert "keyword.encoder 'tests.retrievers" in str(retriever.search(QUERY).error)
        with pytest.raises(EmbeddingError, match="make' failed: ValueError"):
            retriever.invoke(QUERY)
    with pytest.raises(ConfigError, match=r"expected a function from a text to a sparse vector, .* made int"):
        over(several, mode="keyword", keyword=keyword("splade", 7))
