"""A session as text for a person, and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from retrievers.config import RERANKERS
from retrievers.records import Confidence, RetrievalSession, RetrievedChunk
from retrievers.store.chunks import all_metadata

WIDTH = 100


def session_json(session: RetrievalSession, *, include_metadata: bool = True) -> dict[str, Any]:
    """Convert a session to plain JSON values: every field, chunks with their whole metadata or text and score alone."""
    chunk = chunk_json if include_metadata else text_json
    return {
        "session_id": session.session_id,
        "query": session.query,
        "status": session.status,
        "error": session.error,
        "parameters": dict(session.parameters),
        "embedding": {k: list(v) if isinstance(v, tuple) else v for k, v in session.embedding.items()},
        "candidates_found": session.candidates_found,
        "filtered_out": session.filtered_out,
        "cache": dict(session.cache),
        "timings": asdict(session.timings),
        "confidence": asdict(session.confidence) if session.confidence else None,
        "warnings": list(session.warnings),
        "suggestions": list(session.suggestions),
        "sources": dict(session.sources),
        "chunks": [chunk(result) for result in session.chunks],
        "below_threshold": [chunk(result) for result in session.below_threshold],
    }


def text_json(result: RetrievedChunk) -> dict[str, Any]:
    """Return text and score of a retrieved chunk."""
    return {"rank": result.rank, "score": result.score, "score_scale": result.score_scale, "text": result.chunk.text}


def chunk_json(result: RetrievedChunk) -> dict[str, Any]:
    """Convert a retrieved chunk to plain JSON values."""
    return {
        "rank": result.rank,
        "score": result.score,
        "score_scale": result.score_scale,
        "scores": dict(result.scores),
        "original_rank": result.original_rank,
        "original_score": result.original_score,
        "source": result.source,
        "breadcrumb": result.breadcrumb,
        "point_id": result.chunk.point_id,
        "text": result.chunk.text,
        "metadata": all_metadata(result.chunk),
        "problems": list(result.chunk.problems),
        "retrieved_at": result.retrieved_at.isoformat() if isinstance(result.retrieved_at, datetime) else None,
    }


def session_text(session: RetrievalSession, *, verbose: bool = False, include_metadata: bool = True) -> str:
    """Render a session for the terminal: ranked results, then the summary.

    Args:
        session: The session.
        verbose: Show all scores and whole texts.
        include_metadata: Otherwise results have text and score alone.
    """
    if session.error:
        return f"{session.status}: {session.error}"
    lines = [line for chunk in session.chunks for line in _result(chunk, verbose, include_metadata)]
    if not session.chunks:
        lines += ["No result.", ""]
        if session.below_threshold:
            lines.append("Best matches below the threshold (not part of the result):")
            lines += [line for chunk in session.below_threshold for line in _result(chunk, verbose, include_metadata)]
    return "\n".join([*lines, *_summary(session, verbose)])


def score_text(score: float | None) -> str:
    """Format a score with three decimals, or as a dash of that width where the retriever gives none."""
    return "  –  " if score is None else f"{score:.3f}"


def _result(result: RetrievedChunk, verbose: bool, include_metadata: bool) -> list[str]:
    indent = " " * 11
    location = f"  {result.source}{_before(result)}" if include_metadata else ""
    lines = [f"{result.rank:>2}  {_scored(result)}{location}"]
    if include_metadata:
        lines.append(f"{indent}{result.breadcrumb}")
    if verbose:
        scores = ", ".join(f"{name} {score:.3f}" for name, score in result.scores.items())
        parts = [f"{indent}{scores}"] if include_metadata else []
        return [*lines, *parts, *(f"{indent}{line}" for line in result.chunk.text.split("\n")), ""]
    preview = result.chunk.chunk_text_preview
    return [*lines, f"{indent}{preview[: WIDTH - 14]}{'…' if len(preview) > WIDTH - 14 else ''}", ""]


def _scored(result: RetrievedChunk) -> str:
    """Format the score; where it is no cosine, with its scale, and the score of its vector that the threshold reads."""
    score = score_text(result.score)
    if result.score_scale in ("cosine", "unknown", "none"):
        return score
    of_vector = result.scores.get("semantic")
    if of_vector is None or result.score_scale == result.distance:
        return f"{score} {result.score_scale}"
    return f"{score} {result.score_scale} ({result.distance} {of_vector:.3f})"


def _before(result: RetrievedChunk) -> str:
    if result.original_rank is None or result.original_score is None:
        return ""
    return f"  (before reranking: {result.original_rank}, {result.original_score:.3f})"


def _how(parameters: Mapping[str, Any]) -> str:
    strategy = dict.fromkeys(parameters.get(name) for name in ("python", "mode", "fusion", "rerank"))
    filters = f"where {parameters['filters']}" if parameters.get("filters") else None
    group = f"one for each {parameters['group_by']}" if parameters.get("group_by") else None
    return ", ".join(str(part) for part in (*strategy, filters, group) if part)


def _threshold(parameters: Mapping[str, Any]) -> str:
    """Format the threshold, with the score it reads where that is not the one shown."""
    threshold = parameters.get("threshold")
    if threshold is None:
        return "no threshold"
    distance = parameters.get("distance", "cosine")
    scored = RERANKERS[parameters.get("rerank", "none")].scale is not None
    other = scored or parameters.get("mode", "semantic") != "semantic"
    shown = f"threshold {threshold:g}"
    if parameters.get("threshold_on") == "final":
        return f"{shown} on the final score"
    if parameters.get("threshold_on") == "best":
        return f"{shown} on the best {distance}"
    if distance != "cosine":
        return f"{shown} on the {distance} score"
    return shown + (" on the cosine" if other else "")


def _summary(session: RetrievalSession, verbose: bool) -> list[str]:
    timings, parameters = session.timings, session.parameters
    stages = {"embed": timings.embed_ms, "search": timings.search_ms, "rerank": timings.rerank_ms}
    spent = ", ".join(f"{name} {value:.1f} ms" for name, value in stages.items() if value is not None)
    settings = [
        _how(parameters),
        f"top_k {parameters.get('top_k')}",
        _threshold(parameters),
        parameters.get("collection"),
    ]
    lines = [
        f"{len(session.chunks)} returned of {session.candidates_found} found, "
        f"{session.filtered_out} below the threshold · " + " · ".join(str(part) for part in settings if part),
        f"{timings.total_ms:.1f} ms" + (f" ({spent})" if spent else ""),
    ]
    lines += _confidence(session.confidence, verbose)
    if len(session.sources) > 1 or verbose:
        lines += ["From " + ", ".join(f"{page} ({count})" for page, count in session.sources.items())]
    lines += [f"Warning: {text}" for text in session.warnings]
    lines += [f"Try: {text}" for text in session.suggestions]
    return lines


def _confidence(confidence: Confidence | None, verbose: bool) -> list[str]:
    if confidence is None or confidence.average is None:
        return []
    line = f"Confidence {confidence.level}: {confidence.reason}; average {confidence.average:.2f}"
    if verbose:
        line += f", {confidence.minimum:.2f} to {confidence.maximum:.2f}, standard deviation {confidence.deviation:.2f}"
        line += f"; coverage {confidence.coverage:.0%}"
    return [line]
