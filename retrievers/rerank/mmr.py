"""Maximal marginal relevance: an order that trades likeness to the query against likeness to what was picked. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retrievers.records import RetrievedChunk


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """One pick: which candidate, and how unlike the earlier picks it is: 1 − its highest cosine to them."""

    index: int
    diversity: float


def diversify(
    candidates: Sequence[RetrievedChunk], vectors: NDArray[np.float64], lambda_: float
) -> tuple[RetrievedChunk, ...]:
    """Candidates in the order of maximal marginal relevance; they keep their scores and gain `diversity`."""
    picks = mmr_order([found.scores["semantic"] for found in candidates], vectors, lambda_)
    return tuple(with_pick(candidates[pick.index], place, pick) for place, pick in enumerate(picks, 1))


def with_pick(found: RetrievedChunk, rank: int, pick: Pick) -> RetrievedChunk:
    """A candidate at the rank that a pick gave it; the index of the pick is its place before."""
    return replace(
        found,
        rank=rank,
        original_rank=pick.index + 1,
        original_score=found.score,
        scores={**found.scores, "diversity": pick.diversity},
    )


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
