"""Rerankers: maximal marginal relevance, and cross-encoders by LangChain's document compressors or scores of pairs.

A reranker is a function from a pool of candidates to their new order. Third parties enter late.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from numpy.typing import NDArray

from retrievers.config import CrossEncoderConfig, RetrieverConfig
from retrievers.config.factory import build
from retrievers.embedding.models import TIMEOUT_S, cohere_client, marked, once, provider_key
from retrievers.errors import ConfigError, RerankError
from retrievers.net import retry
from retrievers.net.faults import cause
from retrievers.search.candidates import Candidates, CandidateTable, Floats, joined, make_table
from retrievers.search.find import in_order
from retrievers.store.chunks import ChunkTable, vectors_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

CrossEncoder = Callable[[str, Sequence[str]], list[tuple[int, float | None]]]
"""A query and texts to (index, score) in the new order; a score is None where the model gives only the order."""
PLACE = "_place"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The candidates of one query, in their order, as far as the reranker declares that it reads them.

    Attributes:
        cosines: Cosine of each to the query. Where the collection compares vectors by another distance, it is computed
            of the stored vectors for `needs_vectors`; else empty.
        texts: Text of each as it was embedded, with its context, for `needs_texts`; else empty. Judged without the
            context by which it was found, a chunk would be sorted out again.
        vectors: Stored vectors, shape (candidates, dimension), for `needs_vectors`; else None.
    """

    query: str
    cosines: Floats
    texts: Sequence[str] = ()
    vectors: Floats | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reranking:
    """The order that a reranker gives to a pool.

    Attributes:
        order: Indices into the pool, best first; a candidate that is not in it is dropped.
        scores: Score of each candidate in that order, None for one that has none; empty where the reranker gives no
            scores. Where all have one, it is their final score, and equal ones are ordered by chunk id, whatever
            `order` says; else `order` holds and candidates keep the scores of the search.
        components: Further scores by name, of each candidate in that order.
    """

    order: Sequence[int]
    scores: Sequence[float | None] = ()
    components: Mapping[str, Sequence[float]] = field(default_factory=dict)


Rerank = Callable[[Pool], Reranking]
"""Reorders a pool that is not empty. Raises RerankError on failure."""


def make_reranker(settings: RetrieverConfig, env: Mapping[str, str]) -> Rerank | None:
    """Make the reranker that the settings name; None where nothing is reranked after the search.

    Raises:
        MissingKeyError: Its provider needs a key that `env` lacks.
        ConfigError: A package is not installed, or the user's class cannot be loaded.
    """
    make = settings.reranker.make
    return resolve_name(make)(settings, env) if make else None


def reranked(
    table: CandidateTable,
    queries: Sequence[str],
    vectors: Sequence[Sequence[float]],
    rerank: Rerank,
    settings: RetrieverConfig,
    client: "QdrantClient",
) -> CandidateTable:
    """Put the candidates of each query into a reranker's order; each keeps its rank and score from before.

    Args:
        table: The candidates.
        queries: The queries.
        vectors: Their vectors.
        rerank: The reranker, which is given what it declares that it reads.
        settings: Those that it was made by.
        client: An open client, for the stored vectors.

    Raises:
        RerankError: It failed, or gave scores that `threshold_on: final` cannot read.
        StoreError: The stored vectors cannot be read.
    """
    declared, chunks, rows = settings.reranker, table.chunks, []
    assert isinstance(chunks, ChunkTable)
    if declared.needs_texts or declared.scale:
        chunks.read(table.codes.tolist())
    for candidates, query, vector in zip(table, queries, vectors, strict=True):
        codes, stored = candidates.codes, None
        if not len(codes):
            rows.append(candidates.alone())
            continue
        cosines = candidates.column("semantic") if candidates.distance == "cosine" else np.empty(0)
        if declared.needs_vectors:
            stored = vectors_of(client, settings, chunks.given(codes))
            if candidates.distance != "cosine":
                cosines = _unit(stored) @ _unit(np.asarray([vector]))[0]
        texts = [chunks[code].indexed_text for code in codes.tolist()] if declared.needs_texts else ()
        pool = Pool(query=query, cosines=np.clip(cosines, 0, 1), texts=texts, vectors=stored)
        rows.append(_moved(candidates, rerank(pool), settings, chunks))
    return joined(rows, chunks)


def _moved(candidates: Candidates, to: Reranking, settings: RetrieverConfig, chunks: ChunkTable) -> CandidateTable:
    order = np.asarray(to.order, dtype=np.intp)
    before = candidates.at(order).alone()
    given = {name: np.asarray(values, dtype=np.float64) for name, values in to.components.items()}
    columns = {
        **before.columns,
        "original_rank": (order + 1).astype(np.float64),
        "original_score": before.scores,
        **given,
    }
    scores, scale, places = before.scores, settings.reranker.scale, np.arange(len(order))
    scored = bool(scale and to.scores and None not in to.scores)
    if scored:
        scores = columns["rerank"] = np.asarray(to.scores, dtype=np.float64)
        places = in_order(np.zeros(len(order), dtype=np.int64), before.codes, scores, chunks)
    if scale and settings.threshold_on == "final":
        _check_scale(scores if scored else None, settings.rerank)
    return make_table(
        [len(order)],
        before.codes[places],
        scores[places],
        {name: column[places] for name, column in columns.items()},
        chunks,
        scales=(scale,) if scored else before.scales,
        distances=before.distances,
    )


def _check_scale(scores: Floats | None, name: str) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of the reranker `name`.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    outside = None if scores is None else next((score for score in scores.tolist() if not 0 <= score <= 1), None)
    if scores is None or outside is not None:
        gives = "no scores" if outside is None else f"a score of {outside:g}, not within 0 and 1"
        raise RerankError(f"the {name} gives {gives}, which threshold_on: final would read; use threshold_on: each")


def mmr(settings: RetrieverConfig, _: Mapping[str, str]) -> Rerank:
    """Make the reranker by maximal marginal relevance; candidates keep their scores and gain `diversity`."""

    def rerank(pool: Pool) -> Reranking:
        assert pool.vectors is not None
        order, diversity = mmr_order(pool.cosines, pool.vectors, settings.mmr_lambda)
        return Reranking(order=order, components={"diversity": diversity})

    return rerank


def mmr_order(relevance: Floats, vectors: NDArray[Any], lambda_: float) -> tuple[list[int], list[float]]:
    """Pick greedily the candidate with the highest λ · relevance − (1 − λ) · highest cosine to the picks so far.

    Ties go to the candidate that came first. The first n picks do not depend on how many are made, so a result for a
    smaller top_k is the beginning of that for a larger one. Source: Carbonell and Goldstein (1998).

    langchain-core's `maximal_marginal_relevance` picks the same, but compares all pairs anew at every pick, and does
    not tell how unlike the earlier ones a pick is.

    Args:
        relevance: Cosine of each candidate to the query, candidates in their order.
        vectors: One row for each candidate, shape (candidates, dimension); one of zeros is like no other.
        lambda_: λ, 1 for relevance alone, 0 for diversity alone.

    Returns:
        The picks, and of each how unlike the earlier ones it is: 1 − its highest cosine to them.
    """
    unit, left, order, diversity = _unit(vectors), np.ones(len(vectors), dtype=bool), [], []
    closest = np.full(len(vectors), -np.inf)
    for turn in range(len(vectors)):
        gain = lambda_ * relevance - (1 - lambda_) * (closest if turn else 0)
        pick = int(np.argmax(np.where(left, gain, -np.inf)))
        order.append(pick)
        diversity.append(max(0.0, 1.0 - float(closest[pick])) if turn else 1.0)
        left[pick] = False
        closest = np.maximum(closest, unit @ unit[pick])
    return order, diversity


def _unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float64)


def cross_encoder(settings: RetrieverConfig, env: Mapping[str, str]) -> Rerank:
    """Make the reranker that asks the cross-encoder of the settings.

    Raises:
        MissingKeyError: Cohere needs a key that `env` lacks.
        ConfigError: The package is not installed, or the user's class cannot be loaded.
    """
    config = settings.cross_encoder
    key = provider_key(config, env, "rerank by mmr, or not at all (--rerank none)")
    model, hosted = MAKERS[config.provider](config, key), config.declared.hosted is True
    compresses = isinstance(model, BaseDocumentCompressor)
    score = _by_compressor(model) if compresses else _by_scores(model, config.label)

    def rerank(pool: Pool) -> Reranking:
        ask = partial(_checked, score, config.label, pool, whole=hosted or not compresses)
        pairs = retry.attempt(ask, name="rerank", retried=hosted)
        return Reranking(order=[index for index, _ in pairs], scores=[score for _, score in pairs])

    return rerank


def _checked(score: CrossEncoder, name: str, pool: Pool, *, whole: bool) -> list[tuple[int, float | None]]:
    """Ask a cross-encoder; one that is asked for all texts (`whole`) must return them, a user's may leave some out."""
    count = len(pool.texts)
    try:
        pairs = score(pool.query, pool.texts)
    except Exception as error:  # every provider has its own tree; the type and status are kept in the message
        reason = cause(error, "cross_encoder")
        raise marked(RerankError(f"{name} failed to rerank {count} texts: {reason}"), error) from error
    indices = [index for index, _ in pairs]
    if whole and len(pairs) != count:
        raise RerankError(f"{name} returned {len(pairs)} scores for {count} texts")
    if len(set(indices)) != len(indices) or not all(0 <= index < count for index in indices):
        raise RerankError(f"{name} returned an order that is not one of the {count} texts it was given")
    if any(score is not None and not isfinite(score) for _, score in pairs):
        raise RerankError(f"{name} returned a score that is not a number")
    return pairs


def _by_compressor(compressor: BaseDocumentCompressor) -> CrossEncoder:
    """Rerank by a LangChain document compressor: by its order, and its `relevance_score` where it sets one."""

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        documents = [Document(page_content=text, metadata={PLACE: index}) for index, text in enumerate(texts)]
        said = [document.metadata for document in compressor.compress_documents(documents, query)]
        scores = [None if (score := each.get("relevance_score")) is None else float(score) for each in said]
        return [(int(each[PLACE]), score) for each, score in zip(said, scores, strict=True)]

    return order


def _by_scores(model: Any, name: str) -> CrossEncoder:
    """Rerank by a cross-encoder with `score(pairs)` (LangChain) or `predict(pairs)` (sentence-transformers)."""
    call = getattr(model, "score", None) or getattr(model, "predict", None)
    if call is None:
        expected = "a LangChain document compressor or an object with score(pairs)"
        raise ConfigError(f"cross_encoder {name}: expected {expected}, got {type(model).__name__}")

    def order(query: str, texts: Sequence[str]) -> list[tuple[int, float | None]]:
        scores = [float(score) for score in call([(query, text) for text in texts])]
        return [(index, scores[index]) for index in sorted(range(len(scores)), key=lambda index: -scores[index])]

    return order


def _of_cohere(config: CrossEncoderConfig, key: str | None) -> BaseDocumentCompressor:
    """Make a compressor that calls Cohere Rerank."""
    import cohere
    from langchain_cohere import CohereRerank

    client = cohere_client(cohere.ClientV2, key or "", config)
    setattr(client, "rerank", once(client.rerank, TIMEOUT_S))  # noqa: B010 - a method, to the type checker
    return CohereRerank(client=client, model=config.resolved_model, top_n=None, cohere_api_key=key)


def _from_python(config: CrossEncoderConfig, _: str | None) -> Any:
    """Make what the user's own factory makes."""
    return build(config.resolved_model, "cross_encoder.model")


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
        raise ConfigError(f"cross_encoder.provider sentence-transformers needs an extra: {extra}") from error
    except Exception as error:  # a hub that cannot be reached, a name it does not know, weights that do not fit
        raise ConfigError(f"cross_encoder.model {config.resolved_model!r} cannot be loaded: {cause(error)}") from error


MAKERS: Mapping[str, Callable[[CrossEncoderConfig, str | None], Any]] = {
    "cohere": _of_cohere,
    "sentence-transformers": _of_sentence_transformers,
    "python": _from_python,
}
