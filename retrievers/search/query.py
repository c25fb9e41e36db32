"""What is asked of a collection: queries, checked, embedded and encoded, and the filter that every candidate meets."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from retrievers.config import (
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    EmbeddingConfig,
    RetrieverConfig,
)
from retrievers.config.filters import RANGES, AnyOf, Compare, Expression, Not, comparisons, parse, qdrant_filter
from retrievers.embedding.bm25 import Terms, spell_out
from retrievers.embedding.cache import EmbeddingCache
from retrievers.errors import ConfigError, EmbeddingError, QueryError, nearest
from retrievers.records import ALIASES, METADATA_FIELDS
from retrievers.store import NO_LIMITS, CollectionInfo, Limits, least, store_errors
from retrievers.store.chunks import filter_path, payload_keys

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Document, Filter, SparseVector

Vector: TypeAlias = Union[list[float], "SparseVector", "Document"]
Encoded: TypeAlias = Mapping[str, Vector]
"""The vectors of one query by side: `semantic` its own, `keyword` the weights of its terms where it has any."""
# Payloads that tell which keys a collection has.
SAMPLE = 256


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
        most = f"at most {MAX_QUERY_WORDS} words and {MAX_QUERY_CHARACTERS} characters"
        raise QueryError(f"the query is too long: {words} words and {len(query)} characters; {most}")


def embedded(
    queries: Sequence[str],
    settings: RetrieverConfig,
    info: CollectionInfo,
    embeddings: Any,
    cache: EmbeddingCache | None,
) -> tuple[list[list[float]], list[str]]:
    """Embed queries, abbreviations spelt out; return their vectors, and for each `hit`, `miss` or `off` for the cache.

    Raises:
        EmbeddingError: The model failed, or made a vector of another length than the collection's.
    """
    texts, model = [spell_out(query, settings.abbreviations) for query in queries], cache_key(settings.embedding)
    kept = {text: vector for text in {*texts} if cache and (vector := cache.get(*model, text)) is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in kept]
    fresh = dict(zip(missing, embeddings.embed_queries(missing), strict=True))
    vectors = kept | fresh
    if (other := next((len(vector) for vector in vectors.values() if len(vector) != info.dimension), None)) is not None:
        holds = f"collection {info.name!r} holds vectors of {info.dimension} dimensions"
        raise EmbeddingError(f"{holds}, but {settings.embedding.label} made one of {other}")
    for text, vector in fresh.items() if cache else ():
        cache.put(vector, *model, text)  # type: ignore[union-attr]
    states = ["off" if cache is None else "hit" if text in kept else "miss" for text in texts]
    return [vectors[text] for text in texts], states


def cache_key(config: EmbeddingConfig) -> tuple[str, ...]:
    """Return what tells one model from any other in the cache of query vectors."""
    settings = {name: value for name, value in config.identity.items() if name not in ("provider", "model")}
    if config.base_url:
        settings["base_url"] = config.base_url  # such servers have models of their own under any name
    more = (json.dumps(settings, sort_keys=True, default=str),) if settings else ()
    return (config.provider, config.resolved_model, "search_query", *more)


def encode(vector: Sequence[float], terms: Terms | None) -> Encoded:
    """Return the vectors of a query by side."""
    semantic: dict[str, Vector] = {"semantic": list(vector)}
    # Of a text that the server encodes it is not known here if it holds a term.
    return semantic | {"keyword": terms} if terms and getattr(terms, "indices", True) else semantic


def compile_filters(client: "QdrantClient", config: RetrieverConfig, limits: Limits = NO_LIMITS) -> "Filter | None":
    """Return the filter of the settings for a collection; None when there is none.

    Its first payloads tell which keys it has. Qdrant itself says where a collection in strict mode needs an index.

    Raises:
        ConfigError: The payload has no such field, or no chunk passes.
        StoreError: The store failed.
    """
    if config.filters is None:
        return None
    with store_errors(config.store, config.collection):
        if (compiled := qdrant_filter(config.filters)) is None:
            expression = parse(config.filters)
            sample, _ = client.scroll(config.collection, limit=least(SAMPLE, limits.results), with_payload=True)
            known = {key for record in sample for key in _keys(record.payload or {})}
            keys = {each.field: _key(client, config, each.field, known) for each in comparisons(expression)}
            compiled = _filter(expression, keys)
        # What the server does not take is refused here, not at the first query.
        passed, _ = client.scroll(config.collection, compiled, limit=1, with_payload=False)
    if not passed:
        raise ConfigError(
            f"filters: no chunk of collection {config.collection!r} passes {config.filters}; "
            "`python -m retrievers inspect` shows its fields"
        )
    return compiled


def _keys(payload: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys of a payload, with dots."""
    for key, value in payload.items():
        yield from _keys(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [f"{prefix}{key}"]


def _key(client: "QdrantClient", config: RetrieverConfig, field: str, known: Collection[str]) -> str:
    """Return the payload key of a field, by its canonical name, an alias, or the payload's own name for it.

    Raises:
        ConfigError: The payload has no such key; the nearest names are given.
    """
    from qdrant_client import models

    prefix = f"{config.metadata.nested_under}." if config.metadata.nested_under else ""
    canonical = ALIASES.get(field, field)
    own = payload_keys(canonical, config.metadata) if canonical in METADATA_FIELDS else ()
    possible = (*own, f"{prefix}{field}", field)
    for key in sorted(possible, key=lambda key: key not in known):
        if key in known:
            return key
        if '"' not in key and all(key.split(".")):  # few chunks may have it
            empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=filter_path(key)))
            if client.count(config.collection, models.Filter(must_not=[empty])).count:
                return key
    names = {key.removeprefix(prefix) for key in known}
    names |= {name for name in METADATA_FIELDS if not {*known}.isdisjoint(payload_keys(name, config.metadata))}
    raise ConfigError(f"filters: the collection's payload has no field {field!r}{nearest(field, sorted(names))}")


def _filter(expression: Expression, keys: Mapping[str, str]) -> "Filter":
    """Return the filter of Qdrant that an expression stands for."""
    from qdrant_client import models

    match expression:
        case Compare(field=field, operator=operator, values=values):
            path = filter_path(keys[field])
            if operator in RANGES:
                limits = models.Range(**{operator: float(values[0])})
                return models.Filter(must=[models.FieldCondition(key=path, range=limits)])
            equal: list[Any] = [_equals(path, value) for value in values]
            return models.Filter(must=equal) if operator == "contains" else models.Filter(should=equal)
        case Not(part=part):
            return models.Filter(must_not=[_filter(part, keys)])
        case AnyOf(parts=parts):
            return models.Filter(should=[_filter(part, keys) for part in parts])
        case _:
            return models.Filter(must=[_filter(part, keys) for part in expression.parts])


def _equals(key: str, value: Any) -> Any:
    """Equality; a number by a range, since Qdrant matches 5 and 5.0 by it alike."""
    from qdrant_client import models

    if isinstance(value, int | float) and not isinstance(value, bool):
        return models.FieldCondition(key=key, range=models.Range(gte=float(value), lte=float(value)))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))
