"""How sure a result looks, what to warn of, what to suggest. Pure; rules of thumb from the scores alone."""

from collections.abc import Mapping, Sequence
from math import floor, sqrt
from statistics import fmean
from typing import Literal

from retrievers.records import UNBOUNDED, Confidence, RetrievedChunk, ScoreScale
from retrievers.search.selection import Decisive, decisive, decisive_scale

HIGH_MARGIN = 0.25
"""A best score this far above the threshold, as a share of what is left up to 1, counts as clearly above it."""
Side = Literal["keywords", "meaning"]
OTHER_SIDE: Mapping[Side, str] = {
    "keywords": "search by keywords as well (mode: hybrid)",
    "meaning": "search by meaning as well (mode: hybrid) or instead (mode: semantic)",
}


def confidence(
    chunks: Sequence[RetrievedChunk], top_k: int, threshold: float | None, *, on: Decisive = "each"
) -> Confidence:
    """Judge a result by the scores that decided on it: those which the threshold read.

    High: the best chunk is clearly above the threshold (by a quarter of the way to 1) and at
    least half of `top_k` came back. Medium: one of the two holds. Low: neither. None: nothing came back. Of scores
    without bounds and without a threshold, only the second can be said. It is a hint for a reader, not a
    probability: how often such results are right is what `evals.run` measures.

    Args:
        chunks: The result.
        top_k: Number of chunks that were asked for.
        threshold: The least score; None where none is in force.
        on: Which score it was compared with.
    """
    scores = [decisive(chunk, on) for chunk in chunks]
    scale: ScoreScale = decisive_scale(chunks[0], on) if chunks else "cosine"
    if not scores:
        return Confidence(
            scale=scale,
            average=None,
            minimum=None,
            maximum=None,
            deviation=None,
            coverage=0.0,
            level="none",
            reason="nothing was found",
        )
    average, coverage = fmean(scores), len(scores) / top_k
    best, clear = max(scores), _clear(threshold, scale)
    is_clear = clear is not None and best >= clear
    signs = [is_clear, coverage >= 0.5]
    reasons = [_compared(best, clear, is_clear, scale), f"{len(scores)} of {top_k} places filled"]
    return Confidence(
        scale=scale,
        average=average,
        minimum=min(scores),
        maximum=max(scores),
        deviation=sqrt(fmean((score - average) ** 2 for score in scores)),
        coverage=coverage,
        level=("low", "medium", "high")[sum(signs)],
        reason=", ".join(reasons),
    )


def _clear(threshold: float | None, scale: ScoreScale) -> float | None:
    """Return the score that is clearly better than a threshold; None on a scale without a best score."""
    return None if threshold is None or scale in UNBOUNDED else threshold + HIGH_MARGIN * (1 - threshold)


def _compared(best: float, clear: float | None, is_clear: bool, scale: ScoreScale) -> str:
    if clear is None:
        return f"best {scale} score {best:.2f}, which nothing tells to be near or far"
    shown, enough = apart(best, clear, 2)
    return f"best {scale} score {shown} {'≥' if is_clear else '<'} {enough}"


def apart(one: float, other: float, digits: int) -> tuple[str, str]:
    """Format two numbers with `digits` decimals, or with more where the texts would be the same."""
    for more in range(digits, 17):
        shown = f"{one:.{more}f}", f"{other:.{more}f}"
        if shown[0] != shown[1]:
            return shown
    return f"{one:.{digits}f}", f"{other:.{digits}f}"


def warnings(
    chunks: Sequence[RetrievedChunk],
    filtered_out: int,
    best_below: float | None,
    threshold: float | None,
    *,
    could_spread: bool = True,
) -> tuple[str, ...]:
    """Warn of a result that is wholly below the threshold, or wholly from one page.

    Args:
        chunks: The result.
        filtered_out: Number of candidates below the threshold.
        best_below: The best of their scores, as it is shown; None where there is no such candidate.
        threshold: The least score; None where none is in force.
        could_spread: True if reranking by MMR could still be switched on.
    """
    lines = []
    if not chunks and best_below is not None and threshold is not None:
        shown, _ = apart(best_below, threshold, 3)
        lines.append(f"all {filtered_out} candidates are below the threshold {threshold:g}; the best has {shown}")
        if best_below < threshold / 2:
            lines.append(f"the best score is under half of {threshold:g}: was that chosen for another scale or model?")
    pages = {chunk.chunk.source_url or chunk.chunk.file_path for chunk in chunks}
    if len(chunks) >= 3 and len(pages) == 1 and None not in pages:
        remedy = "; rerank: mmr spreads them" if could_spread else ""
        lines.append(f"all {len(chunks)} results are from one page ({pages.pop()}){remedy}")
    return tuple(lines)


def suggestions(best_below: float | None, *, other_side: Side | None = None) -> tuple[str, ...]:
    """Suggest remedies where nothing was returned.

    Args:
        best_below: The best score below the threshold, as it is shown; None where no candidate was found.
        other_side: A way to search the collection that was not used.
    """
    if best_below is None:
        asked = "no candidate was found at all: is the collection empty, does a filter let nothing through, "
        if other_side == "meaning":
            return asked + "or does no chunk hold a word of the query?", OTHER_SIDE[other_side]
        return (asked + "or has the query no word to search for?",)
    reach = f"lower the threshold to {floor(best_below * 100) / 100:g}"
    ways = [f"{reach} to see the best match", "ask in other or fewer words"]
    return (*ways, *([OTHER_SIDE[other_side]] if other_side else []))
