"""The protocol of rerankers: a pool of candidates to the order that one gives it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
