"""Queries: checked, embedded, and encoded for the sides that are searched."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retrievers.config import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder, TermWeights, expand, spell_out
from retrievers.embedding.cache import EmbeddingCache
from retrievers.errors import EmbeddingMismatchError, QueryError
from retrievers.store import CollectionInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedQuery:
    """A query as it is searched for.

    Attributes:
        vector: Its vector.
        terms: In keyword and hybrid mode the weights of its terms.
        expanded: The weights of its terms and their synonyms, where those are searched for by themselves.
    """

    vector: Sequence[float]
    terms: TermWeights | None = None
    expanded: TermWeights | None = None


def encode(query: str, vector: Sequence[float], settings: RetrieverConfig, encoder: Bm25Encoder) -> EncodedQuery:
    """A query for the sides that its mode searches; a query that no synonym is known for is not expanded."""
    if settings.mode == "semantic":
        return EncodedQuery(vector=vector)
    keyword = settings.keyword
    synonyms = expand(query, keyword.synonyms)
    counts = keyword.term_counts
    together = encoder.query(query, synonyms, keyword.synonym_weight, term_counts=counts)
    if keyword.expansion == "terms":
        return EncodedQuery(vector=vector, terms=together)
    terms = encoder.query(query, term_counts=counts)
    return EncodedQuery(vector=vector, terms=terms, expanded=None if together == terms else together)


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
    model = (settings.embedding.provider, settings.embedding.resolved_model, "search_query")
    kept = {text: cache.get(*model, text) for text in dict.fromkeys(texts)} if cache else {}
    known = {text: vector for text, vector in kept.items() if vector is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    fresh = dict(zip(missing, embeddings.embed_queries(missing), strict=True))
    _check_dimension([*fresh.values(), *known.values()], settings, info)
    for text, vector in fresh.items() if cache else ():
        cache.put(vector, *model, text)  # type: ignore[union-attr]
    states = ["off" if cache is None else "miss" if text in fresh else "hit" for text in texts]
    vectors = known | fresh
    return [vectors[text] for text in texts], states


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
