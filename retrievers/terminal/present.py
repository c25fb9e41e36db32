"""A session and a collection as text for a person, and as JSON; a look at a collection, and an experiment on it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from retrievers.config import RERANKERS, RetrieverConfig, dump
from retrievers.config.files import LOCAL_MODE
from retrievers.errors import ConfigError
from retrievers.records import ALIASES, Confidence, RetrievalSession, RetrievedChunk
from retrievers.retriever.opened import open_retriever
from retrievers.store import CollectionInfo, describe, embedded_folder, open_client, read_info
from retrievers.store.inspection import SAMPLE, PayloadKey, Proposal, sample
from retrievers.store.payload import all_metadata

# Asked of a retriever whose chunks cannot be listed, so that it shows some.
QUESTION = "What is this about?"
WIDTH = 100


def look(
    config: RetrieverConfig, env: Mapping[str, str]
) -> tuple[RetrieverConfig, CollectionInfo | None, list[Mapping[str, Any]]]:
    """Return the settings, the collection, and the payloads of some of its chunks.

    Where the settings name no vector, and the collection has one alone under a name, they are returned with that name.

    For the user's own retriever it is the collection behind it. Where that is unknown there is none, and the payloads
    are the metadata of what it returns for a question.

    Raises:
        RetrievalError: The store or the retriever failed.
    """
    if config.python is None:
        client = open_client(config.store, env)
        try:
            config = _with_only_vector(config, read_info(client, config))
            info = describe(client, config)
            return config, info, sample(client, config, info.limits)
        finally:
            client.close()
    with open_retriever(config, env=env) as retriever:
        if retriever.info is not None:
            return config, retriever.info, [payload for _, payload in retriever.sample(SAMPLE)]
        session = retriever.search(QUESTION)
    if session.error:
        raise ConfigError(f"{session.error} (it was asked {QUESTION!r})")
    return config, None, [_payload(hit.chunk) for hit in session.chunks]


def _with_only_vector(config: RetrieverConfig, info: CollectionInfo) -> RetrieverConfig:
    single = [name for name in info.vectors if name not in info.multivectors]
    if config.vector_name or "" in info.vectors or len(single) != 1:
        return config
    return config.model_copy(update={"vector_name": single[0]})


def write_experiment(file: Path, config: RetrieverConfig, proposal: Proposal, env: Mapping[str, str]) -> None:
    """Write an experiment on what was looked at, with the proposed `metadata`, after opening the retriever by it.

    Raises:
        RetrievalError: The file exists or cannot be written, or the settings do not open the retriever: its embedding
            model is another one, for example.
    """
    proposed = {"text_key": proposal.text_key or config.metadata.text_key, "nested_under": proposal.nested_under}
    mapping = {name: key for name, key in proposal.map.items() if ALIASES.get(key) != name}
    changes: dict[str, Any] = {"metadata": config.metadata.model_copy(update={**proposed, "map": mapping})}
    if config.python is None and config.store.url is None:
        folder = embedded_folder(config.store).absolute()
        changes["store"] = config.store.model_copy(
            update={"path": Path(f"{LOCAL_MODE}{folder}") if config.store.local_mode else folder}
        )
    if config.python is not None and proposal.text_key in (None, "page_content"):
        changes["metadata"] = config.metadata.model_copy(update={"map": mapping})
    settings = config.model_copy(update=changes)
    open_retriever(settings, env=env).close()
    retriever = _differing(dump(settings), dump(RetrieverConfig.model_validate({})))
    name = {} if config.python is not None else {"name": config.collection}
    text = yaml.safe_dump({**name, "retriever": retriever, "dataset": {"path": "golden.jsonl"}}, sort_keys=False)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigError(f"{file}: exists already; name another file with --write") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror})") from error


def retriever_text(config: RetrieverConfig, payloads: Sequence[Mapping[str, Any]]) -> str:
    """Say what was asked of a retriever whose collection is unknown."""
    return (
        f"Retriever    python {config.python}\nCollection   not known: its chunks cannot be listed\n"
        f"Looked at    {len(payloads)} documents, which it returned for {QUESTION!r}"
    )


def _payload(chunk: Any) -> dict[str, Any]:
    stand_ins = {ALIASES[key] for key in chunk.extra if key in ALIASES}
    own = {k: v for k, v in all_metadata(chunk).items() if k not in ("chunk_id", "chunk_text_preview", *stand_ins)}
    return {"page_content": chunk.text, "metadata": own}


def _differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not as by default."""
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    return {
        name: _differing(value, defaults[name])
        if isinstance(value, dict) and isinstance(defaults[name], dict) and name != "map"
        else value
        for name, value in changed.items()
    }


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


def collection_text(info: CollectionInfo, keys: Sequence[PayloadKey], proposal: Proposal, vector_name: str = "") -> str:
    """Render a collection: size, vectors, recorded model, payload keys, the settings that are proposed for it."""
    recorded = info.manifest.get("embedding")
    model = f"{recorded['provider']}:{recorded['model']}" if recorded else "none recorded"
    vectors = ", ".join(f"{name or '(unnamed)'}: {size}" for name, size in info.vectors.items())
    lines = [
        f"Collection   {info.name}",
        f"Points       {info.points:,}{f' of the {info.points + info.lost:,} that were indexed' if info.lost else ''}",
        f"Vectors      {vectors}; distance {info.distance}",
        f"Sparse       {', '.join(info.sparse_vectors) or 'none'}",
        f"Embedded by  {model}",
        f"Index        {', '.join(f'{k} {str(v).lower()}' for k, v in info.index.items()) or 'none recorded'}",
        f"State        {info.manifest.get('state', 'not made by retrievers index')}",
        "",
    ]
    return "\n".join([*lines, payload_text(keys, proposal, vector_name)])


def payload_text(keys: Sequence[PayloadKey], proposal: Proposal, vector_name: str = "") -> str:
    """Render payload keys, and the settings that are proposed for them and for a vector of that name."""
    lines = ["Payload keys (of the first points):"]
    width = max((len(key.key) for key in keys), default=0)
    for key in keys:
        types = ", ".join(f"{kind} × {count}" for kind, count in key.types.items())
        lines.append(f"  {key.key:<{width}}  {types:<12}  {key.example}")
    setting: dict[str, Any] = {"text_key": proposal.text_key or "?", "nested_under": proposal.nested_under}
    if proposal.map:
        setting["map"] = dict(proposal.map)
    named = {"vector_name": vector_name} if vector_name else {}
    lines += [
        "",
        "Proposed setting for your experiment file (check it against the examples above):",
        yaml.safe_dump({"retriever": named | {"metadata": setting}}, sort_keys=False).rstrip(),
        "",
        f"Found under their own names: {', '.join(proposal.same_name) or 'none'}",
        f"Not found: {', '.join(proposal.missing) or 'none'}",
    ]
    return "\n".join(lines)


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
