"""langchain-qdrant's store on an EdgeClient."""

import asyncio
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models

from retrievers.errors import StoreUnsupportedError
from retrievers.store.edge import EdgeClient

NAME = "pages"
IDS: list[Any] = [f"00000000-0000-0000-0000-00000000000{i}" for i in range(4)]
TEXTS = ["robots walk", "robots see", "hands grasp", "wheels roll"]


class Letters(Embeddings):
    """Return the frequency of each letter."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def filled(client: Any) -> QdrantVectorStore:
    client.create_collection(NAME, models.VectorParams(size=26, distance=models.Distance.COSINE))
    store = QdrantVectorStore(client, NAME, embedding=Letters(), validate_collection_config=False)
    assert store.add_texts(TEXTS, [{"n": i, "tags": ["t"] * i} for i in range(4)], ids=IDS) == IDS
    return store


def test_as_on_local_mode(client: EdgeClient) -> None:
    local = QdrantClient(":memory:")
    ours, theirs = filled(client), filled(local)
    some = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(gte=1))])
    for options in ({"k": 4}, {"k": 2, "filter": some}, {"k": 4, "score_threshold": 0.6}, {"k": 2, "offset": 1}):
        found = ours.similarity_search_with_score("robots grasp", **options)
        expected = theirs.similarity_search_with_score("robots grasp", **options)
        assert [document for document, _ in found] == [document for document, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-6)
    local.close()


def test_delete_and_get(client: EdgeClient) -> None:
    store = filled(client)
    assert store.delete(IDS[:1])
    assert [document.page_content for document in store.get_by_ids(IDS)] == TEXTS[1:]
    assert "robots walk" not in [document.page_content for document in store.similarity_search("robots walk", k=4)]


def test_async_inside_a_change(client: EdgeClient) -> None:
    store = filled(client)
    with client.changing(NAME):
        asyncio.run(store.aadd_texts(["arms lift"], ids=[IDS[0].replace("0", "9")]))
        assert client.count(NAME).count == 5
    assert asyncio.run(store.asimilarity_search("arms lift", k=1))[0].page_content == "arms lift"


def test_its_checks_accept_the_collection(client: EdgeClient) -> None:
    filled(client)
    store = QdrantVectorStore(client, NAME, embedding=Letters())  # type: ignore[arg-type]
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("wheels roll")[0].metadata["n"] == 3


def test_its_hybrid_mode_and_mmr_are_refused(client: EdgeClient) -> None:
    """Its fusion depends on k, and the engine's on chance where scores are equal."""
    with pytest.raises(StoreUnsupportedError, match="mmr"):
        filled(client).max_marginal_relevance_search("robots", k=2)
    store = QdrantVectorStore(
        client,  # type: ignore[arg-type]
        NAME,
        embedding=Letters(),
        retrieval_mode=RetrievalMode.HYBRID,
        validate_collection_config=False,
        validate_embeddings=False,
    )
    store._sparse_embeddings = _NoTerms()  # type: ignore[assignment]
    with pytest.raises(StoreUnsupportedError, match="prefetch"):
        store.similarity_search("robots")


class _NoTerms:
    def embed_query(self, text: str) -> models.SparseVector:
        return models.SparseVector(indices=[1], values=[1.0])
