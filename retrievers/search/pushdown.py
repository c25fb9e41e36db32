"""Filter expressions to Qdrant filters, checked against what the collection's payload really holds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.config.filter_expressions import LARGEST, RANGES, AnyOf, Compare, Expression, Not, comparisons
from retrievers.config.filters import parse
from retrievers.errors import ConfigError
from retrievers.store import NO_LIMITS, CollectionInfo, store_errors
from retrievers.store.inspection import SAMPLE, sample
from retrievers.store.payload import filter_path
from retrievers.store.payload_schema import Kind, PayloadSchema, misfits, possible_keys, resolve_key

HELD: Mapping[str, str] = {"integer": "int", "float": "float", "bool": "bool"}
"""Types of index to the types of value under them; the others hold text."""
SERVED_BY: Mapping[str, tuple[str, ...]] = {
    "str": ("keyword", "uuid"),
    "int": ("integer", "float"),
    "float": ("float", "integer"),
    "bool": ("bool",),
}
"""Types of value to the types of index by which a condition on one is met, the fitting one first."""

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models


def compile_filters(
    client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo | None = None
) -> "models.Filter | None":
    """Compile the configured filters for a collection, checked against its payload; None when there are none.

    The first 256 payloads tell what it holds. Only where a filter does not go with them is the whole collection
    asked: for a field that none of them has, for a value of a kind that none of them holds. A collection in strict mode
    that filters by keys with an index alone is not asked: the types of its indexes tell.

    Args:
        client: An open client.
        config: Names the collection and the filters.
        info: The collection's own description; without it no limits are assumed.

    Raises:
        ConfigError: A field does not exist, or nothing under it is of the kind of a value; every such value is named.
        StoreError: The store failed.
    """
    if config.filters is None:
        return None
    expression = parse(config.filters)
    payloads = sample(client, config, info.limits if info else NO_LIMITS)
    if info and not info.limits.unindexed:
        return filter_by_index(expression, config, info, payloads)
    whole = len(payloads) < SAMPLE
    kinds = PayloadSchema.of(payloads).types
    for field in {condition.field for condition in comparisons(expression)}:
        keys = possible_keys(field, config.metadata)
        if kinds.keys().isdisjoint(keys):
            payloads += _holding(client, config, keys)
    schema = PayloadSchema.of(payloads)
    unmet = [
        misfit.message
        for misfit in misfits(expression, config.metadata, schema)
        if whole or not _holds(client, config, misfit.key, misfit.kind)
    ]
    if unmet:
        raise ConfigError("\n".join(dict.fromkeys(unmet)))
    return to_qdrant(expression, config.metadata, schema)


def filter_by_index(
    expression: Expression, config: RetrieverConfig, info: CollectionInfo, payloads: Sequence[Mapping[str, Any]]
) -> "models.Filter":
    """Return the Qdrant filter for a collection that filters by keys with an index alone.

    Raises:
        ConfigError: A field does not exist, nothing under it is of the kind of a value, or its key has no index that
            serves the condition; the message says how to make one.
    """
    held = {key.replace('"', ""): frozenset({HELD.get(kind, "str")}) for key, kind in info.indexed.items()}
    schema = PayloadSchema(types={**PayloadSchema.of(payloads).types, **held})
    unmet = [misfit.message for misfit in misfits(expression, config.metadata, schema)]
    for condition in comparisons(expression):
        key = resolve_key(condition.field, config.metadata, schema)
        kinds = SERVED_BY[type(condition.values[0]).__name__]
        if info.indexed.get(filter_path(key)) not in kinds:
            unmet.append(
                f"filters: {condition.field}: collection {info.name!r} is in strict mode and filters by keys with an "
                f"index alone; make one: client.create_payload_index({info.name!r}, {filter_path(key)!r}, {kinds[0]!r})"
            )
    if unmet:
        raise ConfigError("\n".join(dict.fromkeys(unmet)))
    return to_qdrant(expression, config.metadata, schema)


def to_qdrant(expression: Expression, config: MetadataConfig, schema: PayloadSchema) -> "models.Filter":
    """Return the Qdrant filter that an expression stands for.

    Raises:
        ConfigError: A field does not exist.
    """
    from qdrant_client import models

    if isinstance(expression, Compare):
        path = filter_path(resolve_key(expression.field, config, schema))
        return models.Filter(must=_conditions(expression, path))
    if isinstance(expression, Not):
        return models.Filter(must_not=[to_qdrant(expression.part, config, schema)])
    parts: list[Any] = [to_qdrant(part, config, schema) for part in expression.parts]
    return models.Filter(should=parts) if isinstance(expression, AnyOf) else models.Filter(must=parts)


def _holding(client: "QdrantClient", config: RetrieverConfig, keys: Sequence[str]) -> list[Mapping[str, Any]]:
    """Payloads that hold a value under any of the keys, which a small share of a collection may do."""
    from qdrant_client import models

    paths = [filter_path(key) for key in dict.fromkeys(keys) if '"' not in key and all(key.split("."))]
    filled = [models.Filter(must_not=[_empty(path)]) for path in paths]
    if not filled:
        return []
    with store_errors(config.store, config.collection):
        records, _ = client.scroll(config.collection, models.Filter(should=filled), limit=SAMPLE, with_payload=True)
    return [record.payload or {} for record in records]


def _holds(client: "QdrantClient", config: RetrieverConfig, key: str, kind: Kind) -> bool:
    """Return True if any point has a value of that kind under a key; text is any value of no other kind."""
    from qdrant_client import models

    path = filter_path(key)
    number: list[Any] = [models.FieldCondition(key=path, range=models.Range(gte=-LARGEST, lte=LARGEST))]
    flag: list[Any] = [models.FieldCondition(key=path, match=models.MatchValue(value=value)) for value in (True, False)]
    of_kind: Mapping[Kind, models.Filter] = {
        "number": models.Filter(must=number),
        "flag": models.Filter(should=flag),
        "text": models.Filter(must_not=[_empty(path), *number, *flag]),
    }
    with store_errors(config.store, config.collection):
        records, _ = client.scroll(config.collection, of_kind[kind], limit=1, with_payload=False)
    return bool(records)


def _empty(path: str) -> Any:
    from qdrant_client import models

    return models.IsEmptyCondition(is_empty=models.PayloadField(key=path))


def _conditions(condition: Compare, key: str) -> list[Any]:
    from qdrant_client import models

    if condition.operator in RANGES:
        limits = {condition.operator: float(condition.values[0])}
        return [models.FieldCondition(key=key, range=models.Range(**limits))]
    if condition.operator == "contains":
        return [_equals(key, value) for value in condition.values]
    if condition.operator == "eq":
        return [_equals(key, condition.values[0])]
    return [models.Filter(should=[_equals(key, value) for value in condition.values])]


def _equals(key: str, value: Any) -> Any:
    """Equality; a number by a range, since Qdrant matches 5 and 5.0 by it alike."""
    from qdrant_client import models

    if isinstance(value, int | float) and not isinstance(value, bool):
        return models.FieldCondition(key=key, range=models.Range(gte=float(value), lte=float(value)))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))
