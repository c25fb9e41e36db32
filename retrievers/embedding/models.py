"""Settings to LangChain embeddings that are checked and have typed errors."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings

from retrievers.config import EmbeddingConfig, ModelConfig
from retrievers.config.factory import build
from retrievers.config.layers import api_key
from retrievers.embedding.tokens import tokenizer
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError, RetrievalError
from retrievers.net import faults, retry
from retrievers.net.faults import cause

log = logging.getLogger(__name__)
Typed = TypeVar("Typed", bound=RetrievalError)
Embed = Callable[[list[str]], list[list[float]]]
REQUEST_TEXTS = 96


def make_embeddings(config: EmbeddingConfig, env: Mapping[str, str]) -> Embeddings:
    """Build the embeddings that the settings name, checked and with typed errors.

    Args:
        config: Which provider and model.
        env: The environment that holds API keys.

    Raises:
        MissingKeyError: The provider needs a key that `env` lacks.
        ConfigError: A user's class cannot be loaded.
    """
    key = provider_key(config, env, "use the packaged model (--embedding.provider wordllama)")
    return checked(config.declared.make(config, key), config)


def checked(embeddings: Embeddings, config: EmbeddingConfig) -> "CheckedEmbeddings":
    """Embeddings with typed errors, under the configured names."""
    if isinstance(embeddings, CheckedEmbeddings):
        return embeddings
    declared = config.declared
    return CheckedEmbeddings(
        embeddings,
        config.label,
        retried=declared.hosted is not False,
        request_texts=declared.request_texts,
        alike=declared.alike,
        settings=config,
    )


class CheckedEmbeddings(Embeddings):
    """Embeddings whose failures are typed and whose vectors are finite, one for each text, of one dimension.

    Transient errors are retried (see `retrievers.net.retry`), unless `retried` is off.

    Args:
        inner: The model.
        name: Its name in messages.
        retried: False to call it only once.
        request_texts: Most texts of one request.
        alike: The model embeds a query as it embeds a text.
        settings: Prefixes, most tokens of a text, and the expected length of vectors.
    """

    def __init__(
        self,
        inner: Embeddings,
        name: str,
        *,
        retried: bool = True,
        request_texts: int = REQUEST_TEXTS,
        alike: bool = False,
        settings: EmbeddingConfig | None = None,
    ) -> None:
        self.inner = inner
        self._alike = alike
        self._settings = settings or EmbeddingConfig()
        self.name = name
        self._retried = retried
        self._request_texts = request_texts

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts for storage (Cohere: `search_document`).

        Raises:
            EmbeddingError: The provider failed, or returned too few, ragged or non-finite vectors.
        """
        if not texts:
            return []
        return self._checked(self.inner.embed_documents, texts, self._settings.document_prefix)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query (Cohere: `search_query`).

        Raises:
            EmbeddingError: As for `embed_documents`.
        """
        return self._checked(lambda one: [self.inner.embed_query(one[0])], [text], self._settings.query_prefix)[0]

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries in as few requests as the provider allows; the same vectors as `embed_query` one by one.

        Raises:
            EmbeddingError: As for `embed_documents`.
        """
        batch = self.inner.embed_documents if self._alike else getattr(self.inner, "embed_queries", None)
        if not texts:
            return []
        if batch is None:
            return [self.embed_query(text) for text in texts]
        return self._checked(batch, texts, self._settings.query_prefix)

    def _checked(self, embed: Embed, texts: list[str], prefix: str | None) -> list[list[float]]:
        size = self._request_texts
        whole = sent(texts, prefix, self._settings.declared.max_tokens)
        batches = [whole[start : start + size] for start in range(0, len(texts), size)]
        vectors = [vector for batch in batches for vector in self._tried(embed, batch)]
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self.name} returned {len(vectors)} vectors for {len(texts)} texts")
        try:
            array = np.asarray(vectors, dtype=np.float64)
        except ValueError as error:
            raise EmbeddingError(f"{self.name} returned vectors of different lengths") from error
        asked = self._settings.dimensions
        if asked and array.shape[-1] != asked:
            raise EmbeddingError(
                f"{self.name} returned vectors of {array.shape[-1]} dimensions, "
                f"but embedding.dimensions asks for {asked}"
            )
        finite = np.isfinite(array).all(axis=-1)
        if not finite.all():
            text = texts[int(np.argmin(finite))]
            raise EmbeddingError(
                f"{self.name} made no finite vector for {text[:60]!r}: the model knows none of its words, or is broken"
            )
        return vectors

    def _tried(self, embed: Embed, batch: list[str]) -> list[list[float]]:
        action = functools.partial(self._typed, embed, batch)
        return retry.attempt(action, name="embed", retried=self._retried)

    def _typed(self, embed: Embed, batch: list[str]) -> list[list[float]]:
        try:
            return embed(batch)
        except EmbeddingError:
            raise
        except Exception as error:  # every provider has its own tree; the type and status are kept in the message
            raise marked(EmbeddingError(f"{self.name} failed to embed: {cause(error)}"), error) from error


def marked(typed: Typed, error: Exception) -> Typed:
    """Convert a provider's error to ours, marked for retries."""
    return typed.marked(
        transient=faults.is_transient(error),
        retry_after_s=faults.retry_after_s(faults.headers_of(error)),
        timed_out=faults.timed_out(error),
    )


def provider_key(config: ModelConfig, env: Mapping[str, str], otherwise: str) -> str | None:
    """Return the API key of the settings' provider; None where it declares none.

    Raises:
        MissingKeyError: It is not in the environment; `otherwise` says what to do without.
    """
    if config.declared.key_env is None:
        return None
    key = api_key(env, config.api_key_env)
    if not key and (config.declared.key_for_own_server or config.base_url is None):
        raise MissingKeyError(
            f"{config.declared.title or config.provider} needs an API key: expected it in {config.api_key_env}, which "
            f"is not set; export it or write it into .env, or {otherwise}"
        )
    return key


def from_python(config: ModelConfig, _: str | None) -> Embeddings:
    """Make the embeddings of the user's own factory.

    Raises:
        ConfigError: It cannot be called, or makes something else.
    """
    target = config.resolved_model
    built = build(target, "embedding.model")
    if not isinstance(built, Embeddings):
        raise ConfigError(f"embedding.model {target!r}: expected a LangChain Embeddings, got {type(built).__name__}")
    return built


def sent(texts: list[str], prefix: str | None, max_tokens: int | None) -> list[str]:
    """Return texts with a prefix, each cut to a number of tokens of the packaged tokenizer.

    That splits finer than the tokenizers of hosted models, so that what is left is short enough for them.
    """
    prefixed = [prefix + text for text in texts] if prefix else texts
    if max_tokens is None:
        return prefixed
    shortened = [cut(text, max_tokens) for text in prefixed]
    longer = sum(len(short) < len(text) for short, text in zip(shortened, prefixed, strict=True))
    if longer:
        log.warning(
            "%d of %d texts have more than %d tokens; what follows is not embedded",
            longer, len(texts), max_tokens,
        )  # fmt: skip
    return shortened


def cut(text: str, max_tokens: int) -> str:
    """Return a text, truncated to at most `max_tokens` tokens."""
    # A token has at least one byte.
    if len(text) * 4 <= max_tokens or len(text.encode(errors="replace")) <= max_tokens:
        return text
    # Tokens are rarely longer than 16 characters; the rest need not be looked at.
    offsets = tokenizer().encode(text[: max_tokens * 16], add_special_tokens=False).offsets
    return text if len(offsets) <= max_tokens else text[: offsets[max_tokens][0]]
