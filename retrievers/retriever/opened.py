"""Settings to a retriever: ours, or the user's own."""

import os
from collections.abc import Mapping

from langchain_core.embeddings import Embeddings

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.layers import environment
from retrievers.retriever.protocol import Retriever


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
