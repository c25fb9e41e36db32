"""Make the LangChain embeddings that the settings name, with checked vectors and typed errors."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from pydantic import ValidationError
from pydantic.warnings import PydanticDeprecationWarning

from retrievers import net
from retrievers.config import EmbeddingConfig
from retrievers.config.layers import provider_key
from retrievers.config.models import KEYS, LOCAL, ModelConfig
from retrievers.config.settings import call_factory
from retrievers.embedding.tokens import PART, count_tokens, model_folder, token_parts
from retrievers.errors import ConfigError, EmbeddingError
from retrievers.text.shown import redacted

Embed = Callable[[list[str]], list[list[float]]]
# Most texts of one request. If a request fails, only its texts are sent again. Cohere takes no more.
REQUEST_TEXTS = 96
# Seconds that a request to a hosted model may take.
TIMEOUT_S = 30.0
# Providers that embed queries as they embed texts, so that one request takes many of them.
ALIKE = frozenset({"wordllama", "openai"})
OPENAI = "https://api.openai.com/v1"
log = logging.getLogger(__name__)


def make_embeddings(config: EmbeddingConfig, env: Mapping[str, str]) -> "CheckedEmbeddings":
    """Build the embeddings that the settings name, checked and with typed errors.

    Args:
        config: Which provider and model.
        env: The environment that holds API keys.

    Raises:
        MissingKeyError: The provider needs a key that `env` lacks.
        ConfigError: A package is not installed, the provider's class refuses the settings, or the user's class cannot
            be loaded.
    """
    otherwise, is_own = "use the packaged model (leave embedding out)", config.provider == "openai" and config.base_url
    key = provider_key(config.model, KEYS.get(config.provider), env, otherwise, is_own_server=bool(is_own))
    if config.provider in ("wordllama", "python") and (config.options or config.base_url):
        raise ConfigError(f"embedding.options, embedding.base_url: {config.model} takes neither; leave them out")
    if config.provider == "python":
        own = call_factory(config.resolved_model, "embedding.model")
        if not isinstance(own, Embeddings):
            expected = f"expected a LangChain Embeddings, got {type(own).__name__}"
            raise ConfigError(f"embedding.model {config.model!r}: {expected}")
        return checked(own, config)
    try:
        match config.provider:
            case "wordllama":
                inner: Embeddings = StaticEmbeddings()
            case "cohere":
                inner = _cohere(config, key)
            case _:
                from langchain.embeddings import init_embeddings

                inner = init_embeddings(config.resolved_model, provider=config.provider, **_arguments(config, key))
    except ValidationError as error:  # its text would show the key
        fault = error.errors()[0]
        reason = redacted(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
        raise ConfigError(f"embedding.model {config.model!r} cannot be built: {reason}") from None
    except Exception as error:  # each provider's class fails in its own way
        raise ConfigError(f"embedding.model {config.model!r} cannot be built: {net.cause(error)}") from error
    return checked(inner, config)


def checked(embeddings: Embeddings, config: EmbeddingConfig | None = None) -> "CheckedEmbeddings":
    """Return the embeddings with typed errors. Messages call them by the configured name, or by that of their class."""
    if isinstance(embeddings, CheckedEmbeddings):
        return embeddings
    return CheckedEmbeddings(embeddings, config.model if config else type(embeddings).__name__, config)


class CheckedEmbeddings(Embeddings):
    """Embeddings with typed errors, and with one finite vector for each text, all of the same length.

    If the model may run on a server, requests with transient errors are repeated (see `retrievers.net`).

    Args:
        inner: The model.
        name: Its name in messages.
        settings: The settings of the model, for its provider and its prefixes. Without them the provider is not known.
    """

    def __init__(self, inner: Embeddings, name: str, settings: EmbeddingConfig | None = None) -> None:
        self.inner, self.name = inner, name
        self._settings = settings or EmbeddingConfig()
        provider = settings.provider if settings else "python"
        self._retried = provider not in LOCAL
        batch: Embed | None = getattr(inner, "embed_queries", None)
        self._batch = inner.embed_documents if provider in ALIKE else batch

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts for storage (Cohere: `search_document`).

        Raises:
            EmbeddingError: The provider failed, or returned too few, ragged or non-finite vectors.
        """
        return self._checked(self.inner.embed_documents, texts, self._settings.document_prefix)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query (Cohere: `search_query`).

        Raises:
            EmbeddingError: As for `embed_documents`.
        """
        return self._checked(lambda texts: [self.inner.embed_query(texts[0])], [text], self._settings.query_prefix)[0]

    def embed_queries(self, texts: list[str]) -> list[list[float]]:
        """Embed queries in as few requests as the provider allows. The vectors are those of `embed_query`.

        Raises:
            EmbeddingError: As for `embed_documents`.
        """
        if self._batch is None:
            return [self.embed_query(text) for text in texts]
        return self._checked(self._batch, texts, self._settings.query_prefix)

    def _checked(self, embed: Embed, texts: list[str], prefix: str | None) -> list[list[float]]:
        sent = [f"{prefix or ''}{text}" for text in texts]
        vectors = list[list[float]]()
        for batch in batch_iterate(REQUEST_TEXTS, sent):
            request = functools.partial(self._request, embed, batch)
            vectors += net.attempt(request, name="embed", retried=self._retried)
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) > 1:
            got = f"{self.name} returned {len(vectors)} vectors of {sorted(lengths)} dimensions for {len(texts)} texts"
            raise EmbeddingError(f"{got}, expected one for each, of one number of dimensions")
        finite = np.isfinite(np.asarray(vectors, dtype=np.float64)).all(axis=-1)
        if not finite.all():
            why = "" if self._retried else ": it knows none of its words"
            raise EmbeddingError(f"{self.name} made no finite vector for {texts[int(np.argmin(finite))][:60]!r}{why}")
        return vectors

    def _request(self, embed: Embed, batch: list[str]) -> list[list[float]]:
        try:
            return [list(map(float, vector)) for vector in embed(batch)]
        except EmbeddingError:
            raise
        except Exception as error:  # every provider has its own errors; the message keeps their type and status
            reason = net.cause(error, key=KEYS.get(self._settings.provider))
            raise net.marked(EmbeddingError(f"{self.name} failed to embed: {reason}"), error) from error


# Providers


def cohere_client(kind: Callable[..., Any], method: str, config: ModelConfig, key: str | None) -> Any:
    """Return a client of Cohere whose `method` is not repeated by the client itself, which would multiply our repeats.

    Its answers must end within `TIMEOUT_S` seconds.
    """
    http = net.BoundedClient(TIMEOUT_S)
    client = kind(key or "", base_url=config.base_url, client_name="langchain:partner", httpx_client=http)
    setattr(client, method, functools.partial(getattr(client, method), request_options={"max_retries": 0}))
    return client


def _cohere(config: EmbeddingConfig, key: str | None) -> Embeddings:
    """Make the embeddings of Cohere. They embed many queries in one request."""
    import warnings

    import cohere
    from langchain_cohere import CohereEmbeddings

    # Both libraries call deprecated functions of Pydantic at every request. catch_warnings is not safe among threads.
    warnings.filterwarnings("ignore", category=PydanticDeprecationWarning, module=r"(langchain_)?cohere\.")

    class BatchingCohereEmbeddings(CohereEmbeddings):
        def embed_queries(self, texts: list[str]) -> list[list[float]]:
            return self.embed(texts, input_type="search_query")

    # Its max_retries counts attempts.
    arguments: dict[str, Any] = {"max_retries": 1, **config.options}
    arguments |= {"model": config.resolved_model, "cohere_api_key": key, "base_url": config.base_url}
    embeddings = BatchingCohereEmbeddings(**arguments)
    embeddings.client = cohere_client(cohere.Client, "embed", config, key)
    # The SDK would send batches from threads of its own, each with its own retries.
    embeddings.client.embed = functools.partial(embeddings.client.embed, batching=False)
    return embeddings


def _arguments(config: EmbeddingConfig, key: str | None) -> dict[str, Any]:
    """Return the arguments of the provider's LangChain class: those of its kind, and the user's options."""
    if config.provider != "openai":
        return {**config.options}
    # Without an address, LangChain would take one from the environment. Its check of the length would download the
    # table of a tokenizer, and would average the vectors of the parts of a long text. We repeat requests ourselves.
    client = net.BoundedClient(float(config.options.get("timeout") or TIMEOUT_S))
    own = {"http_client": client, "max_retries": 0, "check_embedding_ctx_length": False}
    return {**own, "base_url": config.base_url or OPENAI, "api_key": key, **config.options}


class StaticEmbeddings(Embeddings):
    """The static word embeddings packaged with wordllama: 256 dimensions, deterministic, offline.

    They are averages of word vectors, and know words, not sentences. They are a start, not the state of the art.
    """

    def __init__(self) -> None:
        self._model = _static_model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed each text as a unit vector of 256 floats, which are NaN for an empty text."""
        # The vector of a text without words is divided by its length, 0. CheckedEmbeddings refuses it.
        with np.errstate(invalid="ignore"):
            vectors: list[list[float]] = self._model.embed([text[:PART] for text in texts], norm=True).tolist()
        return [
            vector if len(text) <= PART else self._by_parts(text) for text, vector in zip(texts, vectors, strict=True)
        ]

    def embed_query(self, text: str) -> list[float]:
        """Embed one query. Its vector is that of `embed_documents`."""
        return self.embed_documents([text])[0]

    def _by_parts(self, text: str) -> list[float]:
        """Return the vector of a text that is too long to be tokenised at once: the mean over all its tokens."""
        total = sum((self._model.embed([part])[0] * count_tokens(part) for part in token_parts(text)), np.zeros(256))
        vector: list[float] = (total / np.linalg.norm(total)).astype(np.float32).tolist()
        return vector


@functools.cache
def _static_model() -> Any:
    """Load the model once for all retrievers of a process. Embedding does not change it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    from wordllama import WordLlama

    # The import of wordllama changes the root logger.
    root.setLevel(level)
    root.handlers[:] = handlers
    return WordLlama.load(cache_dir=model_folder(), dim=256, disable_download=True)
