"""The metrics of `evals.metrics.incomplete_labels` over every beginning of every list at once. Pure.

Shapes are as in `evals.metrics.prefixes`, and values are equal to the last bit. NaN where no query has a chunk that is
judged not relevant.
"""

import numpy as np

from evals.metrics.arrays import Floats, RelevanceArrays
from evals.metrics.prefixes import added, at_least_one, counted, cut, discounts


def judged(arrays: RelevanceArrays, k: int) -> Floats:
    """As `incomplete_labels.judged`; beyond the end of a list it is that of the list."""
    longest = arrays.gains.shape[1]
    counts = cut(counted(arrays.judged), k)
    lengths = cut(np.arange(longest + 1, dtype=np.int64)[None, :], k)
    shares = np.divide(counts, np.maximum(1, lengths))
    shares[:, 0] = 1.0
    return _where_judged(arrays, shares)


def condensed_ndcg(arrays: RelevanceArrays, k: int) -> Floats:
    """As `incomplete_labels.condensed_ndcg`."""
    known = arrays.judged > 0
    rank = np.cumsum(known, axis=1)
    discount = np.concatenate([[1.0], discounts(arrays.gains.shape[1])])[rank]
    gained = added(np.where(known & (rank <= k), np.divide(arrays.gains, discount), 0.0))
    best = added(np.divide(arrays.ideal[:, :k], discounts(min(k, arrays.ideal.shape[1]))))[:, -1]
    return _where_judged(arrays, np.divide(gained, np.where(best > 0, best, 1.0)[:, None]))


def bpref(arrays: RelevanceArrays) -> Floats:
    """As `incomplete_labels.bpref`."""
    assert arrays.irrelevant is not None
    relevant = arrays.gains > 0
    refused = (arrays.judged > 0) & ~relevant
    before = counted(refused)[:, :-1]
    most = at_least_one(np.minimum(arrays.irrelevant, arrays.relevant))
    lost = np.where(before > 0, np.divide(np.minimum(before, arrays.relevant[:, None]), most), 0.0)
    terms = np.where(relevant, np.subtract(1, lost), 0.0)
    return _where_judged(arrays, np.divide(added(terms), at_least_one(arrays.relevant)))


def _where_judged(arrays: RelevanceArrays, values: Floats) -> Floats:
    assert arrays.irrelevant is not None
    return values if arrays.irrelevant.any() else np.full_like(values, np.nan)
