"""Candidates to a result: the threshold, the cut, and the session that reports the search. Pure, but for its ids."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import floor
from typing import Any

import numpy as np

from retrievers.config import RetrieverConfig
from retrievers.errors import QueryError, RetrievalError
from retrievers.records import UNBOUNDED, Chunk, Confidence, RetrievalSession, RetrievedChunk
from retrievers.search.candidates import Candidates, Floats, Hits
from retrievers.text import language

BELOW_SHOWN = 3
TOLD_WHERE_SET = ("python", "rerank", "threshold_on", "threshold_signal", "search_params", "filters", "group_by")
# The best score is clearly above the threshold if it is higher by this share of the distance from the threshold to 1.
HIGH_MARGIN = 0.25


def select(hits: Hits, settings: RetrieverConfig) -> tuple[list[int], list[int]]:
    """Apply the threshold, the grouping and `top_k` to the candidates of one query.

    Return two lists of places in `hits`: of the chunks that are returned, and of all chunks below the threshold.

    Args:
        hits: The candidates of one query.
        settings: Settings of the retriever. A score that equals the threshold passes. Of each group the first chunk is
            kept.
    """
    is_below = read_by_threshold(hits, settings) < settings.least
    passing, below = np.flatnonzero(~is_below).tolist(), np.flatnonzero(is_below).tolist()
    if settings.group_by:
        groups = [group_of(chunk, settings.group_by) for chunk in hits.at(passing).chunks]
        passing = sorted(dict(zip(reversed(groups), reversed(passing), strict=True)).values())
    return passing[: settings.top_k], below


def read_by_threshold(hits: Hits, settings: RetrieverConfig) -> Floats:
    """Return the score that the threshold reads for each candidate; zeros if there is no threshold.

    Under `threshold_on: best` it is the highest score of all candidates, else the candidate's own score.
    """
    if settings.threshold is None:
        return np.zeros(len(hits))
    scores: Floats = decisive(hits.found, settings)[hits.row, hits.places]
    return np.full_like(scores, scores.max(initial=-np.inf)) if settings.threshold_on == "best" else scores


def decisive(found: Candidates, settings: RetrieverConfig) -> Floats:
    """Return the own score of each candidate, of the kind that the threshold reads; shape (queries, depth).

    A candidate that the keyword side did not find has a BM25 of 0.
    """
    if settings.threshold_on == "final":
        return found.column("score")
    match settings.threshold_signal:
        case "cosine":
            return found.column("semantic")
        case "rerank":
            return found.column("rerank")
        case "bm25":
            weights = np.array([facts.query_weight for facts in found.facts], dtype=float)[:, None]
            return np.nan_to_num(found.column("keyword")) / np.where(weights == 0, 1.0, weights)
        case "known_words":
            shares = np.array([facts.known_words for facts in found.facts], dtype=float)
            return shares[:, None] * np.ones(found.codes.shape)


def group_of(chunk: Chunk, field: str) -> Hashable:
    """Return the group of a chunk: its value of the field. A chunk without a value is a group of its own."""
    value = chunk.value(field)
    return ("chunk", chunk.chunk_id) if value is None else ("group", value)


def answered(hits: Hits, settings: RetrieverConfig, told: Mapping[str, Any]) -> RetrievalSession:
    """Return the session of a query that was searched for.

    Args:
        hits: The candidates of the query. The chunks that the session shows have been read.
        settings: Settings of the retriever.
        told: Further fields of the session: its parameters and its model.
    """
    facts, (passing, below) = hits.facts, select(hits, settings)
    chunks, missed = tuple(hits.at(passing)), tuple(hits[place] for place in below[:BELOW_SHOWN])
    best_below = float(read_by_threshold(hits, settings)[below].max()) if below else None
    confident = None if facts.no_cosine else confidence(hits.at(passing), settings)
    # A retriever of the user's own is not reranked.
    spreads = not facts.incomplete and settings.rerank != "mmr"
    warnings = [*_warnings(chunks, len(below), best_below, settings, "; rerank: mmr spreads them" if spreads else "")]
    # To identify a language takes as long as a search, and a multilingual model finds texts in other languages anyway.
    texts = [hit.chunk.text for hit in chunks or missed] if confident and confident.level != "high" else []
    if languages := language.differing(facts.text, texts):
        warnings.append(f"the query seems to be {languages.asked}, and what was found is {languages.found}")
    return RetrievalSession(
        query=facts.text,
        status="success",
        chunks=chunks,
        below_threshold=missed,
        candidates_found=len(hits),
        filtered_out=len(below),
        timings=facts.timings,
        confidence=confident,
        warnings=tuple(warnings),
        suggestions=(_suggestion(best_below),) if confident and not chunks else (),
        **told,
    )


def failed(query: str, error: RetrievalError, told: Mapping[str, Any]) -> RetrievalSession:
    """Return the session of a search that failed. A blank query is an empty success with a warning."""
    blank = isinstance(error, QueryError) and not str(query).strip()
    return RetrievalSession(
        query=query,
        status="success" if blank else "timeout" if error.timed_out else "error",
        error=None if blank else str(error),
        warnings=(str(error),) if blank else (),
        **told,
    )


def parameters(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings of a search that a session reports: some always, others if they are set."""
    told = {name: getattr(settings, name) for name in ("collection", "mode", "top_k", "threshold", "candidates")}
    if settings.mode == "hybrid":
        told["fusion"] = settings.fusion
    return told | settings.model_dump(include={*TOLD_WHERE_SET}, exclude_defaults=True)


def confidence(returned: Hits, settings: RetrieverConfig) -> Confidence:
    """Judge a result by the scores that the threshold read.

    The level is `high` if the best score is clearly above the threshold (by a quarter of the distance to 1) and if at
    least half of `top_k` chunks came back. It is `medium` if one of the two holds, `low` if neither does, and `none` if
    nothing came back. Without a threshold, or for scores without bounds, only the number of chunks can be judged.

    It is a hint for a reader, not a probability: `evals.run` measures how often such results are right.
    """
    scores, threshold = decisive(returned.found, settings)[returned.row, returned.places], settings.threshold
    if not len(scores):
        return Confidence(level="none", reason="nothing was found")
    scale = returned.facts.scale if settings.threshold_on == "final" else settings.threshold_scale
    best, fills_half = float(scores.max()), 2 * len(scores) >= settings.top_k
    compared, clear = ", which nothing tells to be near or far", False
    if threshold is not None and scale not in UNBOUNDED:
        enough = threshold + HIGH_MARGIN * (1 - threshold)
        clear = best >= enough
        compared = f" {'≥' if clear else '<'} {enough:.3f}"
    return Confidence(
        scale=scale,
        average=float(scores.mean()),
        level=("low", "medium", "high")[clear + fills_half],
        reason=f"best {scale} score {best:.3f}{compared}, {len(scores)} of {settings.top_k} places filled",
    )


def _warnings(
    chunks: Sequence[RetrievedChunk], below: int, best_below: float | None, settings: RetrieverConfig, remedy: str
) -> Iterator[str]:
    """Warn if all candidates are below the threshold, or if all chunks are from one page, with the remedy for that."""
    if not chunks and best_below is not None:
        yield f"all {below} candidates are below the threshold {settings.least:g}; the best has {best_below:.3f}"
    pages = {chunk.chunk.source_url or chunk.chunk.file_path for chunk in chunks}
    if len(chunks) >= 3 and len(pages) == 1 and None not in pages:
        yield f"all {len(chunks)} results are from one page ({pages.pop()}){remedy}"


def _suggestion(best_below: float | None) -> str:
    """Suggest a remedy for an empty result."""
    if best_below is None:
        return "no candidate was found at all: is the collection empty, or has no chunk a word of the query?"
    return f"lower the threshold to {floor(best_below * 100) / 100:g} to see the best match"
