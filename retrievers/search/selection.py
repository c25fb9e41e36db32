"""What becomes of candidates: the threshold, the cut, and the session that tells how it went. Pure, but for its ids."""

import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from math import floor
from typing import Any, Literal

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.errors import QueryError, RetrievalError
from retrievers.records import UNBOUNDED, Chunk, Confidence, RetrievalSession, RetrievedChunk
from retrievers.search.candidates import Candidates, Floats
from retrievers.text import language

BELOW_SHOWN = 3
# A best score this far above the threshold, as a share of what is left up to 1, counts as clearly above it.
HIGH_MARGIN = 0.25
Side = Literal["keywords", "meaning"]
OTHER_SIDE: Mapping[Side, str] = {
    "keywords": "search by keywords as well (mode: hybrid)",
    "meaning": "search by meaning as well (mode: hybrid) or instead (mode: semantic)",
}


def select(candidates: Candidates, settings: RetrieverConfig) -> tuple[list[int], list[int]]:
    """Return the places of the candidates that threshold, grouping and cut leave, and of those below the threshold.

    Args:
        candidates: The candidates of one query.
        settings: The threshold (inclusive; None is none), the score that it reads, the cut, and the grouping, of which
            only the first of each group is kept.
    """
    scores = read_by_threshold(candidates, settings)
    kept = np.flatnonzero(scores >= settings.least).tolist()
    below = np.flatnonzero(scores < settings.least).tolist()
    if settings.group_by:
        groups = [group_of(chunk, settings.group_by) for chunk in candidates.at(kept).chunks]
        kept = sorted({group: place for group, place in zip(reversed(groups), reversed(kept), strict=True)}.values())
    return kept[: settings.top_k], below


def read_by_threshold(candidates: Candidates, settings: RetrieverConfig) -> Floats:
    """Return what the threshold reads for each candidate: its own score, or under `best` the highest; 0 without one."""
    if settings.threshold is None:
        return np.zeros(len(candidates))
    scores = decisive(candidates, settings)
    return np.full_like(scores, scores.max(initial=-np.inf)) if settings.threshold_on == "best" else scores


def decisive(candidates: Candidates, settings: RetrieverConfig) -> Floats:
    """Return each candidate's own score of the kind that the threshold reads."""
    return candidates.column("score" if settings.threshold_on == "final" else "semantic")


def group_of(chunk: Chunk, field: str) -> Hashable:
    """Return what a chunk is grouped by: its value of a field, or itself where it has none."""
    value = chunk.value(field)
    return ("chunk", chunk.chunk_id) if value is None else ("group", value)


def answered(
    candidates: Candidates,
    settings: RetrieverConfig,
    told: Mapping[str, Any],
    *,
    other_side: Side | None = None,
    spreads: bool = True,
) -> RetrievalSession:
    """Return the session of a query that was searched for.

    Args:
        candidates: Its candidates; the chunks of those that are shown have been read.
        settings: Those that it was searched by.
        told: What the session says of parameters and model.
        other_side: A way to search the collection that was not used.
        spreads: True if nothing could spread a result over more pages.
    """
    kept, below = select(candidates, settings)
    chunks, missed = tuple(candidates.at(kept)), tuple(candidates[place] for place in below[:BELOW_SHOWN])
    best_below = float(read_by_threshold(candidates, settings)[below].max()) if below else None
    confident = None if candidates.no_cosine else confidence(candidates.at(kept), settings)
    # Telling a language takes as long as a search.
    doubted = confident is not None and confident.level != "high"
    noted = on_language(candidates.text, chunks or missed) if doubted else ()
    return RetrievalSession(
        session_id=uuid.uuid4().hex,
        query=candidates.text,
        status="success",
        chunks=chunks,
        below_threshold=missed,
        candidates_found=len(candidates),
        filtered_out=len(below),
        timings=candidates.timings,
        cache=candidates.cache,
        confidence=confident,
        warnings=tuple(chain(warnings(chunks, len(below), best_below, settings.threshold, spreads=spreads), noted)),
        suggestions=suggestions(best_below, other_side) if confident and not chunks else (),
        **told,
    )


def failed(query: str, error: RetrievalError, told: Mapping[str, Any]) -> RetrievalSession:
    """Return the session of a failure; a blank query is an empty success with a message."""
    blank = isinstance(error, QueryError) and not query.strip()
    return RetrievalSession(
        session_id=uuid.uuid4().hex,
        query=query,
        status="success" if blank else "timeout" if error.timed_out else "error",
        error=None if blank else str(error),
        warnings=(str(error),) if blank else (),
        **told,
    )


def parameters(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings of a search as a session tells them: some always, the others where they are set."""
    always = {name: getattr(settings, name) for name in ("collection", "mode", "top_k", "threshold", "candidates")}
    chosen = {
        "python": settings.python,
        "distance": settings.distance if settings.distance != "cosine" else None,
        "fusion": settings.fusion if settings.mode == "hybrid" else None,
        "rerank": settings.rerank if settings.rerank != "none" else None,
        "threshold_on": settings.threshold_on if settings.threshold_on != "each" else None,
        **{name: getattr(settings, name) for name in ("search_params", "filters", "group_by")},
    }
    return always | {name: value for name, value in chosen.items() if value is not None}


def confidence(returned: Candidates, settings: RetrieverConfig) -> Confidence:
    """Judge a result by the scores that decided on it: those which the threshold read.

    High: the best chunk is clearly above the threshold (by a quarter of the way to 1) and at least half of `top_k`
    came back. Medium: one of the two holds. Low: neither. None: nothing came back. Of scores without bounds and without
    a threshold, only the second can be said. It is a hint for a reader, not a probability: how often such results are
    right is what `evals.run` measures.
    """
    scores, threshold = decisive(returned, settings), settings.threshold
    if not len(scores):
        return Confidence(
            average=None, minimum=None, maximum=None, deviation=None, coverage=0.0, level="none",
            reason="nothing was found",
        )  # fmt: skip
    scale = returned.table.scales[returned.row] if settings.threshold_on == "final" else returned.distance
    best, coverage = float(scores.max()), len(scores) / settings.top_k
    if threshold is None or scale in UNBOUNDED:
        clear, compared = False, f"best {scale} score {best:.2f}, which nothing tells to be near or far"
    else:
        enough = threshold + HIGH_MARGIN * (1 - threshold)
        clear = best >= enough
        shown, limit = _apart(best, enough, 2)
        compared = f"best {scale} score {shown} {'≥' if clear else '<'} {limit}"
    return Confidence(
        scale=scale,
        average=float(scores.mean()),
        minimum=float(scores.min()),
        maximum=best,
        deviation=float(scores.std()),
        coverage=coverage,
        level=("low", "medium", "high")[clear + (coverage >= 0.5)],
        reason=f"{compared}, {len(scores)} of {settings.top_k} places filled",
    )


def _apart(one: float, other: float, digits: int) -> tuple[str, str]:
    """Format two numbers with `digits` decimals, or with more where the texts would be the same."""
    digits = next((more for more in range(digits, 17) if f"{one:.{more}f}" != f"{other:.{more}f}"), digits)
    return f"{one:.{digits}f}", f"{other:.{digits}f}"


def warnings(
    chunks: Sequence[RetrievedChunk],
    filtered_out: int,
    best_below: float | None,
    threshold: float | None,
    *,
    spreads: bool = True,
) -> Iterator[str]:
    """Warn of a result that is wholly below the threshold, or wholly from one page.

    Args:
        chunks: The result.
        filtered_out: Number of candidates below the threshold.
        best_below: The best of their scores; None where there is no such candidate.
        threshold: The least score; None where none is in force.
        spreads: True if reranking by MMR could still be switched on.
    """
    if not chunks and best_below is not None and threshold is not None:
        shown, _ = _apart(best_below, threshold, 3)
        yield f"all {filtered_out} candidates are below the threshold {threshold:g}; the best has {shown}"
        if best_below < threshold / 2:
            yield f"the best score is under half of {threshold:g}: was that chosen for another scale or model?"
    pages = {chunk.chunk.source_url or chunk.chunk.file_path for chunk in chunks}
    if len(chunks) >= 3 and len(pages) == 1 and None not in pages:
        remedy = "; rerank: mmr spreads them" if spreads else ""
        yield f"all {len(chunks)} results are from one page ({pages.pop()}){remedy}"


def suggestions(best_below: float | None, other_side: Side | None = None) -> tuple[str, ...]:
    """Suggest remedies where nothing was returned.

    Args:
        best_below: The best score below the threshold; None where no candidate was found.
        other_side: A way to search the collection that was not used.
    """
    other = (OTHER_SIDE[other_side],) if other_side else ()
    if best_below is None:
        by_words = other_side == "meaning"
        reason = "does no chunk hold a word of the query" if by_words else "has the query no word to search for"
        asked = "no candidate was found at all: is the collection empty, does a filter let nothing through, or"
        return (f"{asked} {reason}?", *(other if by_words else ()))
    reach = f"lower the threshold to {floor(best_below * 100) / 100:g} to see the best match"
    return (reach, "ask in other or fewer words", *other)


def on_language(query: str, hits: Sequence[RetrievedChunk]) -> Iterator[str]:
    """Note that a query is in another language than what was found; a model of several languages finds it anyway."""
    languages = language.differing(query, [hit.chunk.text for hit in hits])
    if languages:
        yield f"the query seems to be {languages.asked}, and what was found is {languages.found}"
