"""Fused scores to results: put into the total order and reranked, with the chunks that are shown."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.errors import RerankError
from retrievers.records import RetrievedChunk, ScoreScale, oriented
from retrievers.rerank.reranking import Reranking
from retrievers.search.candidate_table import hit_of
from retrievers.search.ranking import Floats, PointScores, in_order, tied
from retrievers.search.selection import BELOW_SHOWN, cut, read_by_threshold
from retrievers.store.chunk_table import ChunkTable

Shown = Callable[[PointScores], Iterable[int]]
"""Candidates in their order to the places of those whose chunks are shown."""


def every_place(candidates: PointScores) -> range:
    """Return the places of all candidates."""
    return range(len(candidates.codes))


def shown(candidates: PointScores, config: RetrieverConfig) -> list[int]:
    """Return the places that an answer shows: of what it returns, and of the best below the threshold."""
    scores = candidates.scores if config.threshold_on == "final" else candidates.components["semantic"]
    kept, below = cut(read_by_threshold(scores, config.threshold_on).tolist(), config.top_k, config.least)
    return [*kept, *below[:BELOW_SHOWN]]


def ordered(candidates: Sequence[PointScores], chunks: ChunkTable, shown: Shown | None = None) -> list[PointScores]:
    """Put the candidates of each query into the total order (score descending, then chunk id ascending).

    Chunks are read in one request: those of candidates that tie, and those that are shown. The total order only moves
    candidates of equal score among themselves, so what is shown by it has then been read.

    Args:
        candidates: The candidates of each query.
        chunks: Their chunks.
        shown: Says which candidates are shown; None for no candidate.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    # Equal scores in any order: those all tie, and are read.
    by_score = [
        scores.at(in_order(scores.codes, scores.scores, scores.depth, None, chunks.name)) for scores in candidates
    ]
    further = chosen_codes(by_score, shown) if shown else []
    places = [tied(scores.scores, scores.depth, every_place=True) for scores in candidates]
    pairs = list(zip(candidates, places, strict=True))
    chunks.read([*(code for scores, at in pairs for code in scores.codes[at].tolist()), *further])
    return [scores.at(in_order(scores.codes, scores.scores, scores.depth, at, chunks.name)) for scores, at in pairs]


def chosen_codes(candidates: Sequence[PointScores], shown: Shown) -> list[int]:
    """Return the chunks of each query's candidates that are shown, by number."""
    return [code for scores in candidates for code in scores.codes[[*shown(scores)]].tolist()]


def reordered(
    candidates: PointScores, reranking: Reranking, scale: ScoreScale | None, chunks: ChunkTable
) -> PointScores:
    """Put candidates into a reranker's order; each keeps its rank and score from before.

    Args:
        candidates: The candidates, in the order that was reranked.
        reranking: Their new order.
        scale: The scale of its scores; None where candidates keep the scores of the search.
        chunks: Their chunks, which have been read where the reranker gives scores.
    """
    order = np.asarray(reranking.order, dtype=np.intp)
    moved = candidates.at(order)
    components: dict[str, Floats] = {
        **moved.components,
        "original_rank": order.astype(np.float64) + 1,
        "original_score": oriented(moved.scores, moved.scale),
        **{name: np.asarray(values, dtype=np.float64) for name, values in reranking.components.items()},
    }
    if scale is None or not reranking.scores or None in reranking.scores:
        return replace(moved, components=components)
    scores = np.asarray(reranking.scores, dtype=np.float64)
    whole = replace(moved, scale=scale, scores=scores, components={**components, "rerank": scores})
    every = np.arange(len(order))
    return whole.at(in_order(whole.codes, scores, len(order), every, chunks.name))


def check_scale(candidates: PointScores, name: str) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of the reranker `name`.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    if "rerank" not in candidates.components:
        raise RerankError(f"the {name} gives no scores, which threshold_on: final would read")
    outside = [score for score in candidates.scores.tolist() if not 0 <= score <= 1]
    if outside:
        raise RerankError(
            f"the {name}'s scores are not within 0 and 1 (one is {outside[0]:g}), so threshold_on: final has no "
            "meaning; use threshold_on: semantic, or a model that returns probabilities"
        )


def hits(candidates: PointScores, chunks: ChunkTable) -> tuple[RetrievedChunk, ...]:
    """Return candidates in their order as objects, ranked from 1. Their chunks have been read."""
    now = datetime.now(UTC)
    return tuple(
        hit_of(
            candidates.scores,
            candidates.components,
            place,
            candidates.scale,
            candidates.distance,
            chunks[code],
            place + 1,
            now,
        )
        for place, code in enumerate(candidates.codes.tolist())
    )
