"""What becomes of candidates: the threshold, then the cut. Pure."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retrievers.records import RetrievedChunk

BELOW_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The chunks that are returned, and the best of those that the threshold removed.

    Attributes:
        highest_below: The highest of the scores that the threshold read and found too low; candidates that are not in
            the order of that score may have it in any place. None when it removed none.
    """

    chunks: tuple[RetrievedChunk, ...]
    below_threshold: tuple[RetrievedChunk, ...]
    filtered_out: int
    highest_below: float | None = None


def select(
    candidates: Sequence[RetrievedChunk],
    top_k: int,
    threshold: float | None,
    *,
    on: Literal["semantic", "final"] = "semantic",
    group_by: str | None = None,
) -> Selection:
    """Keep the first `top_k` candidates that reach the threshold, ranked anew from 1.

    Args:
        candidates: In their order.
        top_k: Most chunks to keep.
        threshold: Least score, 0 to 1, inclusive; None to keep whatever was found.
        on: Which score: the cosine similarity, or the final one.
        group_by: A field of which each value is kept once, with its first candidate; a chunk without it stands alone.
    """
    below = [] if threshold is None else [c for c in candidates if _score(c, on) < threshold]
    reached = candidates if threshold is None else [c for c in candidates if _score(c, on) >= threshold]
    kept = _first_of_each(reached, group_by) if group_by else reached
    chunks = tuple(replace(found, rank=place) for place, found in enumerate(kept[:top_k], 1))
    return Selection(
        chunks=chunks,
        below_threshold=tuple(below[:BELOW_SHOWN]),
        filtered_out=len(below),
        highest_below=max((_score(c, on) for c in below), default=None),
    )


def _score(found: RetrievedChunk, on: Literal["semantic", "final"]) -> float:
    return found.scores["semantic"] if on == "semantic" else found.known_score


def _first_of_each(candidates: Sequence[RetrievedChunk], field: str) -> list[RetrievedChunk]:
    first: dict[Hashable, RetrievedChunk] = {}
    for found in candidates:
        value = found.chunk.value(field)
        first.setdefault(("chunk", found.chunk.chunk_id) if value is None else ("group", value), found)
    return list(first.values())
