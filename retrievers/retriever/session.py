"""Searches and failures as sessions, and chunks as LangChain documents. Pure, but for the ids of sessions."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

from retrievers.config import RetrieverConfig
from retrievers.errors import QueryError, RetrievalError
from retrievers.records import RetrievalSession, RetrievedChunk
from retrievers.search import confidence
from retrievers.search.candidate_table import Candidates
from retrievers.search.selection import BELOW_SHOWN, best_score, select
from retrievers.store import CollectionInfo
from retrievers.store.payload import all_metadata
from retrievers.text import language


def answered(candidates: Candidates, settings: RetrieverConfig, info: CollectionInfo) -> RetrievalSession:
    """Return the session of a query that was searched for, with its vector.

    Args:
        candidates: Its candidates; the chunks of those that it shows have been read.
        settings: Those that it was searched by.
        info: The collection that it was searched in.
    """
    kept, below = select(candidates, settings)
    chunks = tuple(candidates.at(kept))
    below_threshold = tuple(candidates[index] for index in below[:BELOW_SHOWN])
    best_below = best_score(candidates, below, settings)
    vector = None if candidates.vector is None else tuple(candidates.vector.tolist())
    threshold = settings.used_threshold
    confident = confidence.confidence(chunks, settings.top_k, threshold, on=settings.threshold_on)
    # A model of several languages finds what is asked for in any; and telling a language takes as long as a search.
    on_language = () if confident.level == "high" else _on_language(candidates.text, chunks or below_threshold)
    return RetrievalSession(
        session_id=uuid.uuid4().hex,
        query=candidates.text,
        parameters=_parameters(settings),
        status="success",
        chunks=chunks,
        below_threshold=below_threshold,
        candidates_found=len(candidates),
        filtered_out=len(below),
        embedding={**_embedding(settings, info), "vector": vector},
        timings=candidates.timings,
        cache=candidates.cache,
        confidence=confident,
        warnings=(
            *confidence.warnings(
                chunks, len(below), best_below, threshold, could_spread=not settings.reranker.diversifies
            ),
            *on_language,
        ),
        suggestions=() if chunks else confidence.suggestions(best_below, other_side=_other_side(settings, info)),
    )


def without_vector(session: RetrievalSession) -> RetrievalSession:
    """Return a session whose `embedding` names the model alone."""
    return replace(session, embedding={key: value for key, value in session.embedding.items() if key != "vector"})


def failed(
    query: str, error: RetrievalError, settings: RetrieverConfig, info: CollectionInfo | None
) -> RetrievalSession:
    """Return the session of a failure; a blank query is an empty success with a message."""
    blank = isinstance(error, QueryError) and not query.strip()
    return RetrievalSession(
        session_id=uuid.uuid4().hex,
        query=query,
        parameters=_parameters(settings),
        status="success" if blank else "timeout" if error.timed_out else "error",
        error=None if blank else str(error),
        warnings=(str(error),) if blank else (),
        embedding=_embedding(settings, info),
    )


def document(hit: RetrievedChunk) -> Document:
    """A chunk as a LangChain document, its scores and places in the metadata."""
    metadata: dict[str, Any] = {"score": hit.score, "score_scale": hit.score_scale, "rank": hit.rank}
    if hit.distance != "cosine":
        metadata["distance"] = hit.distance
    metadata = {**all_metadata(hit.chunk), **metadata, "scores": dict(hit.scores)}
    if hit.original_rank is not None:
        metadata |= {"original_rank": hit.original_rank, "original_score": hit.original_score}
    return Document(id=hit.chunk.point_id, page_content=hit.chunk.text, metadata=metadata)


def _on_language(query: str, hits: Sequence[RetrievedChunk]) -> Iterator[str]:
    languages = language.differing(query, [hit.chunk.text for hit in hits])
    if languages:
        yield f"the query seems to be {languages.asked}, and what was found is {languages.found}"


def _other_side(settings: RetrieverConfig, info: CollectionInfo) -> confidence.Side | None:
    """Return a side that the collection could be searched by, and is not."""
    if settings.mode == "keyword":
        return "meaning"
    return "keywords" if settings.mode == "semantic" and settings.keyword.vector_name in info.sparse_vectors else None


def _parameters(settings: RetrieverConfig) -> dict[str, Any]:
    own = {} if settings.python is None else {"python": settings.python}
    always = ("collection", "mode", "top_k", "used_threshold", "candidates")
    parameters = own | {key.removeprefix("used_"): getattr(settings, key) for key in always}
    if settings.used_distance != "cosine":
        parameters["distance"] = settings.used_distance
    if settings.mode == "hybrid":
        parameters["fusion"] = settings.used_fusion
    chosen = {"rerank": settings.rerank, "threshold_on": settings.threshold_on}
    parameters |= {key: value for key, value in chosen.items() if value not in ("none", "each")}
    given = {name: getattr(settings, name) for name in ("search_params", "filters", "group_by")}
    return parameters | {name: value for name, value in given.items() if value is not None}


def _embedding(settings: RetrieverConfig, info: CollectionInfo | None) -> dict[str, Any]:
    if info is None:
        return {}
    if settings.python is not None:  # the model is in the caller's vector store
        return {"dimension": info.dimension}
    config = settings.embedding
    return {"provider": config.provider, "model": config.resolved_model, "dimension": info.dimension}
