"""The types of a collection's payload, field by field, and filters that can never match them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from retrievers.config import MetadataConfig
from retrievers.config.filter_expressions import RANGES, Expression, Scalar, comparisons
from retrievers.errors import ConfigError, nearest
from retrievers.records import ALIASES, METADATA_FIELDS
from retrievers.store.payload import payload_keys

Kind = Literal["text", "number", "flag"]
# The types of values by what a filter can compare them with; a store compares within a kind alone.
KINDS: Mapping[str, Kind] = {"str": "text", "int": "number", "float": "number", "bool": "flag"}


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
