"""Queries: checked, embedded, and encoded for the sides that are searched."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from retrievers.config import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, EmbeddingConfig, KeywordConfig, RetrieverConfig
from retrievers.embedding.bm25 import QueryEncoder, Terms, expand, spell_out
from retrievers.embedding.cache import EmbeddingCache
from retrievers.errors import EmbeddingMismatchError, QueryError
from retrievers.store import CollectionInfo

if TYPE_CHECKING:
    from qdrant_client.models import Document, SparseVector

Vector: TypeAlias = Union[list[float], "SparseVector", "Document"]
Encoded: TypeAlias = Mapping[str, Vector]
"""The vectors of one query by side: `semantic` its own; `keyword` the weights of its terms; `expanded` those of its
terms and their synonyms, where these are searched for by themselves. A side without a term is not there."""


def encode(query: str, vector: Sequence[float], settings: RetrieverConfig, encoder: QueryEncoder) -> Encoded:
    """Return the vectors that the mode reads; a query that no synonym is known for is not expanded."""
    semantic: dict[str, Vector] = {"semantic": list(vector)}
    if settings.mode == "semantic":
        return semantic
    together = terms_of(query, settings.keyword, encoder)
    sides: dict[str, Terms]
    if settings.keyword.expansion == "terms":
        sides = {"keyword": together}
    else:
        terms = encoder.query(query)
        sides = {"keyword": terms} | ({} if together == terms else {"expanded": together})
    # Of a text that the server encodes it is not known here if it holds a term.
    return semantic | {name: terms for name, terms in sides.items() if getattr(terms, "indices", True)}


def terms_of(query: str, keyword: KeywordConfig, encoder: QueryEncoder) -> Terms:
    """Return the weights of a query's terms and their synonyms."""
    synonyms = expand(query, keyword.synonyms)
    return encoder.query(query, synonyms, keyword.synonym_weight)


def embedded(
    queries: Sequence[str],
    settings: RetrieverConfig,
    info: CollectionInfo,
    embeddings: Any,
    cache: EmbeddingCache | None,
) -> tuple[list[list[float]], list[str]]:
    """Embed queries, abbreviations spelt out; return their vectors, and for each `hit`, `miss` or `off` for the cache.

    Raises:
        EmbeddingError: The model failed.
        EmbeddingMismatchError: A vector has another length than the collection's.
    """
    texts = [spell_out(query, settings.abbreviations) for query in queries]
    model = cache_key(settings.embedding)
    cached = {text: cache.get(*model, text) for text in dict.fromkeys(texts)} if cache else {}
    known = {text: vector for text, vector in cached.items() if vector is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    fresh = dict(zip(missing, embeddings.embed_queries(missing), strict=True))
    _check_dimension([*fresh.values(), *known.values()], settings, info)
    for text, vector in fresh.items() if cache else ():
        cache.put(vector, *model, text)  # type: ignore[union-attr]
    states = ["off" if cache is None else "miss" if text in fresh else "hit" for text in texts]
    vectors = known | fresh
    return [vectors[text] for text in texts], states


def cosines_with(query: Vector, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of a query's vector with each of some others, 0 to 1; 0 with one of zeros."""
    vector = np.asarray(query, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    return np.clip((vectors @ vector) / np.where(lengths > 0, lengths, 1), 0, 1)


def cache_key(config: EmbeddingConfig) -> tuple[str, ...]:
    """Return what tells one model from any other in the cache of query vectors."""
    settings = {name: value for name, value in config.identity.items() if name not in ("provider", "model")}
    if config.base_url:
        settings["base_url"] = config.base_url  # such servers have models of their own under any name
    more = (json.dumps(settings, sort_keys=True, default=str),) if settings else ()
    return (config.provider, config.resolved_model, "search_query", *more)


def _check_dimension(vectors: Sequence[Sequence[float]], settings: RetrieverConfig, info: CollectionInfo) -> None:
    for vector in vectors:
        if len(vector) != info.dimension:
            name = settings.embedding.label
            raise EmbeddingMismatchError(
                f"collection {info.name!r} holds vectors of {info.dimension} dimensions, "
                f"but {name} made one of {len(vector)}"
            )


def check_query(query: str) -> None:
    """Refuse a query that cannot be searched for.

    Raises:
        QueryError: It is blank, or longer than 512 words or 4,000 characters, or no text that can be written.
    """
    if not query.strip():
        raise QueryError("the query is empty; expected a question or some words")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"the query holds half a character at place {error.start} (a lone surrogate)") from None
    words = len(query.split())
    if words > MAX_QUERY_WORDS or len(query) > MAX_QUERY_CHARACTERS:
        raise QueryError(
            f"the query is too long: {words} words and {len(query)} characters; "
            f"at most {MAX_QUERY_WORDS} words and {MAX_QUERY_CHARACTERS} characters"
        )
