"""A session and a collection as a person reads them, and as JSON. Pure: text and plain values out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import yaml

from retrievers.records import Confidence, RetrievalSession, RetrievedChunk
from retrievers.store import CollectionInfo
from retrievers.store.inspection import PayloadKey, Proposal
from retrievers.store.payload import to_metadata

WIDTH = 100


def session_json(session: RetrievalSession, *, include_metadata: bool = True) -> dict[str, Any]:
    """A session as plain JSON values: every field, chunks with their whole metadata or with text and score alone."""
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
        "chunks": [chunk(found) for found in session.chunks],
        "below_threshold": [chunk(found) for found in session.below_threshold],
    }


def text_json(found: RetrievedChunk) -> dict[str, Any]:
    """A retrieved chunk's text and score."""
    return {"rank": found.rank, "score": found.score, "score_scale": found.score_scale, "text": found.chunk.text}


def chunk_json(found: RetrievedChunk) -> dict[str, Any]:
    """A retrieved chunk as plain JSON values."""
    return {
        "rank": found.rank,
        "score": found.score,
        "score_scale": found.score_scale,
        "scores": dict(found.scores),
        "original_rank": found.original_rank,
        "original_score": found.original_score,
        "source": found.source,
        "breadcrumb": found.breadcrumb,
        "point_id": found.chunk.point_id,
        "text": found.chunk.text,
        "metadata": to_metadata(found.chunk),
        "problems": list(found.chunk.problems),
        "retrieved_at": found.retrieved_at.isoformat() if isinstance(found.retrieved_at, datetime) else None,
    }


def session_text(session: RetrievalSession, *, verbose: bool = False, include_metadata: bool = True) -> str:
    """A session for the terminal: ranked results, then the summary.

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
    """A score with three decimals, or a dash as wide where the retriever gives none."""
    return "  –  " if score is None else f"{score:.3f}"


def collection_text(info: CollectionInfo, keys: Sequence[PayloadKey], proposal: Proposal) -> str:
    """A collection for the terminal: size, vectors, recorded model, payload keys, the proposed `metadata` setting."""
    recorded = info.manifest.get("embedding")
    model = f"{recorded['provider']}:{recorded['model']}" if recorded else "none recorded"
    vectors = ", ".join(f"{name or '(unnamed)'}: {size}" for name, size in info.vectors.items())
    lines = [
        f"Collection   {info.name}",
        f"Points       {info.points:,}{f' of the {info.points + info.lost:,} that were indexed' if info.lost else ''}",
        f"Vectors      {vectors}; distance {info.distance}",
        f"Sparse       {', '.join(info.sparse_vectors) or 'none'}",
        f"Embedded by  {model}",
        f"State        {info.manifest.get('state', 'not made by retrievers index')}",
        "",
        "Payload keys (of the first points):",
    ]
    width = max((len(key.key) for key in keys), default=0)
    for key in keys:
        types = ", ".join(f"{kind} × {count}" for kind, count in key.types.items())
        lines.append(f"  {key.key:<{width}}  {types:<12}  {key.example}")
    setting: dict[str, Any] = {"text_key": proposal.text_key or "?", "nested_under": proposal.nested_under}
    if proposal.map:
        setting["map"] = dict(proposal.map)
    lines += [
        "",
        "Proposed setting for your experiment file (check it against the examples above):",
        yaml.safe_dump({"retriever": {"metadata": setting}}, sort_keys=False).rstrip(),
        "",
        f"Found under their own names: {', '.join(proposal.same_name) or 'none'}",
        f"Not found: {', '.join(proposal.missing) or 'none'}",
    ]
    return "\n".join(lines)


def _result(found: RetrievedChunk, verbose: bool, include_metadata: bool) -> list[str]:
    indent = " " * 11
    place = f"  {found.source}{_before(found)}" if include_metadata else ""
    lines = [f"{found.rank:>2}  {_scored(found)}{place}"]
    if include_metadata:
        lines.append(f"{indent}{found.breadcrumb}")
    if verbose:
        scores = ", ".join(f"{name} {score:.3f}" for name, score in found.scores.items())
        parts = [f"{indent}{scores}"] if include_metadata else []
        return [*lines, *parts, *(f"{indent}{line}" for line in found.chunk.text.split("\n")), ""]
    preview = found.chunk.chunk_text_preview
    return [*lines, f"{indent}{preview[: WIDTH - 14]}{'…' if len(preview) > WIDTH - 14 else ''}", ""]


def _scored(found: RetrievedChunk) -> str:
    """The score; where it is no cosine, on which scale, and the cosine that the threshold reads."""
    score = score_text(found.score)
    if found.score_scale in ("cosine", "unknown", "none"):
        return score
    cosine = found.scores.get("semantic")
    return f"{score} {found.score_scale}" + ("" if cosine is None else f" (cosine {cosine:.3f})")


def _before(found: RetrievedChunk) -> str:
    if found.original_rank is None or found.original_score is None:
        return ""
    return f"  (before reranking: {found.original_rank}, {found.original_score:.3f})"


def _how(parameters: Mapping[str, Any]) -> str:
    known = dict.fromkeys(parameters.get(name) for name in ("python", "mode", "fusion", "rerank"))
    filters = f"where {parameters['filters']}" if parameters.get("filters") else None
    group = f"one for each {parameters['group_by']}" if parameters.get("group_by") else None
    return ", ".join(str(part) for part in (*known, filters, group) if part)


def _threshold(parameters: Mapping[str, Any]) -> str:
    """The threshold, and what it reads where that is not the score that is shown."""
    threshold = parameters.get("threshold")
    if threshold is None:
        return "no threshold"
    if parameters.get("threshold_on") == "final":
        return f"threshold {threshold:g} on the final score"
    other = parameters.get("mode", "semantic") != "semantic" or parameters.get("rerank") == "cross-encoder"
    return f"threshold {threshold:g}" + (" on the cosine" if other else "")


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


def _confidence(known: Confidence | None, verbose: bool) -> list[str]:
    if known is None or known.average is None:
        return []
    line = f"Confidence {known.level}: {known.reason}; average {known.average:.2f}"
    if verbose:
        line += f", {known.minimum:.2f} to {known.maximum:.2f}, standard deviation {known.deviation:.2f}"
        line += f"; coverage {known.coverage:.0%}"
    return [line]
