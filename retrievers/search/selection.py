"""What becomes of candidates: the threshold, then the cut. Pure."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievedChunk, ScoreScale, oriented
from retrievers.search.candidate_table import Candidates

BELOW_SHOWN = 3
Decisive = Literal["semantic", "best", "final"]
"""Which score the threshold reads: that of a candidate's vector, the best of all candidates' vectors, or the final."""


Kept = TypeVar("Kept", int, RetrievedChunk)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection(Generic[Kept]):
    """Candidates that are returned, and the best that the threshold removed: their places (from 0), or the chunks.

    Attributes:
        chunks: Those that are returned, in rank order.
        below_threshold: The first three that the threshold removed, in the candidates' order.
        filtered_out: Number of candidates that the threshold removed.
        highest_below: The best of the scores that it found too low, oriented for places and as it is shown for chunks;
            candidates that are not in the order of that score may have it in any place. None when it removed none.
    """

    chunks: tuple[Kept, ...]
    below_threshold: tuple[Kept, ...]
    filtered_out: int
    highest_below: float | None = None


def cut(
    scores: Sequence[float], top_k: int, threshold: float, groups: Sequence[Hashable] | None = None
) -> Selection[int]:
    """Keep the first `top_k` candidates that reach the threshold.

    Args:
        scores: Scores that the threshold reads, oriented, candidates in their order.
        top_k: Most candidates to keep.
        threshold: Least of these scores, inclusive.
        groups: Group of each candidate; of one group only the first is kept.
    """
    reached = [place for place, score in enumerate(scores) if score >= threshold]
    below = [place for place, score in enumerate(scores) if score < threshold]
    if groups is not None:
        reached = sorted({groups[place]: place for place in reversed(reached)}.values())
    return Selection(
        chunks=tuple(reached[:top_k]),
        below_threshold=tuple(below[:BELOW_SHOWN]),
        filtered_out=len(below),
        highest_below=max((scores[place] for place in below), default=None),
    )


def select(
    candidates: Sequence[RetrievedChunk],
    top_k: int,
    threshold: float | None,
    *,
    on: Decisive = "semantic",
    group_by: str | None = None,
) -> Selection[RetrievedChunk]:
    """Keep the first `top_k` candidates that reach the threshold, ranked from 1.

    Args:
        candidates: In their order.
        top_k: Most chunks to keep.
        threshold: Least score, or largest distance, inclusive; None to keep whatever was found.
        on: Which score: that of the vector, or the final one.
        group_by: A field of which each value is kept once, with its first candidate; a chunk without it stands alone.
    """
    scores: NDArray[np.float64] = np.zeros(len(candidates))
    scale = decisive_scale(candidates[0], on) if candidates else "cosine"
    if threshold is not None:
        read = np.asarray([decisive(found, on) for found in candidates], dtype=np.float64)
        scores = read_by_threshold(oriented(read, scale), on)
    groups = [group_of(found.chunk, group_by) for found in candidates] if group_by else None
    places = cut(scores.tolist(), top_k, 0.0 if threshold is None else oriented(threshold, scale), groups)
    return Selection(
        chunks=tuple(replace(candidates[place], rank=rank) for rank, place in enumerate(places.chunks, 1)),
        below_threshold=tuple(candidates[place] for place in places.below_threshold),
        filtered_out=places.filtered_out,
        highest_below=None if places.highest_below is None else oriented(places.highest_below, scale),
    )


def returned(candidates: Candidates, settings: RetrieverConfig) -> Candidates:
    """Return what threshold, grouping and cut leave of candidates, as `select` does, without making one an object.

    Args:
        candidates: The candidates of one query.
        settings: The threshold (none is in force where `used_threshold` is None), the cut, and the grouping.
    """
    scores: NDArray[np.float64] = np.zeros(len(candidates))
    if settings.used_threshold is not None:
        column = "score" if settings.threshold_on == "final" else "semantic"
        scores = read_by_threshold(candidates.column(column), settings.threshold_on)
    groups = None
    if settings.group_by:
        groups = [group_of(chunk, settings.group_by) for chunk in candidates.chunks]
    return candidates.at(cut(scores.tolist(), settings.top_k, settings.least, groups).chunks)


def decisive(found: RetrievedChunk, on: Decisive) -> float:
    """Return the candidate's own score of the kind that the threshold reads."""
    return found.known_score if on == "final" else found.scores["semantic"]


def decisive_scale(found: RetrievedChunk, on: Decisive) -> ScoreScale:
    """Return the scale of the score that the threshold reads."""
    return found.score_scale if on == "final" else found.distance


def read_by_threshold(scores: NDArray[np.float64], on: Decisive) -> NDArray[np.float64]:
    """Return what the threshold reads for each candidate of a query: its own score, or under `best` the highest."""
    return np.full_like(scores, scores.max(initial=-np.inf)) if on == "best" else scores


def group_of(chunk: Chunk, field: str) -> Hashable:
    """Return what a chunk is grouped by: its value of a field, or itself where it has none."""
    value = chunk.value(field)
    return ("chunk", chunk.chunk_id) if value is None else ("group", value)
