"""Ranked lists to one: weighted sum, reciprocal rank, distribution-based. Pure functions of aligned columns.

Every column has one entry a candidate of the union of all sides, NaN where a side has no score for it. A side that did
not find a candidate: under `weighted` its score is computed beforehand, so it is there; a rank that does not exist adds
no term; `dbsf` adds 0.
"""

from collections.abc import Sequence
from math import fsum, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def weighted(semantic: Floats, keyword: Floats, semantic_weight: float, keyword_weight: float) -> Floats:
    """Return w_s · cosine + w_k · BM25 / best BM25, 0 to 1 when the weights sum to 1.

    Args:
        semantic: Cosine of every candidate, 0 to 1; NaN counts as 0.
        keyword: BM25 of every candidate that holds a query term, NaN for the others; the best of them is the unit.
        semantic_weight: w_s.
        keyword_weight: w_k.
    """
    terms = np.nan_to_num(keyword, nan=0.0)
    best = float(terms.max(initial=0.0)) or 1.0
    return semantic_weight * np.nan_to_num(semantic, nan=0.0) + keyword_weight * terms / best


def reciprocal_rank(ranks: Sequence[Floats], weights: Sequence[float], constant: float) -> Floats:
    """Return Σ w / (c + rank) (Cormack, Clarke and Büttcher, 2009; c = 60 there).

    Args:
        ranks: The rank of every candidate on each side, from 1, NaN where the side did not find it.
        weights: One for each side.
        constant: c.
    """
    fused = np.zeros(len(ranks[0]))
    for column, weight in zip(ranks, weights, strict=True):
        fused += np.nan_to_num(weight / (constant + column), nan=0.0)
    return fused


def distribution_based(sides: Sequence[Floats]) -> Floats:
    """Sum over the sides each score's place between mean − 3σ (0) and mean + 3σ (1), as Qdrant computes it.

    σ is the sample standard deviation of the side's candidates. A side of one candidate, or of equal scores, gives 0.5.

    Args:
        sides: The score of every candidate on each side, NaN where the side did not find it.
    """
    fused = np.zeros(len(sides[0]))
    for scores in sides:
        fused += np.nan_to_num(_placed(scores), nan=0.0)
    return fused


def _placed(scores: Floats) -> Floats:
    values = scores[~np.isnan(scores)].tolist()
    if not values:
        return scores
    mean = fsum(values) / len(values)
    equal = min(values) == max(values)  # when they are, their mean may still be off by a rounding
    deviation = 0.0 if equal else sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    if deviation == 0:
        return np.where(np.isnan(scores), np.nan, 0.5)
    return (scores - (mean - 3 * deviation)) / (6 * deviation)
