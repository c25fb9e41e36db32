"""A session as text for a person, and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from retrievers.records import RetrievalSession, RetrievedChunk
from retrievers.store.chunks import all_metadata

PREVIEW = 86
INDENT = " " * 11


def session_json(session: RetrievalSession) -> dict[str, Any]:
    """Convert a session to plain JSON values: all fields, and chunks with all their metadata."""
    chunks = {name: [*map(_chunk_json, getattr(session, name))] for name in ("chunks", "below_threshold")}
    return asdict(session) | {"sources": dict(session.sources)} | chunks


def _chunk_json(result: RetrievedChunk) -> dict[str, Any]:
    chunk = result.chunk
    return {
        **{name: value for name, value in asdict(result).items() if name != "chunk"},
        "source": result.source,
        "breadcrumb": result.breadcrumb,
        "point_id": chunk.point_id,
        "text": chunk.text,
        "metadata": all_metadata(chunk),
        "problems": [*chunk.problems],
    }


def session_text(session: RetrievalSession, *, verbose: bool = False) -> str:
    """Render a session for the terminal: ranked results, then a summary. `verbose` adds all scores and whole texts."""
    lines = [line for chunk in session.chunks for line in _result(chunk, verbose)] or ["No result.", ""]
    if session.below_threshold and not session.chunks:
        lines.append("Best matches below the threshold (not part of the result):")
        lines += [line for chunk in session.below_threshold for line in _result(chunk, verbose)]
    return "\n".join([*lines, *_summary(session)])


def score_text(score: float | None) -> str:
    """Format a score with three decimals; a score of None is a dash of the same width."""
    return "  –  " if score is None else f"{score:.3f}"


def _result(result: RetrievedChunk, verbose: bool) -> Iterator[str]:
    score, cosine = score_text(result.score), result.scores.get("semantic")
    if result.score_scale not in ("cosine", "unknown", "none"):
        score += f" {result.score_scale}" + (f" (cosine {cosine:.3f})" if cosine is not None else "")
    moved = result.original_rank is not None and result.original_score is not None
    before = f"  (before reranking: {result.original_rank}, {result.original_score:.3f})" if moved else ""
    yield f"{result.rank:>2}  {score}  {result.source}{before}"
    yield f"{INDENT}{result.breadcrumb}"
    preview = result.chunk.chunk_text_preview
    lines = [f"{preview[:PREVIEW]}{'…' if len(preview) > PREVIEW else ''}"]
    if verbose:
        scores = ", ".join(f"{name} {score:.3f}" for name, score in result.scores.items())
        lines = [scores, *result.chunk.text.split("\n")]
    yield from (f"{INDENT}{line}" for line in lines)
    yield ""


def _summary(session: RetrievalSession) -> Iterator[str]:
    timings, parameters, confidence = session.timings, session.parameters, session.confidence
    returned = f"{len(session.chunks)} returned of {session.candidates_found} found"
    counts = f"{returned}, {session.filtered_out} below the threshold"
    top_k, collection = f"top_k {parameters.get('top_k')}", parameters.get("collection")
    settings = (_search_text(parameters), top_k, _threshold_text(parameters), collection)
    yield " · ".join(str(part) for part in (counts, *settings) if part)
    stages = {"embed": timings.embed_ms, "search": timings.search_ms, "rerank": timings.rerank_ms}
    spent = ", ".join(f"{name} {value:.1f} ms" for name, value in stages.items() if value is not None)
    yield f"{timings.total_ms:.1f} ms" + (f" ({spent})" if spent else "")
    if confidence and confidence.average is not None:
        yield f"Confidence {confidence.level}: {confidence.reason}; average {confidence.average:.2f}"
    if session.sources:
        yield "From " + ", ".join(f"{page} ({count})" for page, count in session.sources.items())
    yield from (f"Warning: {text}" for text in session.warnings)
    yield from (f"Try: {text}" for text in session.suggestions)


def _search_text(parameters: Mapping[str, Any]) -> str:
    settings = [*dict.fromkeys(parameters.get(name) for name in ("python", "mode", "fusion", "rerank"))]
    settings.append(f"where {parameters['filters']}" if parameters.get("filters") else None)
    settings.append(f"one for each {parameters['group_by']}" if parameters.get("group_by") else None)
    return ", ".join(filter(None, settings))


def _threshold_text(parameters: Mapping[str, Any]) -> str:
    """Format the threshold, with the score that it reads."""
    if parameters.get("threshold") is None:
        return "no threshold"
    signal = parameters.get("threshold_signal", "cosine")
    score = signal if signal == "cosine" else f"{signal} score"
    read = {"final": "final score", "best": f"best {score}"}.get(parameters.get("threshold_on", "each"), score)
    return f"threshold {parameters['threshold']:g} on the {read}"
