"""How sure a result looks, what to warn of, what to suggest. Pure; rules of thumb from the scores alone."""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import Literal

from retrievers.records import Confidence, RetrievedChunk
from retrievers.search.selection import Decisive, Selection, decisive

HIGH_MARGIN = 0.25
"""A best score this far above the threshold (as a share of what is left up to 1) counts as clearly above it."""
Side = Literal["keywords", "meaning"]
OTHER_SIDE: Mapping[Side, str] = {
    "keywords": "search by keywords as well (mode: hybrid)",
    "meaning": "search by meaning as well (mode: hybrid) or instead (mode: semantic)",
}


def confidence(
    chunks: Sequence[RetrievedChunk], top_k: int, threshold: float, *, on: Decisive = "semantic"
) -> Confidence:
    """Judge a result by the scores that decided on it: those which the threshold read.

    High: the best chunk is clearly above the threshold (by a quarter of the way to 1) and at least half of `top_k` came
    back. Medium: one of the two holds. Low: neither. None: nothing came back. It is a hint for a reader, not a
    probability: how often such results are right is what `evals.run` measures.

    Args:
        chunks: The result.
        top_k: Number of chunks that were asked for.
        threshold: The least score.
        on: Which score it was compared with.
    """
    scores = [decisive(chunk, on) for chunk in chunks]
    scale = "cosine" if on != "final" or not chunks else chunks[0].score_scale
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
    best, clear = max(scores), threshold + HIGH_MARGIN * (1 - threshold)
    signs = [best >= clear, coverage >= 0.5]
    highest, enough = apart(best, clear, 2)
    reasons = [
        f"best {scale} score {highest} {'≥' if signs[0] else '<'} {enough}",
        f"{len(scores)} of {top_k} places filled",
    ]
    return Confidence(
        scale=scale,
        average=average,
        minimum=min(scores),
        maximum=best,
        deviation=sqrt(fmean((score - average) ** 2 for score in scores)),
        coverage=coverage,
        level=("low", "medium", "high")[sum(signs)],
        reason=", ".join(reasons),
    )


def apart(one: float, other: float, digits: int) -> tuple[str, str]:
    """Format two numbers with `digits` decimals, or with more where the texts would be the same."""
    for more in range(digits, 17):
        shown = f"{one:.{more}f}", f"{other:.{more}f}"
        if shown[0] != shown[1]:
            return shown
    return f"{one:.{digits}f}", f"{other:.{digits}f}"


def warnings(selection: Selection[RetrievedChunk], threshold: float, *, could_spread: bool = True) -> tuple[str, ...]:
    """Warn of a result that is wholly below the threshold, or wholly from one page.

    Args:
        selection: The result.
        threshold: The least score.
        could_spread: True if reranking by MMR could still be switched on.
    """
    found = []
    best = selection.highest_below
    if not selection.chunks and best is not None:
        shown, _ = apart(best, threshold, 3)
        found.append(
            f"all {selection.filtered_out} candidates are below the threshold {threshold:g}; the best has {shown}"
        )
        if best < threshold / 2:
            found.append(f"the best score is under half of {threshold:g}: was that chosen for another scale or model?")
    pages = {chunk.chunk.source_url or chunk.chunk.file_path for chunk in selection.chunks}
    if len(selection.chunks) >= 3 and len(pages) == 1 and None not in pages:
        remedy = "; rerank: mmr spreads them" if could_spread else ""
        found.append(f"all {len(selection.chunks)} results are from one page ({pages.pop()}){remedy}")
    return tuple(found)


def suggestions(selection: Selection[RetrievedChunk], *, other_side: Side | None = None) -> tuple[str, ...]:
    """Suggest remedies where nothing was returned; `other_side` is a way to search the collection that was not used."""
    if selection.chunks:
        return ()
    best = selection.highest_below
    if best is None:
        asked = "no candidate was found at all: is the collection empty, does a filter let nothing through, "
        if other_side == "meaning":
            return asked + "or does no chunk hold a word of the query?", OTHER_SIDE[other_side]
        return (asked + "or has the query no word to search for?",)
    ways = [f"lower the threshold to {int(best * 100) / 100:g} to see the best match", "ask in other or fewer words"]
    return (*ways, *([OTHER_SIDE[other_side]] if other_side else []))
