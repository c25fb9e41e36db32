"""Filter expressions: conditions on the fields of a chunk, joined by and, or, not. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from retrievers.errors import ConfigError
from retrievers.text.quoting import quoted

Operator = Literal["eq", "in", "contains", "gt", "gte", "lt", "lte"]
Scalar = str | int | float | bool
RANGES = ("gt", "gte", "lt", "lte")
OPERATORS: tuple[Operator, ...] = ("eq", "in", "contains", "gt", "gte", "lt", "lte")
MAX_DEPTH = 50
MAX_CONDITIONS = 1_000
MAX_VALUES = 10_000
LARGEST = 1e308


@dataclass(frozen=True, kw_only=True, slots=True)
class Compare:
    """One condition on one field; `values` holds one value but for `in` and `contains`."""

    field: str
    operator: Operator
    values: tuple[Scalar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class All:
    """Every part must hold."""

    parts: "tuple[Expression, ...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnyOf:
    """At least one part must hold."""

    parts: "tuple[Expression, ...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Not:
    """The part must not hold."""

    part: "Expression"


Expression = Compare | All | AnyOf | Not


def comparisons(expression: Expression) -> Iterator[Compare]:
    """Yield every condition of an expression."""
    if isinstance(expression, Compare):
        yield expression
    elif isinstance(expression, Not):
        yield from comparisons(expression.part)
    else:
        for part in expression.parts:
            yield from comparisons(part)


def depth(expression: Expression) -> int:
    """Return the depth of nesting of an expression; 0 for a condition."""
    if isinstance(expression, Compare):
        return 0
    parts = (expression.part,) if isinstance(expression, Not) else expression.parts
    return 1 + max(map(depth, parts))


def too_deep() -> ConfigError:
    """Return the error for an expression that is nested deeper than `MAX_DEPTH`."""
    return ConfigError(f"filters: nested more than {MAX_DEPTH} deep; write it with fewer parentheses and `not`")


def compare(field: str, operator: Operator, values: Sequence[Any], where: str) -> Compare:
    """Check a condition.

    Raises:
        ConfigError: The list is empty, a value is not a plain one, or a range is not over a number.
    """
    if not values:
        raise ConfigError(
            f"{where}: {field}: the list of values is empty, so nothing could match; leave the filter out"
        )
    if len(values) > MAX_VALUES:
        raise ConfigError(f"{where}: {field}: expected at most {MAX_VALUES:,} values, got {len(values):,}")
    for value in values:
        if not isinstance(value, str | int | float | bool):
            raise ConfigError(f"{where}: {field}: expected text, a number or true/false, got {quoted(value)}")
        if not isinstance(value, str) and not -LARGEST <= value <= LARGEST:  # NaN is not either
            raise ConfigError(f"{where}: {field}: expected a finite number, got {quoted(value)}")
    if operator in RANGES and (isinstance(values[0], str | bool)):
        raise ConfigError(f"{where}: {field}: a range needs a number, got {quoted(values[0])}")
    return Compare(field=field, operator=operator, values=tuple(values))
