"""Threshold, grouping and cut by brute force, chunk by chunk: the oracle of `retrievers.search.selection`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from retrievers.config import RetrieverConfig
from retrievers.records import RetrievedChunk

BELOW = 3


class Selected(NamedTuple):
    """What is returned, the first that the threshold removed, how many those are, and the best of their scores."""

    chunks: tuple[RetrievedChunk, ...]
    below_threshold: tuple[RetrievedChunk, ...]
    filtered_out: int
    highest_below: float | None


def select(
    candidates: Sequence[RetrievedChunk],
    top_k: int,
    threshold: float | None,
    *,
    on: str = "each",
    group_by: str | None = None,
) -> Selected:
    """Select from candidates whose higher score is the better; what is returned is ranked from 1."""

    def score(chunk: RetrievedChunk) -> float:
        return (chunk.score or 0.0) if on == "final" else chunk.scores["semantic"]

    best = max(map(score, candidates), default=0.0) if on == "best" else None
    scores = [] if threshold is None else [score(chunk) if best is None else best for chunk in candidates]
    below = [place for place, value in enumerate(scores) if threshold is not None and value < threshold]
    kept: list[RetrievedChunk] = []
    groups: list[Any] = []
    for place, chunk in enumerate(candidates):
        group = chunk.chunk.value(group_by) if group_by else None
        if place in below or (group is not None and group in groups):
            continue
        groups.append(group)
        kept.append(chunk)
    return Selected(
        chunks=tuple(replace(chunk, rank=rank) for rank, chunk in enumerate(kept[:top_k], 1)),
        below_threshold=tuple(candidates[place] for place in below[:BELOW]),
        filtered_out=len(below),
        highest_below=max((scores[place] for place in below), default=None),
    )


def select_by(settings: RetrieverConfig, candidates: Sequence[RetrievedChunk]) -> Selected:
    """Select by the settings of a retriever."""
    on, group_by = settings.threshold_on, settings.group_by
    return select(candidates, settings.top_k, settings.threshold, on=on, group_by=group_by)
