"""Queries, checked and encoded, and the filter that every candidate must meet."""

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeAlias, Union

from retrievers.config import RetrieverConfig, too_long
from retrievers.config.filters import conditions, is_qdrants, to_filter
from retrievers.config.layers import flatten
from retrievers.errors import ConfigError, QueryError, nearest
from retrievers.records import METADATA_FIELDS
from retrievers.store.chunks import filter_path, possible_keys, records
from retrievers.store.chunks import payload_keys as keys_of
from retrievers.store.collection import SAMPLE
from retrievers.store.opening import store_errors
from retrievers.text.shown import quoted

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Filter, SparseVector

Vector: TypeAlias = Union[list[float], "SparseVector"]
Encoded: TypeAlias = Mapping[str, Vector]
"""The vectors of one query by side: `semantic` is its embedding, `keyword` the weights of its terms if it has any."""


def check_query(query: str) -> None:
    """Refuse a query that cannot be searched for.

    Raises:
        QueryError: The query is no text, is blank, is longer than 512 words or 4,000 characters, or holds half of a
            character.
    """
    if not isinstance(query, str):
        raise QueryError(f"expected a query that is a text, got {type(query).__name__}")
    if not query.strip():
        raise QueryError("the query is empty; expected a question or some words")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"the query holds half a character at place {error.start} (a lone surrogate)") from None
    if fault := too_long(query):
        raise QueryError(f"the query is {fault}")


def encode(vector: Sequence[float], terms: "SparseVector | None") -> Encoded:
    """Return the vectors of a query by side."""
    semantic: dict[str, Vector] = {"semantic": list(vector)}
    return semantic | {"keyword": terms} if terms and terms.indices else semantic


def compile_filters(client: "QdrantClient", config: RetrieverConfig) -> "Filter | None":
    """Return the filter of the settings with the payload's keys in place of names; None if there is no filter.

    If a collection in strict mode lacks an index for the filter, the error of Qdrant says so.

    Raises:
        ConfigError: A field does not exist, or the filter lets no chunk through.
        StoreError: The store failed.
    """
    if config.filters is None:
        return None
    compiled = to_filter(config.filters)
    with store_errors(config.store, config.collection):
        if not is_qdrants(config.filters):
            sample = records(client, config, count=SAMPLE)
            keys = {key for record in sample for key, _ in flatten(record.payload or {})}
            for condition in conditions(compiled):
                condition.key = filter_path(_key(client, config, condition.key, keys))
        # A strict server may forbid to count.
        if not any(records(client, config, among=compiled, count=1)):
            fault = f"filters: {quoted(config.filters)} lets no chunk of collection {config.collection!r} through"
            remedy = "numbers and text differ (`n = 5`, `n = '5'`); see its values by python -m retrievers inspect"
            raise ConfigError(f"{fault}; {remedy}")
    return compiled


def _key(client: "QdrantClient", config: RetrieverConfig, field: str, keys: Set[str]) -> str:
    """Return the payload key of a field that is named canonically, by an alias, or as in the payload.

    Raises:
        ConfigError: The payload has no such key. The message gives the nearest names.
    """
    from qdrant_client import models

    for key in possible_keys(field, config.metadata):
        has_it = models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=filter_path(key)))])
        can_be = '"' not in key and all(key.split("."))  # few chunks may have it
        if key in keys or (can_be and any(records(client, config, among=has_it, count=1))):
            return key
    names = {key.removeprefix(f"{config.metadata.nested_under}.") for key in keys}
    names |= {name for name in METADATA_FIELDS if not keys.isdisjoint(keys_of(name, config.metadata))}
    raise ConfigError(f"filters: the collection's payload has no field {field!r}{nearest(field, sorted(names))}")
