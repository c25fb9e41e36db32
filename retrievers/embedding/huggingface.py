"""Models of sentence-transformers, run in this process, with the prompts that they bring."""

from collections.abc import Mapping
from typing import Any

from langchain_core.embeddings import Embeddings

from retrievers.config import EmbeddingConfig
from retrievers.embedding.packages import needed
from retrievers.errors import ConfigError
from retrievers.net.faults import cause

# The names under which models keep the prompts of texts to store, as sentence-transformers looks for them.
OF_DOCUMENTS = ("document", "passage", "corpus")


class PromptedEmbeddings(Embeddings):
    """A model that embeds queries in batches, and queries and texts with the model's own prompt for each.

    Args:
        model: LangChain's embeddings.
        query: The prompt of queries; None for the model's default.
        document: The prompt of texts.
    """

    def __init__(self, model: Any, query: str | None, document: str | None) -> None:
        self._model = model
        self._query = _prompt(query)
        self._document = _prompt(document)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts to store."""
        return self._embed(texts, self._document)

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries."""
        return self._embed(texts, self._query)

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        return self._embed([text], self._query)[0]

    def _embed(self, texts: list[str], prompt: Mapping[str, str]) -> list[list[float]]:
        vectors: list[list[float]] = self._model._embed(texts, {**self._model.encode_kwargs, **prompt})
        return vectors


def make(config: EmbeddingConfig, _: str | None) -> Embeddings:
    """Make the embeddings.

    Raises:
        ConfigError: The package is not installed, or the model cannot be loaded.
    """
    options = dict(config.options)
    if config.dimensions:
        options["model_kwargs"] = {"truncate_dim": config.dimensions, **options.get("model_kwargs", {})}
    with needed(config):
        from langchain.embeddings import init_embeddings

        try:
            model: Any = init_embeddings(config.resolved_model, provider="huggingface", **options)
        except ImportError:
            raise
        except Exception as error:  # its libraries have no common error for a missing or broken model
            raise ConfigError(f"embedding.model {config.label!r} cannot be loaded: {cause(error)}") from error
    prompts: Mapping[str, str] = model._client.prompts or {}
    of_documents = next((prompts[name] for name in OF_DOCUMENTS if prompts.get(name)), None)
    # A prefix that is set is put before the text, in place of the model's prompt.
    return PromptedEmbeddings(
        model,
        prompts.get("query") if config.query_prefix is None else "",
        of_documents if config.document_prefix is None else "",
    )


def _prompt(prompt: str | None) -> Mapping[str, str]:
    return {} if prompt is None else {"prompt": prompt}
