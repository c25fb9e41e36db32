"""Fused scores to results: put into the total order and reranked, with the chunks that are shown."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.errors import RerankError
from retrievers.records import ScoreScale
from retrievers.rerank.reranking import Reranking
from retrievers.search.candidate_table import Candidates, CandidateTable
from retrievers.search.ranking import Floats, in_order, tied
from retrievers.search.selection import BELOW_SHOWN, cut, read_by_threshold
from retrievers.search.table_builder import one_query
from retrievers.store.chunk_table import ChunkTable

Shown = Callable[[Candidates], Iterable[int]]
"""Candidates in their order to the places of those whose chunks are shown."""


def every_place(candidates: Candidates) -> range:
    """Return the places of all candidates."""
    return range(len(candidates))


def shown(candidates: Candidates, config: RetrieverConfig) -> list[int]:
    """Return the places that an answer shows: of what it returns, and of the best below the threshold."""
    scores = candidates.column("score" if config.threshold_on == "final" else "semantic")
    kept, below = cut(read_by_threshold(scores, config.threshold_on).tolist(), config.top_k, config.least)
    return [*kept, *below[:BELOW_SHOWN]]


def ordered(table: CandidateTable, depth: int, chunks: ChunkTable, shown: Shown | None = None) -> list[Candidates]:
    """Return the best candidates of each query in the total order (score descending, then chunk id ascending).

    Chunks are read in one request: those of candidates that tie, and those that are shown. The total order only moves
    candidates of equal score among themselves, so what is shown by it has then been read.

    Args:
        table: The candidates of each query, in any order.
        depth: Largest number of candidates of a query.
        chunks: Their chunks.
        shown: Says which candidates are shown; None for no candidate.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    rows = [(row, row.codes, row.scores) for row in table]
    # Equal scores in any order: those all tie, and are read.
    by_score = [row.at(in_order(codes, scores, depth, None, chunks.name)) for row, codes, scores in rows]
    further = chosen_codes(by_score, shown) if shown else []
    places = [tied(scores, depth, every_place=True) for _, _, scores in rows]
    undecided = [code for (_, codes, _), at in zip(rows, places, strict=True) for code in codes[at].tolist()]
    chunks.read([*undecided, *further])
    return [
        row.at(in_order(codes, scores, depth, at, chunks.name))
        for (row, codes, scores), at in zip(rows, places, strict=True)
    ]


def chosen_codes(candidates: Sequence[Candidates], shown: Shown) -> list[int]:
    """Return the chunks of each query's candidates that are shown, by number."""
    return [code for each in candidates for code in each.at([*shown(each)]).codes.tolist()]


def reordered(candidates: Candidates, reranking: Reranking, scale: ScoreScale | None, chunks: ChunkTable) -> Candidates:
    """Put candidates into a reranker's order; each keeps its rank and score from before.

    Args:
        candidates: The candidates, in the order that was reranked.
        reranking: Their new order.
        scale: The scale of its scores; None where candidates keep the scores of the search.
        chunks: Their chunks, which have been read where the reranker gives scores.
    """
    order = np.asarray(reranking.order, dtype=np.intp)
    moved = candidates.at(order)
    codes, scores = moved.codes, moved.scores
    columns: dict[str, Floats] = {
        **moved.columns,
        "original_rank": order.astype(np.float64) + 1,
        "original_score": scores,
        **{name: np.asarray(values, dtype=np.float64) for name, values in reranking.components.items()},
    }
    if scale is None or not reranking.scores or None in reranking.scores:
        return one_query(codes, scores, columns, chunks, scale=moved.scale, distance=moved.distance)[0]
    scores = np.asarray(reranking.scores, dtype=np.float64)
    table = one_query(codes, scores, {**columns, "rerank": scores}, chunks, scale=scale, distance=moved.distance)
    every = np.arange(len(order))
    return table[0].at(in_order(codes, scores, len(order), every, chunks.name))


def check_scale(candidates: Candidates, name: str) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of the reranker `name`.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    if "rerank" not in candidates.table.columns:
        raise RerankError(f"the {name} gives no scores, which threshold_on: final would read")
    outside = [score for score in candidates.scores.tolist() if not 0 <= score <= 1]
    if outside:
        raise RerankError(
            f"the {name}'s scores are not within 0 and 1 (one is {outside[0]:g}), so threshold_on: final has no "
            "meaning; use threshold_on: semantic, or a model that returns probabilities"
        )
