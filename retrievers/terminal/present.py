"""A session as text for a person, and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from retrievers.config import RERANKERS
from retrievers.records import Confidence, RetrievalSession, RetrievedChunk
from retrievers.store.chunks import all_metadata

PREVIEW = 86
INDENT = " " * 11


def session_json(session: RetrievalSession) -> dict[str, Any]:
    """Convert a session to plain JSON values: every field, chunks with their whole metadata."""
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
        "chunks": [*map(chunk_json, session.chunks)],
        "below_threshold": [*map(chunk_json, session.below_threshold)],
    }


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


def session_text(session: RetrievalSession, *, verbose: bool = False) -> str:
    """Render a session for the terminal: ranked results, then the summary; `verbose`: all scores and whole texts."""
    if session.error:
        return f"{session.status}: {session.error}"
    lines = [line for chunk in session.chunks for line in _result(chunk, verbose)]
    if not session.chunks:
        lines += ["No result.", ""]
        if session.below_threshold:
            lines.append("Best matches below the threshold (not part of the result):")
            lines += [line for chunk in session.below_threshold for line in _result(chunk, verbose)]
    return "\n".join([*lines, *_summary(session, verbose)])


def score_text(score: float | None) -> str:
    """Format a score with three decimals, or as a dash of that width where the retriever gives none."""
    return "  –  " if score is None else f"{score:.3f}"


def _result(result: RetrievedChunk, verbose: bool) -> Iterator[str]:
    moved = result.original_rank is not None and result.original_score is not None
    before = f"  (before reranking: {result.original_rank}, {result.original_score:.3f})" if moved else ""
    yield f"{result.rank:>2}  {_scored(result)}  {result.source}{before}"
    yield f"{INDENT}{result.breadcrumb}"
    if verbose:
        yield INDENT + ", ".join(f"{name} {score:.3f}" for name, score in result.scores.items())
        yield from (f"{INDENT}{line}" for line in result.chunk.text.split("\n"))
    else:
        preview = result.chunk.chunk_text_preview
        yield f"{INDENT}{preview[:PREVIEW]}{'…' if len(preview) > PREVIEW else ''}"
    yield ""


def _scored(result: RetrievedChunk) -> str:
    """Format the score; where it is no cosine, with its scale, and the score of its vector that the threshold reads."""
    score, of_vector = score_text(result.score), result.scores.get("semantic")
    if result.score_scale in ("cosine", "unknown", "none"):
        return score
    shown = of_vector is not None and result.score_scale != result.distance
    return f"{score} {result.score_scale}" + (f" ({result.distance} {of_vector:.3f})" if shown else "")


def _summary(session: RetrievalSession, verbose: bool) -> Iterator[str]:
    timings, used = session.timings, session.parameters
    found = f"{len(session.chunks)} returned of {session.candidates_found} found"
    counts = f"{found}, {session.filtered_out} below the threshold"
    settings = (_how(used), f"top_k {used.get('top_k')}", _threshold(used), used.get("collection"))
    yield " · ".join(str(part) for part in (counts, *settings) if part)
    stages = {"embed": timings.embed_ms, "search": timings.search_ms, "rerank": timings.rerank_ms}
    spent = ", ".join(f"{name} {value:.1f} ms" for name, value in stages.items() if value is not None)
    yield f"{timings.total_ms:.1f} ms" + (f" ({spent})" if spent else "")
    if session.confidence and session.confidence.average is not None:
        yield _confidence(session.confidence, verbose)
    if len(session.sources) > 1 or verbose:
        yield "From " + ", ".join(f"{page} ({count})" for page, count in session.sources.items())
    yield from (f"Warning: {text}" for text in session.warnings)
    yield from (f"Try: {text}" for text in session.suggestions)


def _how(used: Mapping[str, Any]) -> str:
    parts = [*dict.fromkeys(used.get(name) for name in ("python", "mode", "fusion", "rerank"))]
    parts.append(f"where {used['filters']}" if used.get("filters") else None)
    parts.append(f"one for each {used['group_by']}" if used.get("group_by") else None)
    return ", ".join(str(part) for part in parts if part)


def _threshold(used: Mapping[str, Any]) -> str:
    """Format the threshold, with the score it reads where that is not the one shown."""
    if used.get("threshold") is None:
        return "no threshold"
    distance = used.get("distance", "cosine")
    other = RERANKERS[used.get("rerank", "none")].scale or used.get("mode", "semantic") != "semantic"
    each = f" on the {distance}" if other or distance != "cosine" else ""
    read = {"final": " on the final score", "best": f" on the best {distance}"}.get(
        used.get("threshold_on", "each"), each
    )
    return f"threshold {used['threshold']:g}{read}"


def _confidence(confidence: Confidence, verbose: bool) -> str:
    line = f"Confidence {confidence.level}: {confidence.reason}; average {confidence.average:.2f}"
    if verbose:
        line += f", {confidence.minimum:.2f} to {confidence.maximum:.2f}, standard deviation {confidence.deviation:.2f}"
        line += f"; coverage {confidence.coverage:.0%}"
    return line
