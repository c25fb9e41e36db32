"""Rerankers: maximal marginal relevance, and cross-encoders by LangChain's document compressors or scores of pairs.

Third parties enter late.
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
from retrievers.config.models import CrossEncoderConfig
from retrievers.config.settings import call_factory
from retrievers.embedding.models import TIMEOUT_S, cohere_client, once, provider_key
from retrievers.errors import ConfigError, RerankError
from retrievers.search.candidates import Candidates, Floats, Hits, laid_out
from retrievers.search.find import in_order
from retrievers.store.chunks import ChunkTable, unit, vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

PLACE = "_place"
Score = Callable[[str, Sequence[str]], Sequence[float]]
"""From a query and texts to a score for each. Raises RerankError on failure."""


@dataclass(frozen=True, slots=True)
class Reranker:
    """Puts candidates into another order.

    Attributes:
        settings: Those that name it: mmr or a cross-encoder.
        client: An open client, for the stored vectors that mmr compares.
        score: The cross-encoder; None for mmr.
    """

    settings: RetrieverConfig
    client: "QdrantClient"
    score: Score | None

    def order(
        self, found: Candidates, queries: Sequence[str], vectors: Sequence[Sequence[float]], chunks: ChunkTable
    ) -> Candidates:
        """Return the candidates of each query in the new order; each keeps its rank and score from before.

        The scores of a cross-encoder become the final ones; under mmr candidates keep those of the search.

        Args:
            found: The candidates.
            queries: The queries.
            vectors: Their vectors.
            chunks: The chunks of the candidates.

        Raises:
            RerankError: It failed, or gave scores that the threshold cannot read.
            StoreError: The stored vectors cannot be read.
        """
        ranks = np.where(found.codes < 0, np.nan, np.arange(1.0, found.codes.shape[1] + 1))
        columns = {**found.columns, "original_rank": ranks, "original_score": found.columns["score"]}
        if self.score is None:
            orders = [self._spread(vector, hits, chunks) for vector, hits in zip(vectors, found, strict=True)]
            return replace(found, columns=columns).at(laid_out(orders, -1))
        chunks.read(found.codes[found.codes >= 0].tolist())
        # Texts as they were embedded: judged without the context by which it was found, a chunk would be sorted out.
        texts = [[chunk.indexed_text for chunk in hits.chunks] for hits in found]
        scores = laid_out([self.score(*each) if each[1] else () for each in zip(queries, texts, strict=True)], np.nan)
        if self.settings.threshold_scale == "rerank":
            check_scale(scores[found.codes >= 0])
        columns |= {"rerank": scores, "score": scores}
        facts = [replace(of, scale="rerank") for of in found.facts]
        return replace(found, columns=columns, facts=facts).at(in_order(found.codes, scores, chunks))

    def _spread(self, vector: Sequence[float], hits: Hits, chunks: ChunkTable) -> list[int]:
        """Return the order of mmr."""
        if not len(hits):
            return []
        stored = vectors_of(self.client, self.settings, chunks.given(hits.codes.astype(np.int32)))
        relevance = np.clip(unit(stored) @ unit([vector])[0], 0, 1)
        return mmr_order(relevance, stored, self.settings.mmr_lambda)


def make_reranker(settings: RetrieverConfig, client: "QdrantClient", env: Mapping[str, str]) -> Reranker | None:
    """Make the reranker that the settings name; None where nothing is reranked after the search.

    Raises:
        MissingKeyError: Its provider needs a key that `env` lacks.
        ConfigError: A package is not installed, or the user's class cannot be loaded.
    """
    if settings.rerank == "none":
        return None
    return Reranker(settings, client, cross_encoder(settings, env) if settings.reranks_by_model else None)


def check_scale(scores: Floats) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of a cross-encoder.

    Raises:
        RerankError: Some are outside of 0 to 1, as of a model that returns logits.
    """
    unfit = scores[(scores < 0) | (scores > 1)]
    if len(unfit):
        remedy = "which the threshold would read; use threshold_on: each with threshold_signal: cosine"
        raise RerankError(f"the cross-encoder gives a score of {unfit[0]:g}, not within 0 and 1, {remedy}")


def mmr_order(relevance: Floats, vectors: NDArray[Any], lambda_: float) -> list[int]:
    """Pick greedily the candidate with the highest λ · relevance − (1 − λ) · highest cosine to the picks so far.

    Ties go to the candidate that came first. The first n picks do not depend on how many are made, so a result for a
    smaller top_k is the beginning of that for a larger one. Source: Carbonell and Goldstein (1998).

    langchain-core's `maximal_marginal_relevance` picks the same, but compares all pairs anew at every pick.

    Args:
        relevance: Cosine of each candidate to the query, candidates in their order.
        vectors: One row for each candidate, shape (candidates, dimension); one of zeros is like no other.
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
    key = provider_key(config, env, "rerank by mmr, or not at all (rerank: none)")
    model = MAKERS[config.provider](config, key)
    call: Any = getattr(model, "score", None) or getattr(model, "predict", None)
    if isinstance(model, BaseDocumentCompressor):
        ask: Score = partial(_compressed, model)
    elif call:
        # As LangChain's cross-encoders have it, or sentence-transformers.
        def ask(query: str, texts: Sequence[str]) -> Sequence[float]:
            return [float(score) for score in call([(query, text) for text in texts])]
    else:
        expected = "a LangChain document compressor or an object with score(pairs)"
        raise ConfigError(f"cross_encoder {config.model}: expected {expected}, got {type(model).__name__}")

    def score(query: str, texts: Sequence[str]) -> Sequence[float]:
        asked = partial(_checked, ask, config.model, query, texts)
        return net.attempt(asked, name="rerank", retried=config.declared.hosted is True)

    return score


def _checked(ask: Score, name: str, query: str, texts: Sequence[str]) -> Sequence[float]:
    try:
        scores = ask(query, texts)
    except Exception as error:  # every provider has its own tree; the type and status are kept in the message
        reason = net.cause(error, "cross_encoder")
        raise net.marked(RerankError(f"{name} failed to rerank {len(texts)} texts: {reason}"), error) from error
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        each = f"a finite score for each of {len(texts)} texts (a document compressor sets relevance_score)"
        raise RerankError(f"{name}: expected {each}, got {scores[:5]}")
    return scores


def _compressed(compressor: BaseDocumentCompressor, query: str, texts: Sequence[str]) -> Sequence[float]:
    """Return the `relevance_score` that a LangChain document compressor sets for each text, NaN where it sets none."""
    documents = [Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)]
    returned = [document.metadata for document in compressor.compress_documents(documents, query)]
    scores = {of[PLACE]: float(of.get("relevance_score", nan)) for of in returned}
    return [scores.get(place, nan) for place in range(len(texts))] if len(returned) == len(texts) else []


def _of_cohere(config: CrossEncoderConfig, key: str | None) -> BaseDocumentCompressor:
    """Make a compressor that calls Cohere Rerank."""
    import cohere
    from langchain_cohere import CohereRerank

    client = cohere_client(cohere.ClientV2, key or "", config)
    setattr(client, "rerank", once(client.rerank, TIMEOUT_S))  # noqa: B010 - a method, to the type checker
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
    except Exception as error:  # a hub that cannot be reached, a name it does not know, weights that do not fit
        raise ConfigError(f"cross_encoder.model {config.model!r} cannot be loaded: {net.cause(error)}") from error


MAKERS: Mapping[str, Callable[[CrossEncoderConfig, str | None], Any]] = {
    "cohere": _of_cohere,
    "sentence-transformers": _of_sentence_transformers,
    "python": lambda config, _: call_factory(config.resolved_model, "cross_encoder.model"),
}
