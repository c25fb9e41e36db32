"""Rerankers: maximal marginal relevance, and cross-encoders.

A cross-encoder is a document compressor of LangChain, or an object that scores pairs of texts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from numpy.typing import NDArray

from retrievers import net
from retrievers.config import RetrieverConfig
from retrievers.config.layers import provider_key
from retrievers.config.models import KEYS, CrossEncoderConfig
from retrievers.config.settings import call_factory
from retrievers.embedding.models import cohere_client
from retrievers.errors import ConfigError, RerankError
from retrievers.search.candidates import Candidates, Floats, Hits, laid_out
from retrievers.search.find import in_order
from retrievers.store.chunks import ChunkTable, unit, vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

PLACE = "_place"
Score = Callable[[str, Sequence[str]], Sequence[float]]
"""Scores each text for a query. Raises RerankError on failure."""


@dataclass(frozen=True, slots=True)
class Reranker:
    """Puts candidates into another order.

    Attributes:
        settings: Settings of the retriever.
        client: An open client. From it mmr reads the stored vectors that it compares.
        score: The cross-encoder; None for mmr.
    """

    settings: RetrieverConfig
    client: "QdrantClient"
    score: Score | None

    def order(
        self, found: Candidates, queries: Sequence[str], vectors: Sequence[Sequence[float]], chunks: ChunkTable
    ) -> Candidates:
        """Return the candidates of each query in the new order, with their former ranks and scores as further columns.

        The scores of a cross-encoder become the final scores. Under mmr candidates keep the scores of the search.

        Args:
            found: The candidates.
            queries: The queries.
            vectors: The vectors of the queries.
            chunks: The chunks of the candidates.

        Raises:
            RerankError: The cross-encoder failed, or gave scores that the threshold cannot read.
            StoreError: The stored vectors cannot be read.
        """
        ranks = np.where(found.codes < 0, np.nan, np.arange(1.0, found.codes.shape[1] + 1))
        columns = {**found.columns, "original_rank": ranks, "original_score": found.columns["score"]}
        if self.score is None:
            orders = [self._spread(vector, hits, chunks) for vector, hits in zip(vectors, found, strict=True)]
            return replace(found, columns=columns).at(laid_out(orders, -1))
        chunks.read(found.codes[found.codes >= 0].tolist())
        # With its context, as it was embedded: without it, the chunk may seem to be about something else.
        texts = [[chunk.indexed_text for chunk in hits.chunks] for hits in found]
        rows = [self.score(query, own) if own else () for query, own in zip(queries, texts, strict=True)]
        scores = laid_out(rows, np.nan)
        unfit = scores[(scores < 0) | (scores > 1)]  # a model that returns logits gives such scores
        if len(unfit) and self.settings.threshold_scale == "rerank":
            remedy = "which the threshold would read; use threshold_on: each with threshold_signal: cosine"
            raise RerankError(f"the cross-encoder gives a score of {unfit[0]:g}, not within 0 and 1, {remedy}")
        columns |= {"rerank": scores, "score": scores}
        facts = [replace(of_query, scale="rerank") for of_query in found.facts]
        return replace(found, columns=columns, facts=facts).at(in_order(found.codes, scores, chunks))

    def _spread(self, vector: Sequence[float], hits: Hits, chunks: ChunkTable) -> list[int]:
        """Return the places of a query's candidates in the order of mmr."""
        if not len(hits):
            return []
        stored = vectors_of(self.client, self.settings, chunks.given(hits.codes))
        relevance = np.clip(unit(stored) @ unit([vector])[0], 0, 1)
        return mmr_order(relevance, stored, self.settings.mmr_lambda)


def make_reranker(settings: RetrieverConfig, client: "QdrantClient", env: Mapping[str, str]) -> Reranker | None:
    """Make the reranker that the settings name; None if they name none.

    Raises:
        MissingKeyError: Its provider needs a key that `env` lacks.
        ConfigError: A package is not installed, or the user's class cannot be loaded.
    """
    if settings.rerank == "none":
        return None
    return Reranker(settings, client, cross_encoder(settings, env) if settings.rerank == "cross-encoder" else None)


def mmr_order(relevance: Floats, vectors: NDArray[Any], lambda_: float) -> list[int]:
    """Pick one candidate after the other: that with the highest λ · relevance − (1 − λ) · highest cosine to the picks.

    Of equal candidates the first is picked. The first n picks do not depend on the number of picks, so the result for a
    smaller top_k is the beginning of the result for a larger one. Source: Carbonell and Goldstein (1998).

    langchain-core's `maximal_marginal_relevance` picks the same, but compares all pairs anew at every pick.

    Args:
        relevance: Cosine of each candidate to the query, in the order of the candidates.
        vectors: Vector of each candidate; shape (candidates, dimension). A vector of zeros is similar to no other.
        lambda_: λ, 1 for relevance alone, 0 for diversity alone.
    """
    directions = unit(vectors)
    left = np.ones(len(vectors), dtype=bool)
    order = list[int]()
    closest = np.full(len(vectors), -np.inf)
    for turn in range(len(vectors)):
        gain = lambda_ * relevance - (1 - lambda_) * (closest if turn else 0)
        pick = int(np.argmax(np.where(left, gain, -np.inf)))
        order.append(pick)
        left[pick] = False
        closest = np.maximum(closest, directions @ directions[pick])
    return order


def cross_encoder(settings: RetrieverConfig, env: Mapping[str, str]) -> Score:
    """Make the cross-encoder of the settings.

    Raises:
        MissingKeyError: Cohere needs a key that `env` lacks.
        ConfigError: The package is not installed, or the user's class cannot be loaded.
    """
    config = settings.cross_encoder
    key = provider_key(config.model, KEYS.get(config.provider), env, "rerank by mmr, or not at all (rerank: none)")
    model = MAKERS[config.provider](config, key)
    # LangChain's cross-encoders have `score`, those of sentence-transformers `predict`.
    score_pairs: Any = getattr(model, "score", None) or getattr(model, "predict", None)
    if isinstance(model, BaseDocumentCompressor):
        ask: Score = partial(_compressed, model)
    elif score_pairs:

        def ask(query: str, texts: Sequence[str]) -> Sequence[float]:
            return [float(score) for score in score_pairs([(query, text) for text in texts])]
    else:
        expected = "a LangChain document compressor or an object with score(pairs)"
        raise ConfigError(f"cross_encoder {config.model}: expected {expected}, got {type(model).__name__}")

    def score(query: str, texts: Sequence[str]) -> Sequence[float]:
        asked = partial(_checked, ask, config, query, texts)
        return net.attempt(asked, name="rerank", retried=config.provider in KEYS)

    return score


def _checked(ask: Score, config: CrossEncoderConfig, query: str, texts: Sequence[str]) -> Sequence[float]:
    name = config.model
    try:
        scores = ask(query, texts)
    except Exception as error:  # every provider has its own errors; the message keeps their type and status
        reason = net.cause(error, "cross_encoder", KEYS.get(config.provider))
        raise net.marked(RerankError(f"{name} failed to rerank {len(texts)} texts: {reason}"), error) from error
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        expected = f"a finite score for each of {len(texts)} texts (a document compressor sets relevance_score)"
        raise RerankError(f"{name}: expected {expected}, got {sum(map(isfinite, scores))}")
    return scores


def _compressed(compressor: BaseDocumentCompressor, query: str, texts: Sequence[str]) -> Sequence[float]:
    """Return the `relevance_score` that a document compressor sets for each text, NaN for a text without one.

    If it does not return every text once, return those that it gives.
    """
    documents = [Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)]
    returned = [document.metadata for document in compressor.compress_documents(documents, query)]
    given = [float(metadata.get("relevance_score", nan)) for metadata in returned]
    scores = {metadata[PLACE]: score for metadata, score in zip(returned, given, strict=True)}
    return [scores.get(place, nan) for place in range(len(texts))] if len(given) == len(texts) else given


def _of_cohere(config: CrossEncoderConfig, key: str | None) -> BaseDocumentCompressor:
    """Make a compressor that calls Cohere Rerank."""
    import cohere
    from langchain_cohere import CohereRerank

    client = cohere_client(cohere.ClientV2, "rerank", config, key)
    return CohereRerank(client=client, model=config.resolved_model, top_n=None, cohere_api_key=key)


def _of_sentence_transformers(config: CrossEncoderConfig, _: str | None) -> Any:
    """Make a local model; its package is an extra.

    Raises:
        ConfigError: The package is not installed, or the model cannot be loaded.
    """
    try:
        import sentence_transformers

        return sentence_transformers.CrossEncoder(config.resolved_model)
    except ModuleNotFoundError as error:
        extra = "pip install 'retrieval-evals[rerank]'"
        raise ConfigError(f"cross_encoder.model {config.model!r} needs an extra: {extra}") from error
    except Exception as error:  # the hub cannot be reached or does not know the name, or the weights do not fit
        raise ConfigError(f"cross_encoder.model {config.model!r} cannot be loaded: {net.cause(error)}") from error


MAKERS: Mapping[str, Callable[[CrossEncoderConfig, str | None], Any]] = {
    "cohere": _of_cohere,
    "sentence-transformers": _of_sentence_transformers,
    "python": lambda config, _: call_factory(config.resolved_model, "cross_encoder.model"),
}
