"""What becomes of candidates: the threshold, then the cut. Pure."""

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievedChunk, ScoreScale
from retrievers.search.candidate_table import Candidates

BELOW_SHOWN = 3
Decisive = Literal["each", "best", "final"]
"""Which score the threshold reads: that of a candidate's vector, the best of all candidates' vectors, or the final."""


def cut(
    scores: Sequence[float], top_k: int, threshold: float, groups: Sequence[Hashable] | None = None
) -> tuple[list[int], list[int]]:
    """Return the places (from 0) of the first `top_k` candidates that reach the threshold, and of all that do not.

    Args:
        scores: Scores that the threshold reads, candidates in their order.
        top_k: Most candidates to keep.
        threshold: Least of these scores, inclusive.
        groups: Group of each candidate; of one group only the first is kept.
    """
    kept = [index for index, score in enumerate(scores) if score >= threshold]
    below = [index for index, score in enumerate(scores) if score < threshold]
    if groups is not None:
        kept = sorted({groups[index]: index for index in reversed(kept)}.values())
    return kept[:top_k], below


def select(candidates: Candidates, settings: RetrieverConfig) -> tuple[list[int], list[int]]:
    """Return the places of the candidates that threshold, grouping and cut leave, and of those below the threshold.

    Args:
        candidates: The candidates of one query.
        settings: The threshold (none is in force where `used_threshold` is None), the cut, and the grouping.
    """
    groups = None
    if settings.group_by:
        groups = [group_of(chunk, settings.group_by) for chunk in candidates.chunks]
    return cut(_read(candidates, settings).tolist(), settings.top_k, settings.least, groups)


def returned(candidates: Candidates, settings: RetrieverConfig) -> Candidates:
    """Return the candidates that threshold, grouping and cut leave (see `select`), without making one an object."""
    kept, _ = select(candidates, settings)
    return candidates.at(kept)


def best_score(candidates: Candidates, places: Sequence[int], settings: RetrieverConfig) -> float | None:
    """Return the best of the scores that the threshold reads; None for no candidate.

    Args:
        candidates: The candidates of one query, whose order may be that of another score.
        places: The places of those that count.
        settings: The threshold.
    """
    best = _read(candidates, settings)[np.asarray(places, dtype=np.intp)].max(initial=-np.inf)
    return float(best) if places else None


def _read(candidates: Candidates, settings: RetrieverConfig) -> NDArray[np.float64]:
    """Return the scores that the threshold reads; zeros where none is in force."""
    if settings.used_threshold is None:
        return np.zeros(len(candidates))
    column = "score" if settings.threshold_on == "final" else "semantic"
    return read_by_threshold(candidates.column(column), settings.threshold_on)


def decisive(hit: RetrievedChunk, on: Decisive) -> float:
    """Return the candidate's own score of the kind that the threshold reads."""
    return hit.known_score if on == "final" else hit.scores["semantic"]


def decisive_scale(hit: RetrievedChunk, on: Decisive) -> ScoreScale:
    """Return the scale of the score that the threshold reads."""
    return hit.score_scale if on == "final" else hit.distance


def read_by_threshold(scores: NDArray[np.float64], on: Decisive) -> NDArray[np.float64]:
    """Return what the threshold reads for each candidate of a query: its own score, or under `best` the highest."""
    return np.full_like(scores, scores.max(initial=-np.inf)) if on == "best" else scores


def group_of(chunk: Chunk, field: str) -> Hashable:
    """Return what a chunk is grouped by: its value of a field, or itself where it has none."""
    value = chunk.value(field)
    return ("chunk", chunk.chunk_id) if value is None else ("group", value)
