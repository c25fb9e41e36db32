"""Clients of Cohere, bounded in time and without retries of their own, and its embeddings."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic.warnings import PydanticDeprecationWarning

from retrievers.config import EmbeddingConfig, ModelConfig

# Seconds one request to a model may take.
TIMEOUT_S = 30.0


def once(call: Callable[..., Any], timeout_s: float) -> Callable[..., Any]:
    """Wrap a call of a `cohere_client`: without the SDK's own retries."""

    def request(**kwargs: Any) -> Any:
        return call(**kwargs, request_options={"max_retries": 0, "timeout_in_seconds": timeout_s})

    return request


def cohere_client(factory: Callable[..., Any], key: str, config: ModelConfig) -> Any:
    """Return a client of the Cohere SDK, of the given class, whose requests keep to the timeout."""
    import httpx

    # The SDK's own client follows redirects too.
    http = httpx.Client(timeout=TIMEOUT_S, follow_redirects=True)
    return factory(key, base_url=config.base_url, timeout=TIMEOUT_S, client_name="langchain:partner", httpx_client=http)


def make(config: EmbeddingConfig, key: str) -> Embeddings:
    """Make embeddings of Cohere that embed many queries in one request."""
    import cohere
    from langchain_cohere import CohereEmbeddings

    # both libraries call what Pydantic deprecates, at every request; catch_warnings would not be safe among threads
    warnings.filterwarnings("ignore", category=PydanticDeprecationWarning, module=r"(langchain_)?cohere\.")
    # neither library tries again: this max_retries counts attempts, and the SDK below, which retries by itself, may not
    options: dict[str, Any] = {"max_retries": 1, "request_timeout": TIMEOUT_S}

    class BatchingCohereEmbeddings(CohereEmbeddings):
        def embed_queries(self, texts: list[str]) -> list[list[float]]:
            return self.embed(texts, input_type="search_query")

    embeddings = BatchingCohereEmbeddings(
        model=config.resolved_model, cohere_api_key=key, base_url=config.base_url, **options
    )
    embeddings.client = cohere_client(cohere.Client, key, config)
    # Not batched by the SDK, which would send the parts from threads of its own, each with its own retries.
    embed = functools.partial(embeddings.client.embed, batching=False)
    embeddings.client.embed = once(embed, TIMEOUT_S)
    return embeddings
