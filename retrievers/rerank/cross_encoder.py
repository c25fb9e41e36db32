"""Cross-encoders: any model that scores a query against texts, behind one call. Third parties enter late."""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document

from retrievers.config import CrossEncoderConfig, RetrieverConfig
from retrievers.config.factory import build
from retrievers.embedding.models import TIMEOUT_S, cohere_client, marked, once, provider_key
from retrievers.errors import ConfigError, RerankError
from retrievers.net import retry
from retrievers.net.faults import cause
from retrievers.rerank.reranking import Pool, Rerank, Reranking

log = logging.getLogger(__name__)
# A query and texts to (index, score) in the new order; a score is None where the model gives only the order.
CrossEncoder = Callable[[str, Sequence[str]], list[tuple[int, float | None]]]
PLACE = "_place"


def make(settings: RetrieverConfig, env: Mapping[str, str]) -> Rerank:
    """Make the reranker that asks the cross-encoder of the settings."""
    score = make_cross_encoder(settings.cross_encoder, env)

    def rerank(pool: Pool) -> Reranking:
        order = score(pool.query, pool.texts)
        return Reranking(order=[index for index, _ in order], scores=[score for _, score in order])

    return rerank


def make_cross_encoder(config: CrossEncoderConfig, env: Mapping[str, str]) -> CrossEncoder:
    """Build the cross-encoder that the settings name.

    Raises:
        MissingKeyError: Cohere needs a key that `env` lacks.
        ConfigError: The package is not installed, or the user's class cannot be loaded.
    """
    key = provider_key(config, env, "rerank by mmr, or not at all (--rerank none)")
    built = MAKERS[config.provider](config, key)
    name, hosted = config.label, config.declared.hosted is True
    compresses = isinstance(built, BaseDocumentCompressor)
    inner = _by_compressor(built, name, whole=hosted) if compresses else _by_scores(built, name)

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        return retry.attempt(lambda: _checked(inner, name, query, texts), name="rerank", retried=hosted)

    return order


def _checked(inner: CrossEncoder, name: str, query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
    if not texts:
        return []
    try:
        order = inner(query, texts)
    except RerankError:
        raise
    except Exception as error:  # every provider has its own tree; the type and status are kept in the message
        reason = cause(error, "cross_encoder")
        raise marked(RerankError(f"{name} failed to rerank {len(texts)} texts: {reason}"), error) from error
    indices = [index for index, _ in order]
    if len(set(indices)) != len(indices) or not all(0 <= index < len(texts) for index in indices):
        raise RerankError(f"{name} returned an order that is not one of the {len(texts)} texts it was given")
    if any(score is not None and not isfinite(score) for _, score in order):
        raise RerankError(f"{name} returned a score that is not a number")
    return order


def _by_compressor(compressor: BaseDocumentCompressor, name: str, *, whole: bool) -> CrossEncoder:
    """Rerank by a LangChain document compressor: by its order, and its `relevance_score` where it sets one.

    A user's own may leave texts out; of a provider that is asked for all of them (`whole`) it is a fault.
    """

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        documents = [Document(page_content=text, metadata={PLACE: index}) for index, text in enumerate(texts)]
        reranked = compressor.compress_documents(documents, query)
        if whole and len(reranked) != len(texts):
            raise RerankError(f"{name} returned {len(reranked)} scores for {len(texts)} texts")
        return [(int(d.metadata[PLACE]), _score(d.metadata.get("relevance_score"))) for d in reranked]

    return order


def _by_scores(model: Any, name: str) -> CrossEncoder:
    """Rerank by a cross-encoder with `score(pairs)` (LangChain) or `predict(pairs)` (sentence-transformers)."""
    call = getattr(model, "score", None) or getattr(model, "predict", None)
    if call is None:
        raise ConfigError(
            f"cross_encoder {name}: expected a LangChain document compressor or an object with score(pairs), "
            f"got {type(model).__name__}"
        )

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        scores = [float(score) for score in call([(query, text) for text in texts])]
        if len(scores) != len(texts):
            raise RerankError(f"{name} returned {len(scores)} scores for {len(texts)} texts")
        order = sorted(range(len(texts)), key=lambda index: -scores[index])
        return [(index, scores[index]) for index in order]

    return order


def _score(value: Any) -> float | None:
    return None if value is None else float(value)


def of_cohere(config: CrossEncoderConfig, key: str) -> BaseDocumentCompressor:
    """Make a compressor that calls Cohere Rerank."""
    import cohere
    from langchain_cohere import CohereRerank

    client = cohere_client(cohere.ClientV2, key, config)
    setattr(client, "rerank", once(client.rerank, TIMEOUT_S))  # noqa: B010 - a method, to the type checker
    return CohereRerank(client=client, model=config.resolved_model, top_n=None, cohere_api_key=key)


def from_python(config: CrossEncoderConfig, _: str | None) -> Any:
    """Make what the user's own factory makes."""
    return build(config.resolved_model, "cross_encoder.model")


def of_sentence_transformers(config: CrossEncoderConfig, _: str | None) -> Any:
    """Make a local model; its package is an extra.

    Raises:
        ConfigError: The package is not installed, or the model cannot be loaded.
    """
    model = config.resolved_model
    try:
        import sentence_transformers
    except ModuleNotFoundError as error:
        raise ConfigError(
            "cross_encoder.provider sentence-transformers needs an extra: pip install 'retrieval-evals[rerank]'"
        ) from error
    try:
        return sentence_transformers.CrossEncoder(model)
    except Exception as error:  # a hub that cannot be reached, a name it does not know, weights that do not fit
        raise ConfigError(f"cross_encoder.model {model!r} cannot be loaded: {cause(error)}") from error


MAKERS: Mapping[str, Callable[[CrossEncoderConfig, Any], Any]] = {
    "cohere": of_cohere,
    "sentence-transformers": of_sentence_transformers,
    "python": from_python,
}
