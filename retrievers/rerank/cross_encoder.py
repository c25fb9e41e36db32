"""Rerankers: any that scores a query against texts, behind one call. Third parties enter late."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document

from retrievers.config import CrossEncoderConfig
from retrievers.config.factory import build
from retrievers.embedding.models import cohere_client, marked, once, required_key
from retrievers.errors import ConfigError, RerankError
from retrievers.net import retry
from retrievers.net.faults import cause
from retrievers.records import RetrievedChunk

log = logging.getLogger(__name__)
Reranker = Callable[[str, Sequence[str]], list[tuple[int, float | None]]]
"""A query and texts to (index, score) in the new order; a score is None where the reranker gives only the order."""
PLACE = "_place"


def make_reranker(config: CrossEncoderConfig, env: Mapping[str, str]) -> Reranker:
    """Build the cross-encoder that the settings name.

    Raises:
        MissingKeyError: Cohere needs a key that `env` lacks.
        ConfigError: The package is not installed, or the user's class cannot be loaded.
    """
    builders: dict[str, Callable[[], Any]] = {
        "cohere": lambda: _cohere(config, env),
        "sentence-transformers": lambda: _sentence_transformers(config.resolved_model),
        "python": lambda: build(config.resolved_model, "cross_encoder.model"),
    }
    built = builders[config.provider]()
    name = f"{config.provider}:{config.resolved_model}"
    hosted = config.provider == "cohere"
    compresses = isinstance(built, BaseDocumentCompressor)
    inner = _by_compressor(built, name, whole=hosted) if compresses else _by_scores(built, name)

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        return retry.attempt(
            lambda: _checked(inner, name, query, texts), name="rerank", timeout_s=config.timeout_s, retried=hosted
        )

    return order


def rerank(reranker: Reranker, query: str, candidates: Sequence[RetrievedChunk]) -> tuple[RetrievedChunk, ...]:
    """Candidates in the reranker's order, each with its score from there and its rank and score from before.

    Equal scores are ordered by chunk id. A reranker that gives no scores leaves those of the candidates, and one that
    drops candidates drops them here.

    Raises:
        RerankError: The reranker failed.
    """
    order = reranker(query, [found.chunk.text for found in candidates])
    moved = [_moved(candidates[index], score) for index, score in order]
    if all(score is not None for _, score in order):
        moved.sort(key=lambda found: (-found.known_score, found.chunk.chunk_id))
    return tuple(replace(found, rank=place) for place, found in enumerate(moved, 1))


def check_scale(moved: Sequence[RetrievedChunk]) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the reranker's scores.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    if any(found.score_scale != "rerank" for found in moved):
        raise RerankError("the cross-encoder gives no scores, which threshold_on: final would read")
    outside = [found.known_score for found in moved if not 0 <= found.known_score <= 1]
    if outside:
        raise RerankError(
            f"the cross-encoder's scores are not within 0 and 1 (one is {outside[0]:g}), so threshold_on: final has no "
            "meaning; use threshold_on: semantic, or a model that returns probabilities"
        )


def _moved(found: RetrievedChunk, score: float | None) -> RetrievedChunk:
    before = replace(found, original_rank=found.rank, original_score=found.score)
    if score is None:
        return before
    return replace(before, score=score, score_scale="rerank", scores={**found.scores, "rerank": score})


def _checked(inner: Reranker, name: str, query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
    if not texts:
        return []
    try:
        order = inner(query, texts)
    except RerankError:
        raise
    except Exception as error:  # every provider has its own tree; the type and status are kept in the message
        said = cause(error, "cross_encoder")
        raise marked(RerankError(f"{name} failed to rerank {len(texts)} texts: {said}"), error) from error
    indices = [index for index, _ in order]
    if len(set(indices)) != len(indices) or not all(0 <= index < len(texts) for index in indices):
        raise RerankError(f"{name} returned an order that is not one of the {len(texts)} texts it was given")
    if any(score is not None and not isfinite(score) for _, score in order):
        raise RerankError(f"{name} returned a score that is not a number")
    return order


def _by_compressor(compressor: BaseDocumentCompressor, name: str, *, whole: bool) -> Reranker:
    """A LangChain document compressor; its order counts, and its `relevance_score` where it sets one.

    A user's own may leave texts out; of a provider that is asked for all of them (`whole`) it is a fault.
    """

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        documents = [Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)]
        kept = compressor.compress_documents(documents, query)
        if whole and len(kept) != len(texts):
            raise RerankError(f"{name} returned {len(kept)} scores for {len(texts)} texts")
        return [(int(d.metadata[PLACE]), _score(d.metadata.get("relevance_score"))) for d in kept]

    return order


def _by_scores(model: Any, name: str) -> Reranker:
    """A cross-encoder with `score(pairs)`, as LangChain's have, or `predict(pairs)`, as sentence-transformers' have."""
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
        places = sorted(range(len(texts)), key=lambda place: -scores[place])
        return [(place, scores[place]) for place in places]

    return order


def _score(value: Any) -> float | None:
    return None if value is None else float(value)


def _cohere(config: CrossEncoderConfig, env: Mapping[str, str]) -> BaseDocumentCompressor:
    key = required_key(env, config.api_key_env, "Cohere Rerank", "rerank by mmr, or not at all (--rerank none)")
    import cohere
    from langchain_cohere import CohereRerank

    client = cohere_client(cohere.ClientV2, key, config)
    setattr(client, "rerank", once(client.rerank, config.timeout_s))  # noqa: B010 - a method, to the type checker
    return CohereRerank(client=client, model=config.resolved_model, top_n=None, cohere_api_key=key)


def _sentence_transformers(model: str) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ModuleNotFoundError as error:
        raise ConfigError(
            "cross_encoder.provider sentence-transformers needs an extra: pip install 'retrieval-evals[rerank]'"
        ) from error
    try:
        return CrossEncoder(model)
    except Exception as error:  # a hub that cannot be reached, a name it does not know, weights that do not fit
        raise ConfigError(f"cross_encoder.model {model!r} cannot be loaded: {cause(error)}") from error
