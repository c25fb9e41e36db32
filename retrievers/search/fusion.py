"""Two ranked lists to one: weighted sum, reciprocal rank, distribution-based. Pure functions of scores by id.

Each takes the two sides as id to score and gives id to fused score over their union. What a side did not find:
`weighted` has its score computed beforehand, so it is there; a rank that does not exist adds no term; `dbsf` adds 0.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

Scores = Mapping[str, float]


def weighted(semantic: Scores, keyword: Scores, semantic_weight: float, keyword_weight: float) -> dict[str, float]:
    """w_s · cosine + w_k · BM25 / best BM25, 0 to 1 when the weights sum to 1.

    Args:
        semantic: Cosine of every candidate, 0 to 1.
        keyword: BM25 of every candidate that holds a query term; the best of them is the unit.
        semantic_weight: w_s.
        keyword_weight: w_k.
    """
    best = max(keyword.values(), default=0.0) or 1.0
    ids = semantic.keys() | keyword.keys()
    return {i: semantic_weight * semantic.get(i, 0.0) + keyword_weight * keyword.get(i, 0.0) / best for i in ids}


def reciprocal_rank(lists: Sequence[Sequence[str]], weights: Sequence[float], constant: float) -> dict[str, float]:
    """Σ w / (c + rank), ranks from 1 (Cormack, Clarke and Büttcher, 2009; c = 60 there).

    Args:
        lists: Chunk ids of each side in rank order.
        weights: One for each list.
        constant: c.
    """
    fused: dict[str, float] = {}
    for ids, weight in zip(lists, weights, strict=True):
        for rank, chunk_id in enumerate(ids, 1):
            fused[chunk_id] = fused.get(chunk_id, 0.0) + weight / (constant + rank)
    return fused


def distribution_based(sides: Sequence[Scores]) -> dict[str, float]:
    """Sum over the sides of each score's place between mean − 3σ (0) and mean + 3σ (1), as Qdrant computes it.

    σ is the sample standard deviation of the side's candidates. A side of one candidate, or of equal scores, gives 0.5.
    """
    fused: dict[str, float] = {}
    for side in sides:
        for chunk_id, score in _placed(side).items():
            fused[chunk_id] = fused.get(chunk_id, 0.0) + score
    return fused


def _placed(side: Scores) -> dict[str, float]:
    values = list(side.values())
    if not values:
        return {}
    mean = sum(values) / len(values)
    equal = min(values) == max(values)  # when they are, their mean may still be off by a rounding
    deviation = 0.0 if equal else sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    if deviation == 0:
        return dict.fromkeys(side, 0.5)
    low = mean - 3 * deviation
    return {chunk_id: (v - low) / (6 * deviation) for chunk_id, v in side.items()}
