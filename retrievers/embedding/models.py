"""Settings to LangChain embeddings: the packaged static model, Cohere, or any class the user names.

Third parties enter late: each library is imported when its provider is built.
"""

import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings
from pydantic.warnings import PydanticDeprecationWarning

from retrievers.config import EmbeddingConfig, ModelConfig
from retrievers.config.factory import build
from retrievers.config.layers import api_key
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError, RetrievalError
from retrievers.net import deadline, faults, retry
from retrievers.net.faults import cause

log = logging.getLogger(__name__)
Typed = TypeVar("Typed", bound=RetrievalError)
Embed = Callable[[list[str]], list[list[float]]]
REQUEST_TEXTS = 96
"""Most texts of one call, which Cohere takes in one request: what fails is then all that is asked for again."""


class StaticEmbeddings(Embeddings):
    """The static word embeddings packaged with wordllama: 256 dimensions, deterministic, offline.

    Word vectors are averaged, so they know words, not sentences: good enough to start with, not a state of the art.
    """

    def __init__(self) -> None:
        self._model = _static_model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, one unit vector of 256 floats each; NaN for an empty text, nothing for an empty list."""
        if not texts:
            return []
        with np.errstate(invalid="ignore"):  # a text without words is divided by its length, 0, and refused later
            vectors: list[list[float]] = self._model.embed(texts, norm=True).tolist()
        return vectors

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries; the same vectors as `embed_documents` gives."""
        return self.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed one query; the same vector as `embed_documents` gives."""
        return self.embed_documents([text])[0]


@functools.cache
def _static_model() -> Any:
    """The model, which embedding does not change; loaded once, for all retrievers of a process."""
    from retrievers.embedding.tokens import package_folder

    with _quiet_root_logger():
        from wordllama import WordLlama
    return WordLlama.load(cache_dir=package_folder("wordllama"), dim=256, disable_download=True)


def make_embeddings(config: EmbeddingConfig, env: Mapping[str, str]) -> Embeddings:
    """Build the embeddings that the settings name, checked and with typed errors.

    Args:
        config: Which provider and model.
        env: The environment that holds API keys.

    Raises:
        MissingKeyError: The provider needs a key that `env` lacks.
        ConfigError: A user's class cannot be loaded.
    """
    builders: dict[str, Callable[[], Embeddings]] = {
        "wordllama": StaticEmbeddings,
        "cohere": lambda: _cohere(config, env),
        "python": lambda: _from_python(config.resolved_model),
    }
    return checked(builders[config.provider](), config)


def checked(embeddings: Embeddings, config: EmbeddingConfig) -> "CheckedEmbeddings":
    """Embeddings with typed errors, known in messages by the configured names."""
    if isinstance(embeddings, CheckedEmbeddings):
        return embeddings
    name = f"{config.provider}:{config.resolved_model}"
    return CheckedEmbeddings(embeddings, name, config.timeout_s, retried=config.provider != "python")


class CheckedEmbeddings(Embeddings):
    """Embeddings whose failures are typed and whose vectors are finite, one for each text, of one dimension.

    What may pass by itself is tried again (see `retrievers.net.retry`), unless `retried` is off.
    """

    def __init__(self, inner: Embeddings, name: str, timeout_s: float = 30.0, *, retried: bool = True) -> None:
        self.inner = inner
        self.name = name
        self._timeout_s = timeout_s
        self._retried = retried

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts for storage (Cohere: `search_document`).

        Raises:
            EmbeddingError: The provider failed, or returned too few, ragged or non-finite vectors.
        """
        if not texts:
            return []
        return self._checked(self.inner.embed_documents, texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query (Cohere: `search_query`).

        Raises:
            EmbeddingError: As for `embed_documents`.
        """
        return self._checked(lambda one: [self.inner.embed_query(one[0])], [text])[0]

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries in as few requests as the provider allows; the same vectors as `embed_query` one by one.

        Raises:
            EmbeddingError: As for `embed_documents`.
        """
        batch = getattr(self.inner, "embed_queries", None)
        if not texts:
            return []
        return self._checked(batch or (lambda some: [self.inner.embed_query(text) for text in some]), texts)

    def _checked(self, embed: Embed, texts: list[str]) -> list[list[float]]:
        batches = [texts[start : start + REQUEST_TEXTS] for start in range(0, len(texts), REQUEST_TEXTS)]
        vectors = [vector for batch in batches for vector in self._tried(embed, batch)]
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self.name} returned {len(vectors)} vectors for {len(texts)} texts")
        try:
            array = np.asarray(vectors, dtype=np.float64)
        except ValueError as error:
            raise EmbeddingError(f"{self.name} returned vectors of different lengths") from error
        finite = np.isfinite(array).all(axis=-1)
        if not finite.all():
            text = texts[int(np.argmin(finite))]
            raise EmbeddingError(
                f"{self.name} made no finite vector for {text[:60]!r}: the model knows none of its words, or is broken"
            )
        return vectors

    def _tried(self, embed: Embed, batch: list[str]) -> list[list[float]]:
        action = functools.partial(self._typed, embed, batch)
        return retry.attempt(action, name="embed", timeout_s=self._timeout_s, retried=self._retried)

    def _typed(self, embed: Embed, batch: list[str]) -> list[list[float]]:
        try:
            return embed(batch)
        except EmbeddingError:
            raise
        except Exception as error:  # every provider has its own tree; the type and status are kept in the message
            raise marked(EmbeddingError(f"{self.name} failed to embed: {cause(error)}"), error) from error


def marked(typed: Typed, error: Exception) -> Typed:
    """Our error for a provider's, marked with what a retry must know of it."""
    return typed.marked(
        transient=faults.is_transient(error),
        retry_after_s=faults.retry_after_s(faults.headers_of(error)),
        timed_out=faults.timed_out(error),
    )


def once(call: Callable[..., Any], timeout_s: float) -> Callable[..., Any]:
    """A call of a `cohere_client` without the SDK's own retries, in what the deadline leaves of its timeout."""
    from retrievers.net import within

    def request(**kwargs: Any) -> Any:
        left = deadline.time_left(timeout_s)
        with within(left):
            return call(**kwargs, request_options={"max_retries": 0, "timeout_in_seconds": left})

    return request


def cohere_client(made: Callable[..., Any], key: str, config: ModelConfig) -> Any:
    """A client of the Cohere SDK, of the class that is given, whose requests can be bounded as a whole."""
    import httpx

    from retrievers.net import bounded

    http = bounded(httpx.Client(timeout=config.timeout_s, follow_redirects=True))  # as the SDK's own does
    return made(
        key, base_url=config.base_url, timeout=config.timeout_s, client_name="langchain:partner", httpx_client=http
    )


def _cohere(config: EmbeddingConfig, env: Mapping[str, str]) -> Embeddings:
    key = required_key(env, config.api_key_env, "Cohere", "use the packaged model (--embedding.provider wordllama)")
    import cohere
    from langchain_cohere import CohereEmbeddings

    # both libraries call what Pydantic deprecates, at every request; catch_warnings would not be safe among threads
    warnings.filterwarnings("ignore", category=PydanticDeprecationWarning, module=r"(langchain_)?cohere\.")
    # neither library tries again: this max_retries counts attempts, and the SDK below, which retries by itself, may not
    options: dict[str, Any] = {"max_retries": 1, "request_timeout": config.timeout_s}

    class BatchingCohereEmbeddings(CohereEmbeddings):
        def embed_queries(self, texts: list[str]) -> list[list[float]]:
            return self.embed(texts, input_type="search_query")

    made = BatchingCohereEmbeddings(
        model=config.resolved_model, cohere_api_key=key, base_url=config.base_url, **options
    )
    made.client = cohere_client(cohere.Client, key, config)
    embed = functools.partial(made.client.embed, batching=False)  # in threads of its own no deadline would hold
    made.client.embed = once(embed, config.timeout_s)
    return made


def required_key(env: Mapping[str, str], name: str, provider: str, otherwise: str) -> str:
    """An API key from the environment.

    Raises:
        MissingKeyError: It is not there; what to do.
    """
    key = api_key(env, name)
    if not key:
        raise MissingKeyError(
            f"{provider} needs an API key: expected it in {name}, which is not set; "
            f"export it or write it into .env, or {otherwise}"
        )
    return key


def _from_python(target: str) -> Embeddings:
    built = build(target, "embedding.model")
    if not isinstance(built, Embeddings):
        raise ConfigError(f"embedding.model {target!r}: expected a LangChain Embeddings, got {type(built).__name__}")
    return built


@contextmanager
def _quiet_root_logger() -> Iterator[None]:
    """Undo what importing wordllama does to the root logger."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
