"""Models of FastEmbed: ONNX, run in this process without torch."""

from collections.abc import Iterable
from typing import Any

from langchain_core.embeddings import Embeddings

from retrievers.config import EmbeddingConfig
from retrievers.embedding.packages import needed
from retrievers.errors import ConfigError
from retrievers.net.faults import cause


class FastEmbedEmbeddings(Embeddings):
    """A model of FastEmbed, which puts before queries the prefix that some models expect."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts to store."""
        return _lists(self._model.passage_embed(texts))

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries."""
        return _lists(self._model.query_embed(texts))

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        return self.embed_queries([text])[0]


def make(config: EmbeddingConfig, _: str | None) -> Embeddings:
    """Make the embeddings.

    Raises:
        ConfigError: The package is not installed, or the model is unknown or cannot be loaded.
    """
    with needed(config):
        from fastembed import TextEmbedding

        try:
            return FastEmbedEmbeddings(TextEmbedding(config.resolved_model, **config.options))
        except Exception as error:  # it raises what reading, downloading and ONNX raise
            raise ConfigError(f"embedding.model {config.label!r} cannot be loaded: {cause(error)}") from error


def _lists(vectors: Iterable[Any]) -> list[list[float]]:
    return [vector.tolist() for vector in vectors]
