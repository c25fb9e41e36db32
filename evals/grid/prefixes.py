"""Metrics over every beginning of every list at once: one matrix operation in place of a call for each selection. Pure.

Each function gives an array of shape (lists, longest + 1) whose column n is the metric of the first n chunks. Values
equal those of `evals.metrics` to the last bit: the same operations in the same order. Queries without anything
relevant are given zeros that nobody reads.
"""

from collections.abc import Callable, Mapping
from math import log2
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.grid.relevance_arrays import Judged
from evals.grid.selections import Floats, Integers
from evals.metrics.ranking import DEPTHS

Prefixes = Callable[[Judged], Floats]
Number = TypeVar("Number", np.int64, np.float64)


def hits(judged: Judged) -> Integers:
    """How many of the first n are relevant."""
    return _counted(judged.gains > 0)


def precision(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.precision`."""
    return np.divide(_cut(hits(judged), k), k)


def hit_rate(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.hit_rate`."""
    return (_cut(hits(judged), k) > 0).astype(np.float64)


def recall(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.recall`."""
    return np.divide(_cut(hits(judged), k), _at_least_one(judged.relevant))


def reciprocal_rank(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.reciprocal_rank`."""
    found = judged.gains > 0
    place = np.argmax(found, axis=1) + 1 if found.shape[1] else np.ones(len(found), dtype=np.int64)
    return np.where(_cut(hits(judged), k) > 0, np.divide(1, place)[:, None], 0.0)


def average_precision(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.average_precision`."""
    found = judged.gains > 0
    places = np.arange(1, found.shape[1] + 1)
    terms = np.where(found, np.divide(np.cumsum(found, axis=1), places), 0.0)
    return np.divide(_cut(_added(terms), k), _at_least_one(judged.relevant))


def ndcg(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.ndcg`."""
    gained = _added(np.divide(judged.gains, _discounts(judged.gains.shape[1])))
    best = _added(np.divide(judged.ideal[:, :k], _discounts(min(k, judged.ideal.shape[1]))))[:, -1]
    return np.divide(_cut(gained, k), np.where(best > 0, best, 1.0)[:, None])


def three_most_expected_in_five(judged: Judged) -> Floats:
    """As `evals.metrics.ranking.three_most_expected_in_five`; NaN for queries with fewer than three relevant."""
    third = judged.ideal[:, 2][:, None]
    above = _cut(_counted(judged.gains > third), 5) == (judged.ideal > third).sum(axis=1)[:, None]
    level = _cut(_counted((judged.gains >= third) & (judged.gains > 0)), 5) >= 3
    return np.where(judged.relevant[:, None] < 3, np.nan, (above & level).astype(np.float64))


def evidence_recall(judged: Judged, k: int) -> Floats:
    """As `evals.metrics.ranking.evidence_recall`."""
    assert judged.items_found is not None and judged.item_count is not None
    return np.divide(_cut(judged.items_found, k), _at_least_one(judged.item_count))


def id_precision(judged: Judged) -> Floats:
    """As ragas' `IDBasedContextPrecision`, 0 for nothing."""
    return np.divide(hits(judged), np.maximum(1, np.arange(judged.gains.shape[1] + 1)))


def id_recall(judged: Judged) -> Floats:
    """As ragas' `IDBasedContextRecall`."""
    return np.divide(hits(judged), _at_least_one(judged.relevant))


def returned(judged: Judged) -> Floats:
    """1 where anything was returned, else 0."""
    row = (np.arange(judged.gains.shape[1] + 1) > 0).astype(np.float64)
    return np.repeat(row[None, :], len(judged.gains), axis=0)


def nothing_returned(judged: Judged) -> Floats:
    """1 where nothing was returned, else 0."""
    return np.subtract(1, returned(judged))


def context_tokens(judged: Judged) -> Floats:
    """As `evals.metrics.cost.context_tokens`."""
    assert judged.tokens is not None
    return _counted(judged.tokens).astype(np.float64)


def _counted(values: NDArray[np.bool_] | Integers) -> Integers:
    """Sums of the first n, n from 0."""
    summed = np.zeros((values.shape[0], values.shape[1] + 1), dtype=np.int64)
    np.cumsum(values, axis=1, dtype=np.int64, out=summed[:, 1:])
    return summed


def _added(values: Floats) -> Floats:
    """Sums of the first n, n from 0, term after term as a loop adds."""
    summed = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=summed[:, 1:])
    return summed


def _cut(values: NDArray[Number], k: int) -> NDArray[Number]:
    """What lies beyond place k is as at place k."""
    if values.shape[1] <= k + 1:
        return values
    return np.take(values, np.minimum(np.arange(values.shape[1]), k), axis=1)


def _discounts(longest: int) -> Floats:
    return np.asarray([log2(place + 1) for place in range(1, longest + 1)])  # math's log2, as in evals.metrics


def _at_least_one(counts: Integers) -> Integers:
    return np.maximum(1, counts)[:, None]


def _at(measure: Callable[[Judged, int], Floats], k: int) -> Prefixes:
    return lambda judged: measure(judged, k)


_AT_DEPTHS: Mapping[str, Callable[[Judged, int], Floats]] = {
    "hit_rate": hit_rate,
    "precision": precision,
    "recall": recall,
    "mrr": reciprocal_rank,
    "map": average_precision,
    "ndcg": ndcg,
    "evidence_recall": evidence_recall,
}
PREFIXES: Mapping[str, Prefixes] = {
    **{f"ranking/{name}_at_{k}": _at(measure, k) for name, measure in _AT_DEPTHS.items() for k in DEPTHS},
    "ranking/expected_top3_in_5": three_most_expected_in_five,
    "ragas/id_context_precision": id_precision,
    "ragas/id_context_recall": id_recall,
    "scope/abstention": nothing_returned,
    "scope/false_abstention": nothing_returned,
    "scope/false_answer": returned,
    "cost/context_tokens": context_tokens,
}
"""Metric to its computation over all beginnings; the others are computed selection by selection."""
ON_ITEMS = frozenset(f"ranking/evidence_recall_at_{k}" for k in DEPTHS)
ON_TOKENS = frozenset({"cost/context_tokens"})
