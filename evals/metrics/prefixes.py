"""Metrics over every beginning of every list at once: one matrix operation in place of a call for each selection. Pure.

Each function gives an array of shape (lists, longest + 1) whose column n is the metric of the first n chunks. Values
equal those of `evals.metrics` to the last bit: the same operations in the same order. Queries without anything
relevant are given zeros that are never read.
"""

from collections.abc import Callable
from math import log2
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.metrics.arrays import Floats, Integers, Prefixes, RelevanceArrays

Number = TypeVar("Number", np.int32, np.int64, np.float64)


def hits(arrays: RelevanceArrays) -> Integers:
    """Count the relevant among the first n."""
    return counted(arrays.gains > 0)


def precision(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.precision`."""
    return np.divide(cut(hits(arrays), k), k)


def hit_rate(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.hit_rate`."""
    return (cut(hits(arrays), k) > 0).astype(np.float64)


def recall(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.recall`."""
    return np.divide(cut(hits(arrays), k), at_least_one(arrays.relevant))


def reciprocal_rank(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.reciprocal_rank`."""
    relevant = arrays.gains > 0
    rank = np.argmax(relevant, axis=1) + 1 if relevant.shape[1] else np.ones(len(relevant), dtype=np.int64)
    return np.where(cut(hits(arrays), k) > 0, np.divide(1, rank)[:, None], 0.0)


def average_precision(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.average_precision`."""
    relevant = arrays.gains > 0
    places = np.arange(1, relevant.shape[1] + 1)
    terms = np.where(relevant, np.divide(np.cumsum(relevant, axis=1), places), 0.0)
    return np.divide(cut(added(terms), k), at_least_one(arrays.relevant))


def ndcg(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.ndcg`."""
    gained = added(np.divide(arrays.gains, discounts(arrays.gains.shape[1])))
    best = added(np.divide(arrays.ideal[:, :k], discounts(min(k, arrays.ideal.shape[1]))))[:, -1]
    return np.divide(cut(gained, k), np.where(best > 0, best, 1.0)[:, None])


def three_most_expected_in_five(arrays: RelevanceArrays) -> Floats:
    """As `evals.metrics.ranking.three_most_expected_in_five`; NaN for queries with fewer than three relevant."""
    third = arrays.ideal[:, 2][:, None]
    above = cut(counted(arrays.gains > third), 5) == (arrays.ideal > third).sum(axis=1)[:, None]
    level = cut(counted((arrays.gains >= third) & (arrays.gains > 0)), 5) >= 3
    return np.where(arrays.relevant[:, None] < 3, np.nan, (above & level).astype(np.float64))


def evidence_recall(arrays: RelevanceArrays, k: int) -> Floats:
    """As `evals.metrics.ranking.evidence_recall`."""
    assert arrays.item_count is not None
    return np.divide(cut(arrays.items_found, k), at_least_one(arrays.item_count))


def id_precision(arrays: RelevanceArrays) -> Floats:
    """As ragas' `IDBasedContextPrecision`, 0 for nothing."""
    return np.divide(hits(arrays), np.maximum(1, np.arange(arrays.gains.shape[1] + 1)))


def id_recall(arrays: RelevanceArrays) -> Floats:
    """As ragas' `IDBasedContextRecall`."""
    return np.divide(hits(arrays), at_least_one(arrays.relevant))


def returned(arrays: RelevanceArrays) -> Floats:
    """1 where anything was returned, else 0."""
    row = (np.arange(arrays.gains.shape[1] + 1) > 0).astype(np.float64)
    return np.repeat(row[None, :], len(arrays.gains), axis=0)


def nothing_returned(arrays: RelevanceArrays) -> Floats:
    """1 where nothing was returned, else 0."""
    return np.subtract(1, returned(arrays))


def enough_results(arrays: RelevanceArrays) -> Floats:
    """As `evals.metrics.scope.enough_results`."""
    assert arrays.fewest is not None
    return (np.arange(arrays.gains.shape[1] + 1) >= arrays.fewest[:, None]).astype(np.float64)


def relevant_above(arrays: RelevanceArrays, cosine: float) -> Floats:
    """1 where one of the first n is relevant and has a higher cosine, else 0; NaN where the retriever gives none."""
    above = counted((arrays.gains > 0) & (arrays.cosines > cosine)) > 0
    unknown = np.isnan(arrays.cosines).any(axis=1)
    return np.where(np.reshape(unknown, (-1, 1)), np.nan, above.astype(np.float64))


def context_tokens(arrays: RelevanceArrays) -> Floats:
    """As `evals.metrics.cost.context_tokens`."""
    return counted(arrays.tokens).astype(np.float64)


def counted(values: NDArray[np.bool_] | NDArray[np.int32]) -> Integers:
    """Return sums of the first n, n from 0."""
    summed = np.zeros((values.shape[0], values.shape[1] + 1), dtype=np.int64)
    np.cumsum(values, axis=1, dtype=np.int64, out=summed[:, 1:])
    return summed


def added(values: Floats) -> Floats:
    """Return sums of the first n, n from 0, term after term as a loop adds."""
    summed = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=summed[:, 1:])
    return summed


def cut(values: NDArray[Number], k: int) -> NDArray[Number]:
    """Return values in which all places beyond k are as at place k."""
    if values.shape[1] <= k + 1:
        return values
    return np.take(values, np.minimum(np.arange(values.shape[1]), k), axis=1)


def discounts(longest: int) -> Floats:
    """Return log2(place + 1) of each place."""
    return np.asarray([log2(rank + 1) for rank in range(1, longest + 1)])  # math's log2, as in evals.metrics


def at_least_one(counts: Integers) -> Integers:
    """Return counts as a column to divide by, 0 as 1."""
    return np.maximum(1, counts)[:, None]


def at(measure: Callable[[RelevanceArrays, int], Floats], k: int) -> Prefixes:
    """Return a measure at a depth."""
    return lambda arrays: measure(arrays, k)
