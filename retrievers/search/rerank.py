"""Rerankers: maximal marginal relevance, and cross-encoders by LangChain's document compressors or scores of pairs.

A reranker is a function from a pool of candidates to their new order. Third parties enter late.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from numpy.typing import NDArray

from retrievers import net
from retrievers.config import RetrieverConfig
from retrievers.config.models import CrossEncoderConfig
from retrievers.config.settings import call_factory
from retrievers.embedding.models import TIMEOUT_S, cohere_client, marked, once, provider_key
from retrievers.errors import ConfigError, RerankError
from retrievers.search.candidates import Candidates, Floats, Hits, laid_out
from retrievers.search.find import in_order
from retrievers.store.chunks import ChunkTable, unit, vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

PLACE = "_place"


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankInput:
    """The candidates of one query, in their order, as far as the reranker reads them.

    Attributes:
        query: The query.
        vector: Its vector.
        texts: Text of each as it was embedded, with its context, for a cross-encoder; else empty. Judged without the
            context by which it was found, a chunk would be sorted out again.
        stored: Stored vectors, shape (candidates, dimension), for mmr; else empty.
    """

    query: str
    vector: Sequence[float]
    texts: Sequence[str]
    stored: Floats


Order = tuple[Sequence[int], Sequence[float]]
"""Places in the pool, best first, of which a missing one is dropped; and their scores, if the reranker gives any.

Scores become the final ones, and equal ones are ordered by chunk id. Without any, the order stays as it is, and
candidates keep the scores of the search.
"""
NO_ORDER: Order = ((), ())
Rerank = Callable[[RerankInput], Order]
"""Reorders a pool that is not empty. Raises RerankError on failure."""
Scored = Sequence[tuple[int, float | None]]
"""What a cross-encoder says: places in its order, each with its score, None where it gives only the order."""


def make_reranker(settings: RetrieverConfig, env: Mapping[str, str]) -> Rerank | None:
    """Make the reranker that the settings name; None where nothing is reranked after the search.

    Raises:
        MissingKeyError: Its provider needs a key that `env` lacks.
        ConfigError: A package is not installed, or the user's class cannot be loaded.
    """
    make = {"cross-encoder": cross_encoder, "mmr": mmr}.get(settings.rerank)
    return make(settings, env) if make else None


@dataclass(frozen=True, slots=True)
class Reranking:
    """Puts candidates into a reranker's order.

    Attributes:
        rerank: The reranker.
        settings: Those that it was made by.
        client: An open client, for the stored vectors.
        chunks: The chunks of the candidates.
    """

    rerank: Rerank
    settings: RetrieverConfig
    client: "QdrantClient"
    chunks: ChunkTable

    def of(self, found: Candidates, queries: Sequence[str], vectors: Sequence[Sequence[float]]) -> Candidates:
        """Return the candidates of each query in the reranker's order; each keeps its rank and score from before.

        Raises:
            RerankError: It failed, or gave scores that the threshold cannot read.
            StoreError: The stored vectors cannot be read.
        """
        settings = self.settings
        if settings.reranks_by_model:
            self.chunks.read(found.codes[found.codes >= 0].tolist())
        given = [
            self.rerank(self._pool(query, vector, hits)) if len(hits) else NO_ORDER
            for query, vector, hits in zip(queries, vectors, found, strict=True)
        ]
        places = laid_out([order for order, _ in given], -1)
        moved = found.at(places)
        columns = {**moved.columns, "original_score": moved.columns["score"]}
        columns["original_rank"] = np.where(places < 0, np.nan, places + 1.0)
        moved = replace(moved, columns=columns)
        if not settings.reranks_by_model:
            return moved
        final = columns["rerank"] = laid_out([scores or [np.nan] * len(order) for order, scores in given], np.nan)
        if settings.threshold_scale == "rerank":
            check_scale(final[places >= 0], settings.rerank)
        is_scored = ~np.isnan(final)
        columns["score"] = np.where(is_scored, final, columns["score"])
        facts = [
            replace(of, scale=settings.score_scale) if row.any() else of
            for of, row in zip(found.facts, is_scored, strict=True)
        ]
        # An order without scores stays as it is.
        by = np.where(is_scored, final, np.where(places < 0, np.nan, -np.arange(places.shape[1])))
        return replace(moved, facts=facts).at(in_order(moved.codes, by, self.chunks))

    def _pool(self, query: str, vector: Sequence[float], hits: Hits) -> RerankInput:
        stored = np.empty((0, 0))
        if self.settings.rerank == "mmr":
            stored = vectors_of(self.client, self.settings, self.chunks.given(hits.codes.astype(np.int32)))
        texts = [chunk.indexed_text for chunk in hits.chunks] if self.settings.reranks_by_model else ()
        return RerankInput(query=query, vector=vector, texts=texts, stored=stored)


def check_scale(scores: Floats, name: str) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of the reranker `name`.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    unfit = scores[~((scores >= 0) & (scores <= 1))]
    if len(unfit):
        gives = "no scores" if np.isnan(unfit[0]) else f"a score of {unfit[0]:g}, not within 0 and 1"
        remedy = "use threshold_on: each with threshold_signal: cosine"
        raise RerankError(f"the {name} gives {gives}, which the threshold would read; {remedy}")


def mmr(settings: RetrieverConfig, _: Mapping[str, str]) -> Rerank:
    """Make the reranker by maximal marginal relevance; candidates keep their scores."""

    def rerank(pool: RerankInput) -> Order:
        relevance = np.clip(unit(pool.stored) @ unit([pool.vector])[0], 0, 1)
        return mmr_order(relevance, pool.stored, settings.mmr_lambda), ()

    return rerank


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


def cross_encoder(settings: RetrieverConfig, env: Mapping[str, str]) -> Rerank:
    """Make the reranker that asks the cross-encoder of the settings.

    Raises:
        MissingKeyError: Cohere needs a key that `env` lacks.
        ConfigError: The package is not installed, or the user's class cannot be loaded.
    """
    config = settings.cross_encoder
    key = provider_key(config, env, "rerank by mmr, or not at all (rerank: none)")
    model, hosted = MAKERS[config.provider](config, key), config.declared.hosted is True
    call: Any = getattr(model, "score", None) or getattr(model, "predict", None)
    if isinstance(model, BaseDocumentCompressor):
        # One that is asked for all texts must return them; a user's may leave some out.
        ask, whole = partial(_compressed, model), hosted
    elif call:
        ask, whole = partial(_scored, call), True
    else:
        expected = "a LangChain document compressor or an object with score(pairs)"
        raise ConfigError(f"cross_encoder {config.model}: expected {expected}, got {type(model).__name__}")

    def rerank(pool: RerankInput) -> Order:
        asked = partial(_checked, ask, config.model, pool, whole=whole)
        said = net.attempt(asked, name="rerank", retried=hosted)
        scores = [score for _, score in said if score is not None]
        return [place for place, _ in said], scores if len(scores) == len(said) else ()

    return rerank


def _checked(ask: Callable[[str, Sequence[str]], Scored], name: str, pool: RerankInput, *, whole: bool) -> Scored:
    count = len(pool.texts)
    try:
        said = ask(pool.query, pool.texts)
    except Exception as error:  # every provider has its own tree; the type and status are kept in the message
        reason = net.cause(error, "cross_encoder")
        raise marked(RerankError(f"{name} failed to rerank {count} texts: {reason}"), error) from error
    places = {place for place, score in said if 0 <= place < count and isfinite(score or 0)}
    if len(places) != len(said) or (whole and len(said) != count):
        each = "each" if whole else "some"
        raise RerankError(f"{name}: expected {each} of {count} texts once with a finite score, got {said[:5]}")
    return said


def _compressed(compressor: BaseDocumentCompressor, query: str, texts: Sequence[str]) -> Scored:
    """Rerank by a LangChain document compressor: by its order, and its `relevance_score` where it sets one."""
    documents = [Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)]
    said = [document.metadata for document in compressor.compress_documents(documents, query)]
    return [(int(of[PLACE]), None if (s := of.get("relevance_score")) is None else float(s)) for of in said]


def _scored(call: Callable[[Any], Any], query: str, texts: Sequence[str]) -> Scored:
    """Rerank by `score(pairs)`, as LangChain's cross-encoders have it, or `predict(pairs)` of sentence-transformers."""
    scores = enumerate(map(float, call([(query, text) for text in texts])))
    return sorted(scores, key=lambda pair: -pair[1])


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
