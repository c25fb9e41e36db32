"""Settings to a retriever: ours, or the user's own."""

import os
from collections.abc import Mapping
from typing import Any

from langchain_core.embeddings import Embeddings

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.layers import Layer, build, environment
from retrievers.retriever.protocol import Retriever

# Settings of a search that a collection may record: none of them names an address, a file or code.
RECORDED = (
    "mode", "fusion", "semantic_weight", "rrf_constant", "rerank", "mmr_lambda", "top_k", "threshold", "threshold_on",
    "candidates", "abbreviations",
)  # fmt: skip


def search_settings(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings with which an experiment searches its collection, for the collection to record.

    A reranker that calls a model is left out: nothing that a collection says is to send texts anywhere.
    """
    chosen = settings.model_dump(mode="json", include={*RECORDED}, exclude_defaults=True)
    return {name: value for name, value in chosen.items() if name != "rerank" or not settings.reranker.model}


def recorded_search(settings: RetrieverConfig, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a search that an embedded collection records; empty where it records none.

    Raises:
        StoreError: There is no such collection, or it cannot be read.
    """
    from retrievers.store import open_client, read_info

    if settings.python is not None or settings.store.url or settings.store.local_mode:
        return {}
    client = open_client(settings.store, env)
    try:
        recorded = read_info(client, settings).manifest.get("search", {})
    finally:
        client.close()
    safe = {name: value for name, value in recorded.items() if name in RECORDED}
    return search_settings(build(RetrieverConfig, [Layer(label="the collection's record", values=safe)]))


def open_retriever(
    settings: RetrieverConfig,
    *,
    env: Mapping[str, str] | None = None,
    embeddings: Embeddings | None = None,
    index: IndexSettings | None = None,
) -> Retriever:
    """Open the retriever that the settings name, with all its checks.

    Args:
        settings: Collection, model and mode of the retriever.
        env: Environment that holds API keys; the process environment and `.env` when left out.
        embeddings: A ready model for ours, in place of the configured one's construction.
        index: Settings that the collection must have been indexed with, for ours.

    Raises:
        RetrievalError: Typed, with what to do.
    """
    if settings.python is not None:
        from retrievers.foreign.adapter import open_foreign

        return open_foreign(settings, environment(os.environ) if env is None else env)
    from retrievers.retriever.qdrant import QdrantRetriever

    return QdrantRetriever.open(settings, env=env, embeddings=embeddings, index=index)
