"""What becomes of candidates: the threshold, then the cut. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrievers.records import RetrievedChunk

BELOW_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The chunks that are returned, and the best of those that the threshold removed."""

    chunks: tuple[RetrievedChunk, ...]
    below_threshold: tuple[RetrievedChunk, ...]
    filtered_out: int


def select(candidates: Sequence[RetrievedChunk], top_k: int, threshold: float) -> Selection:
    """Keep the first `top_k` candidates whose cosine similarity reaches the threshold.

    Args:
        candidates: In the total order.
        top_k: Most chunks to keep.
        threshold: Least cosine similarity, 0 to 1, inclusive.
    """
    kept = [c for c in candidates if c.scores["semantic"] >= threshold]
    below = [c for c in candidates if c.scores["semantic"] < threshold]
    return Selection(chunks=tuple(kept[:top_k]), below_threshold=tuple(below[:BELOW_SHOWN]), filtered_out=len(below))
