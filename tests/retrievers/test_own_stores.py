"""A `QdrantVectorStore` of the caller's own settles distance and mode, and the settings are judged by these."""

from typing import Any

import pytest
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.retriever.opened import adopt_given, open_retriever
from tests.support import distances
from tests.support.foreign import vector_store


def dense() -> QdrantVectorStore:
    return vector_store()


def hybrid() -> QdrantVectorStore:
    return vector_store(mode=RetrievalMode.HYBRID)


def named(name: str, **values: Any) -> RetrieverConfig:
    return RetrieverConfig.model_validate({"python": f"{__name__}:{name}", **values})


def test_dot_products_are_neither_clipped_nor_held_to_thresholds_of_a_cosine() -> None:
    client = QdrantClient(":memory:")
    distances.make(client, "dot")
    store = QdrantVectorStore(client, "mine", distances.EMBEDDINGS, validate_collection_config=False)
    theirs = store.similarity_search_with_score(distances.QUERIES[0], k=5)
    least = theirs[2][1] - 1e-3
    retriever, config = adopt_given(store, RetrieverConfig(threshold=least), None, {})
    session = retriever.search(distances.QUERIES[0])
    found = {hit.chunk.text: hit.score for hit in session.chunks}
    assert least > 1 and config.distance == "dot" and {hit.score_scale for hit in session.chunks} == {"dot"}
    assert found == pytest.approx({document.page_content: score for document, score in theirs if score >= least})
    with pytest.raises(ConfigError, match="fusion 'weighted' adds scores from 0 to 1, not dot scores"):
        adopt_given(store, RetrieverConfig(mode="hybrid"), None, {})
    client.close()
    with pytest.raises(ConfigError, match="distance cosine: expected a number from 0 to 1"):
        open_retriever(named("dense", threshold=30), env={})


def test_settings_are_judged_by_the_mode_that_the_store_brings_along() -> None:
    with open_retriever(named("hybrid", threshold=0.5, threshold_signal="bm25"), env={}) as retriever:
        assert retriever.settings.mode == "hybrid" and retriever.search("kinematics of an arm").chunks
    with pytest.raises(ConfigError, match="threshold_signal 'bm25' reads the query's words, which mode 'semantic'"):
        open_retriever(named("dense", threshold=0.5, threshold_signal="bm25"), env={})
    for values, said in (
        ({"fusion": "rrf", "threshold": 0.3, "threshold_on": "final"}, "would compare the threshold with rrf scores"),
        ({"threshold": 0.3, "threshold_signal": "known_words", "mode": "hybrid"}, "'known_words' needs words"),
    ):
        with pytest.raises(ConfigError, match=said):
            open_retriever(named("hybrid", **values), env={})
