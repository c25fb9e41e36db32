"""Filter expressions to Qdrant filters, checked against what the collection's payload really holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.connection import store_errors
from retrievers.errors import ConfigError, nearest
from retrievers.filters import RANGES, AnyOf, Compare, Expression, Not, comparisons, parse
from retrievers.inspection import SAMPLE, sample
from retrievers.payload import filter_path, payload_keys
from retrievers.records import ALIASES, METADATA_FIELDS

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models


@dataclass(frozen=True, kw_only=True)
class PayloadSchema:
    """The payload keys of a collection, with dots, and the types of value seen under each."""

    types: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, payloads: Sequence[Mapping[str, Any]]) -> "PayloadSchema":
        """Read the schema off some payloads; the types of a list are those of its items, an empty one has none."""
        types: dict[str, set[str]] = {}
        for payload in payloads:
            for key, value in _flat(payload, ""):
                items = value if isinstance(value, list) else [value]
                types.setdefault(key, set()).update(type(item).__name__ for item in items)
        return cls(types={key: frozenset(names) for key, names in types.items()})


def resolve_key(field: str, config: MetadataConfig, schema: PayloadSchema) -> str:
    """The payload key of a field, by its canonical name, an alias, or the payload's own name for it.

    Raises:
        ConfigError: The payload has no such key; the nearest names are given.
    """
    found = next((key for key in possible_keys(field, config) if key in schema.types), None)
    if found is None:
        prefix = f"{config.nested_under}." if config.nested_under else ""
        known = {key.removeprefix(prefix) for key in schema.types}
        known |= {name for name in METADATA_FIELDS if not schema.types.keys().isdisjoint(payload_keys(name, config))}
        raise ConfigError(f"filters: the collection's payload has no field {field!r}{nearest(field, sorted(known))}")
    return found


def possible_keys(field: str, config: MetadataConfig) -> list[str]:
    """The payload keys that a field may be meant by, the likeliest first."""
    canonical = ALIASES.get(field, field)
    keys = [*payload_keys(canonical, config)] if canonical in METADATA_FIELDS else []
    return [*keys, f"{config.nested_under}.{field}" if config.nested_under else field, field]


def check(expression: Expression, config: MetadataConfig, schema: PayloadSchema) -> None:
    """Make sure that every field exists and that ranges are over numbers.

    Raises:
        ConfigError: Saying which field, and what it holds.
    """
    for condition in comparisons(expression):
        key = resolve_key(condition.field, config, schema)
        types = schema.types[key]
        if condition.operator in RANGES and not types & {"int", "float"}:
            raise ConfigError(
                f"filters: {condition.field}: a range needs a number, but the payload holds {_names(types)} there"
            )


def compile_filters(client: "QdrantClient", config: RetrieverConfig) -> "models.Filter | None":
    """The configured filters for a collection, checked against its payload; None when there are none.

    The first 256 payloads tell what it holds; a field that none of them has is looked for in the whole collection.

    Raises:
        ConfigError: A field does not exist, or a range is not over numbers.
        StoreError: The store failed.
    """
    if config.filters is None:
        return None
    expression = parse(config.filters)
    payloads = sample(client, config)
    known = PayloadSchema.of(payloads).types
    for field in {condition.field for condition in comparisons(expression)}:
        keys = possible_keys(field, config.metadata)
        if known.keys().isdisjoint(keys):
            payloads += _holding(client, config, keys)
    schema = PayloadSchema.of(payloads)
    check(expression, config.metadata, schema)
    return to_qdrant(expression, config.metadata, schema)


def _holding(client: "QdrantClient", config: RetrieverConfig, keys: Sequence[str]) -> list[Mapping[str, Any]]:
    """Payloads that hold a value under any of the keys, which a small share of a collection may do."""
    from qdrant_client import models

    paths = [filter_path(key) for key in dict.fromkeys(keys) if '"' not in key and all(key.split("."))]
    filled = [
        models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=path))]) for path in paths
    ]
    if not filled:
        return []
    with store_errors(config.store, config.collection):
        records, _ = client.scroll(config.collection, models.Filter(should=filled), limit=SAMPLE, with_payload=True)
    return [record.payload or {} for record in records]


def to_qdrant(expression: Expression, config: MetadataConfig, schema: PayloadSchema) -> "models.Filter":
    """The Qdrant filter that an expression stands for.

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


def _names(types: frozenset[str]) -> str:
    words = {"str": "text", "int": "whole numbers", "float": "numbers", "bool": "true/false"}
    return " and ".join(sorted(words.get(name, name) for name in types))


def _flat(payload: Mapping[str, Any], prefix: str) -> Any:
    for key, value in payload.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
