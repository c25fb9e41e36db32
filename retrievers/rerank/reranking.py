"""The protocol of rerankers, a pool of candidates to the order that one gives it, and maximal marginal relevance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig


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
    cosines: Sequence[float]
    texts: Sequence[str] = ()
    vectors: NDArray[np.float64] | None = None


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


# Reorder a non-empty pool. Raises RerankError on failure.
Rerank = Callable[[Pool], Reranking]


def make_reranker(settings: RetrieverConfig, env: Mapping[str, str]) -> Rerank | None:
    """Make the reranker that the settings name; None where nothing is reranked after the search.

    Raises:
        MissingKeyError: Its provider needs a key that `env` lacks.
        ConfigError: A package is not installed, or the user's class cannot be loaded.
    """
    make = settings.reranker.make
    return make(settings, env) if make else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """One pick: which candidate, and how unlike the earlier picks it is: 1 − its highest cosine to them."""

    index: int
    diversity: float


def make(settings: RetrieverConfig, _: Mapping[str, str]) -> Rerank:
    """Make the reranker with the λ of the settings."""
    return partial(diversify, lambda_=settings.mmr_lambda)


def diversify(pool: Pool, lambda_: float) -> Reranking:
    """Rerank by maximal marginal relevance; candidates keep their scores and gain `diversity`.

    Raises:
        ValueError: The pool has no vectors.
    """
    if pool.vectors is None:
        raise ValueError("maximal marginal relevance reads vectors, and the pool has none")
    picks = mmr_order(pool.cosines, pool.vectors, lambda_)
    return Reranking(order=[p.index for p in picks], components={"diversity": [p.diversity for p in picks]})


def mmr_order(relevance: Sequence[float], vectors: NDArray[np.float64], lambda_: float) -> list[Pick]:
    """Pick greedily the candidate with the highest λ · relevance − (1 − λ) · highest cosine to the picks so far.

    Ties go to the candidate that came first. The first n picks do not depend on how many are made, so a result for a
    smaller top_k is the beginning of that for a larger one. Source: Carbonell and Goldstein (1998).

    Args:
        relevance: Cosine of each candidate to the query, candidates in their order.
        vectors: One row for each candidate, shape (candidates, dimension); one of zeros is like no other.
        lambda_: λ, 1 for relevance alone, 0 for diversity alone.
    """
    count = len(relevance)
    if count == 0:
        return []
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    scores = np.asarray(relevance, dtype=float)
    closest = np.zeros(count)
    left = np.ones(count, dtype=bool)
    picks: list[Pick] = []
    for turn in range(count):
        gain = np.where(left, lambda_ * scores - (1 - lambda_) * closest, -np.inf)
        index = int(np.argmax(gain))
        picks.append(Pick(index=index, diversity=max(0.0, 1.0 - float(closest[index])) if turn else 1.0))
        left[index] = False
        likeness = unit @ unit[index]
        closest = np.maximum(closest, likeness) if turn else likeness
    return picks
