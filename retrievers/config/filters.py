"""Filter expressions: one small language, written as text or as YAML/JSON, read into one tree. Pure.

    module = module-1-ros2 and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5

    module: module-1-ros2
    any: [{tags: {contains: qos}}, {chunk_token_count: {gte: 200}}]
    not: {sidebar_position: {gt: 5}}

Text has `=`, `!=`, `<`, `<=`, `>`, `>=`, `in [a, b]`, `contains x` (or `contains [x, y]`, all of them),
`and`, `or`, `not` and parentheses; quotes hold what would be read otherwise. In a mapping every entry must hold;
a value is an equality, a list an any-of, a mapping an operator. 5 is a number and "5" text: where a collection is
searched, a value that its payload cannot equal is an error (`retrievers.store.payload_schema`).
"""

from collections.abc import Mapping
from typing import Any

from retrievers.config.filter_expressions import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    OPERATORS,
    All,
    AnyOf,
    Expression,
    Not,
    compare,
    comparisons,
    depth,
    too_deep,
)
from retrievers.config.filter_text import parse_text
from retrievers.errors import ConfigError, nearest
from retrievers.text.quoting import quoted


def parse(source: str | Mapping[str, Any]) -> Expression:
    """Read a filter, written as text or as a mapping.

    Raises:
        ConfigError: It is malformed; where and what was expected.
    """
    try:
        expression = parse_text(source) if isinstance(source, str) else _tree(source, "filters")
        nested = depth(expression)
    # Deep nesting can exhaust the stack before its depth is measured.
    except RecursionError:
        raise too_deep() from None
    if nested > MAX_DEPTH:
        raise too_deep()
    conditions = sum(1 for _ in comparisons(expression))
    if conditions > MAX_CONDITIONS:
        raise ConfigError(
            f"filters: expected at most {MAX_CONDITIONS:,} conditions, got {conditions:,}; "
            "write `field in [a, b]` for many values of a field"
        )
    return expression


def _tree(source: Any, where: str) -> Expression:
    if not isinstance(source, Mapping) or not source:
        raise ConfigError(f"{where}: expected a mapping of conditions, got {quoted(source)}")
    parts = [_entry(str(key), value, where) for key, value in source.items()]
    return parts[0] if len(parts) == 1 else All(parts=tuple(parts))


def _entry(key: str, value: Any, where: str) -> Expression:
    path = f"{where}.{key}"
    if key in ("all", "and", "any", "or"):
        if not isinstance(value, list) or not value:
            raise ConfigError(f"{path}: expected a list of conditions, got {quoted(value)}")
        parts = tuple(_tree(part, f"{path}.{number}") for number, part in enumerate(value))
        return All(parts=parts) if key in ("all", "and") else AnyOf(parts=parts)
    if key == "not":
        return Not(part=_tree(value, path))
    if isinstance(value, list):
        return compare(key, "in", value, where)
    if not isinstance(value, Mapping):
        return compare(key, "eq", [value], where)
    conditions = [_operator(key, name, operand, where) for name, operand in value.items()]
    if not conditions:
        raise ConfigError(f"{path}: expected an operator such as {{gte: 200}}, got {quoted(value)}")
    return conditions[0] if len(conditions) == 1 else All(parts=tuple(conditions))


def _operator(field: str, name: Any, operand: Any, where: str) -> Expression:
    if name == "ne":
        return Not(part=compare(field, "eq", [operand], where))
    if name not in OPERATORS:
        raise ConfigError(f"{where}.{field}: unknown operator {quoted(name)}{nearest(str(name), [*OPERATORS, 'ne'])}")
    is_list = isinstance(operand, list) and name in ("in", "contains")
    return compare(field, name, operand if is_list else [operand], where)
