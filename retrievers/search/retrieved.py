"""Fused scores to results: put into the total order, reranked, with the chunks that are wanted of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from retrievers.errors import RerankError
from retrievers.records import RetrievedChunk, ScoreScale, oriented
from retrievers.rerank.reranking import Reranking
from retrievers.search.candidate_table import hit_of
from retrievers.search.ranking import Floats, Places, PointScores, in_order, tied
from retrievers.search.selection import Decisive, Selection, read_by_threshold
from retrievers.store.chunk_table import ChunkTable

Choose = Callable[[Sequence[float]], Selection[int]]
"""The scores that the threshold reads, in the order of the candidates, to the places of those that are kept."""


def ordered(found: Sequence[PointScores], chunks: ChunkTable, *, whole: bool = False) -> list[PointScores]:
    """Put the candidates of each query into the total order (score descending, then chunk id ascending).

    Args:
        found: The candidates of each query.
        chunks: Their chunks; those of candidates that tie are read.
        whole: Read the chunks of all that are among the best `depth`, in the same request.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    best = [code for scores in found for code in scores.codes[_score_order(scores, chunks)].tolist()] if whole else ()
    return _in_total_order(found, chunks, best)


def selections(
    found: Sequence[PointScores], chunks: ChunkTable, choose: Choose, on: Decisive
) -> list[tuple[Selection[RetrievedChunk], int]]:
    """Choose from each query's candidates, as `select` would of all of them; with the number of candidates.

    Chunks are read in one request: those that are chosen by scores alone, and all that tie. The total order only moves
    candidates of equal score among themselves, so whatever is chosen by it has then been read.

    Args:
        found: The candidates of each query.
        chunks: Their chunks.
        choose: The threshold and the cut.
        on: The score that the threshold reads.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    by_score = [scores.at(_score_order(scores, chunks)) for scores in found]
    further = [code for scores in by_score for code in _chosen_codes(scores, _cut(scores, choose, on))]
    return chosen(_in_total_order(found, chunks, further), chunks, choose, on)


def chosen(
    found: Sequence[PointScores], chunks: ChunkTable, choose: Choose, on: Decisive
) -> list[tuple[Selection[RetrievedChunk], int]]:
    """Choose from candidates in the order that they have; only the chunks that are shown are read.

    Args:
        found: The candidates of each query, in the total order or reranked.
        chunks: Their chunks.
        choose: The threshold and the cut.
        on: The score that the threshold reads.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    cuts = [_cut(scores, choose, on) for scores in found]
    pairs = list(zip(found, cuts, strict=True))
    chunks.read(code for scores, cut in pairs for code in _chosen_codes(scores, cut))
    now = datetime.now(UTC)
    return [(_selection(scores, cut, on, chunks, now), len(scores.codes)) for scores, cut in pairs]


def reordered(found: PointScores, reranking: Reranking, scale: ScoreScale | None, chunks: ChunkTable) -> PointScores:
    """Put candidates into a reranker's order; each keeps its rank and score from before.

    Args:
        found: The candidates, in the order that was reranked.
        reranking: Their new order.
        scale: The scale of its scores; None where candidates keep the scores of the search.
        chunks: Their chunks, which have been read where the reranker gives scores.
    """
    order = np.asarray(reranking.order, dtype=np.intp)
    moved = found.at(order)
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


def check_scale(found: PointScores, name: str) -> None:
    """Make sure that a threshold between 0 and 1 can be held against the scores of the reranker `name`.

    Raises:
        RerankError: It gives none, or some outside of 0 to 1, as a model does that returns logits.
    """
    if "rerank" not in found.components:
        raise RerankError(f"the {name} gives no scores, which threshold_on: final would read")
    outside = [score for score in found.scores.tolist() if not 0 <= score <= 1]
    if outside:
        raise RerankError(
            f"the {name}'s scores are not within 0 and 1 (one is {outside[0]:g}), so threshold_on: final has no "
            "meaning; use threshold_on: semantic, or a model that returns probabilities"
        )


def _in_total_order(found: Sequence[PointScores], chunks: ChunkTable, further: Iterable[int] = ()) -> list[PointScores]:
    """Order candidates; the chunks of those that tie are read, and `further` ones in the same request."""
    places = [tied(scores.scores, scores.depth, every_place=True) for scores in found]
    pairs = list(zip(found, places, strict=True))
    chunks.read([*(code for scores, at in pairs for code in scores.codes[at].tolist()), *further])
    return [scores.at(in_order(scores.codes, scores.scores, scores.depth, at, chunks.name)) for scores, at in pairs]


def _score_order(found: PointScores, chunks: ChunkTable) -> Places:
    """Return the best candidates, equal ones in any order; the total order only moves those, and all tied are read."""
    return in_order(found.codes, found.scores, found.depth, None, chunks.name)


def _cut(found: PointScores, choose: Choose, on: Decisive) -> Selection[int]:
    scores = found.scores if on == "final" else found.components["semantic"]
    return choose(read_by_threshold(scores, on).tolist())


def _chosen_codes(found: PointScores, cut: Selection[int]) -> list[int]:
    codes: list[int] = found.codes[[*cut.chunks, *cut.below_threshold]].tolist()
    return codes


def _selection(
    found: PointScores, cut: Selection[int], on: Decisive, chunks: ChunkTable, now: datetime
) -> Selection[RetrievedChunk]:
    def hit(place: int, rank: int) -> RetrievedChunk:
        chunk = chunks[int(found.codes[place])]
        return hit_of(found.scores, found.components, place, found.scale, found.distance, chunk, rank, now)

    scale = found.scale if on == "final" else found.distance
    return Selection(
        chunks=tuple(hit(place, rank) for rank, place in enumerate(cut.chunks, 1)),
        below_threshold=tuple(hit(place, place + 1) for place in cut.below_threshold),
        filtered_out=cut.filtered_out,
        highest_below=None if cut.highest_below is None else oriented(cut.highest_below, scale),
    )


def hits(found: PointScores, chunks: ChunkTable) -> tuple[RetrievedChunk, ...]:
    """Return candidates in their order as objects, ranked from 1. Their chunks have been read."""
    now = datetime.now(UTC)
    return tuple(
        hit_of(found.scores, found.components, place, found.scale, found.distance, chunks[code], place + 1, now)
        for place, code in enumerate(found.codes.tolist())
    )
