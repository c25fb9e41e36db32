"""Filter expressions to Qdrant filters, checked against what the collection's payload really holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.config.filters import (
    LARGEST,
    RANGES,
    AnyOf,
    Compare,
    Expression,
    Not,
    Scalar,
    comparisons,
    parse,
    qdrant_filter,
)
from retrievers.errors import ConfigError, nearest
from retrievers.records import ALIASES, METADATA_FIELDS
from retrievers.store import NO_LIMITS, CollectionInfo, store_errors
from retrievers.store.inspection import SAMPLE, sample
from retrievers.store.payload import filter_path, payload_keys

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Kind = Literal["text", "number", "flag"]
# The types of values by what a filter can compare them with; a store compares within a kind alone.
KINDS: Mapping[str, Kind] = {"str": "text", "int": "number", "float": "number", "bool": "flag"}
HELD: Mapping[str, str] = {"integer": "int", "float": "float", "bool": "bool"}
"""Types of index to the types of value under them; the others hold text."""
SERVED_BY: Mapping[str, tuple[str, ...]] = {
    "str": ("keyword", "uuid"),
    "int": ("integer", "float"),
    "float": ("float", "integer"),
    "bool": ("bool",),
}
"""Types of value to the types of index by which a condition on one is met, the fitting one first."""


@dataclass(frozen=True, kw_only=True)
class PayloadSchema:
    """The payload keys of a collection, with dots, and the types of value seen under each."""

    types: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, payloads: Sequence[Mapping[str, Any]]) -> "PayloadSchema":
        """Read the schema off some payloads; the types of a list are those of its items, a null or [] has none."""
        types: dict[str, set[str]] = {}
        for payload in payloads:
            for key, value in _flat(payload, ""):
                items = value if isinstance(value, list) else [value]
                types.setdefault(key, set()).update(type(item).__name__ for item in items if item is not None)
        return cls(types={key: frozenset(names) for key, names in types.items()})


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A condition that nothing of the types seen under its key can meet.

    Attributes:
        key: The payload key.
        kind: Kind of value that the key would need.
        message: Fault and remedy.
    """

    key: str
    kind: Kind
    message: str


def resolve_key(field: str, config: MetadataConfig, schema: PayloadSchema) -> str:
    """Return the payload key of a field, by its canonical name, an alias, or the payload's own name for it.

    Raises:
        ConfigError: The payload has no such key; the nearest names are given.
    """
    path = next((key for key in possible_keys(field, config) if key in schema.types), None)
    if path is None:
        prefix = f"{config.nested_under}." if config.nested_under else ""
        names = {key.removeprefix(prefix) for key in schema.types}
        names |= {name for name in METADATA_FIELDS if not schema.types.keys().isdisjoint(payload_keys(name, config))}
        raise ConfigError(f"filters: the collection's payload has no field {field!r}{nearest(field, sorted(names))}")
    return path


def possible_keys(field: str, config: MetadataConfig) -> list[str]:
    """Return the payload keys that a field name may mean, the likeliest first."""
    canonical = ALIASES.get(field, field)
    keys = [*payload_keys(canonical, config)] if canonical in METADATA_FIELDS else []
    return [*keys, f"{config.nested_under}.{field}" if config.nested_under else field, field]


def misfits(expression: Expression, config: MetadataConfig, schema: PayloadSchema) -> Iterator[Misfit]:
    """Return every value of a filter whose kind never occurs under its key, so that it matches nothing.

    A key without any value seen says nothing about its kind.

    Raises:
        ConfigError: A field does not exist.
    """
    for condition in comparisons(expression):
        key = resolve_key(condition.field, config, schema)
        types = schema.types[key]
        kinds = {KINDS.get(name) for name in types}
        for value in condition.values:
            kind = KINDS[type(value).__name__]
            if kinds and kind not in kinds:
                ranged = condition.operator in RANGES
                problem = "a range needs a number, but" if ranged else f"nothing can equal the {_shown(value)}:"
                remedy = "" if ranged else f"; {_remedy(value, kinds)}"
                message = f"filters: {condition.field}: {problem} the payload holds {_names(types)} there{remedy}"
                yield Misfit(key=key, kind=kind, message=message)


def _shown(value: Scalar) -> str:
    if isinstance(value, str):
        return f"text {value!r}"
    return f"value {str(value).lower()}" if isinstance(value, bool) else f"number {value}"


def _remedy(value: Scalar, kinds: "set[Kind | None]") -> str:
    """Suggest a value of a kind that occurs and means the same; else name the expected kind."""
    if not isinstance(value, str):
        plain = str(value).lower()
        return f'write "{plain}" in quotes' if "text" in kinds else f"expected {_expected(kinds)}"
    if ("number" in kinds and _reads_as_number(value)) or ("flag" in kinds and value.lower() in ("true", "false")):
        return f"write {value.strip()} without quotes"
    return f"expected {_expected(kinds)}"


def _expected(kinds: "set[Kind | None]") -> str:
    words = {"text": "text", "number": "a number", "flag": "true or false"}
    return " or ".join(word for kind, word in words.items() if kind in kinds) or "another field"


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _names(types: frozenset[str]) -> str:
    words = {"str": "text", "int": "whole numbers", "float": "numbers", "bool": "true/false", "dict": "objects"}
    named = types - {"int"} if "float" in types else types
    return " and ".join(sorted(words.get(name, name) for name in named))


def _flat(payload: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in payload.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


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
    if own := qdrant_filter(config.filters):
        return own
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
