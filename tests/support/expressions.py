"""Filter expressions for tests: random trees, both ways of writing them, and a brute-force evaluator of payloads."""

from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any

from hypothesis import strategies as st

from retrievers.config.filters import All, AnyOf, Compare, Expression, Not, Operator

SYMBOLS: Mapping[Operator, str] = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
RANGES: Mapping[Operator, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def as_text(expression: Expression) -> str:
    """Return the expression as it is typed, every part in parentheses."""
    if isinstance(expression, Compare):
        field = _literal(expression.field)
        if expression.operator in SYMBOLS:
            return f"{field} {SYMBOLS[expression.operator]} {_literal(expression.values[0])}"
        return f"{field} {expression.operator} [{', '.join(map(_literal, expression.values))}]"
    if isinstance(expression, Not):
        return f"not ({as_text(expression.part)})"
    word = " and " if isinstance(expression, All) else " or "
    return word.join(f"({as_text(part)})" for part in expression.parts)


def as_mapping(expression: Expression) -> dict[str, Any]:
    """Return the expression as YAML or JSON holds it."""
    if isinstance(expression, Compare):
        several = expression.operator in ("in", "contains")
        return {expression.field: {expression.operator: list(expression.values) if several else expression.values[0]}}
    if isinstance(expression, Not):
        return {"not": as_mapping(expression.part)}
    name = "all" if isinstance(expression, All) else "any"
    return {name: [as_mapping(part) for part in expression.parts]}


def holds(expression: Expression, value_of: Callable[[str], Any]) -> bool:
    """Return True if a payload meets the expression, by the language; `value_of` gives a field's value or None."""
    if isinstance(expression, All):
        return all(holds(part, value_of) for part in expression.parts)
    if isinstance(expression, AnyOf):
        return any(holds(part, value_of) for part in expression.parts)
    if isinstance(expression, Not):
        return not holds(expression.part, value_of)
    value = value_of(expression.field)
    found = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if expression.operator in RANGES:
        meets, limit = RANGES[expression.operator], expression.values[0]
        return any(_is_number(one) and meets(one, limit) for one in found)
    held = [any(_same(one, wanted) for one in found) for wanted in expression.values]
    return all(held) if expression.operator == "contains" else any(held)


def trees(conditions: st.SearchStrategy[Compare], size: int = 6) -> st.SearchStrategy[Expression]:
    """Return random expressions of these conditions, AND, OR and NOT nested as it comes."""

    def deeper(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            inner.map(lambda part: Not(part=part)),
            parts.map(lambda several: All(parts=several)),
            parts.map(lambda several: AnyOf(parts=several)),
        )

    return st.recursive(conditions, deeper, max_leaves=size)


def conditions(values: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Compare]:
    """Return conditions on these fields with these values, ranges where a value is a number."""

    def of(field: str) -> st.SearchStrategy[Compare]:
        value = st.sampled_from(values[field])
        several = st.lists(value, min_size=1, max_size=3).map(tuple)
        lists = st.builds(_compare, st.just(field), st.sampled_from(["in", "contains"]), several)
        equal = st.builds(_compare, st.just(field), st.just("eq"), value.map(lambda one: (one,)))
        numbers = [one for one in values[field] if _is_number(one)]
        if not numbers:
            return st.one_of(lists, equal)
        limit = st.sampled_from(numbers).map(lambda one: (one,))
        return st.one_of(lists, equal, st.builds(_compare, st.just(field), st.sampled_from(list(RANGES)), limit))

    return st.sampled_from(sorted(values)).flatmap(of)


def _compare(field: str, operator: Operator, values: tuple[Any, ...]) -> Compare:
    return Compare(field=field, operator=operator, values=values)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, wanted: Any) -> bool:
    """Return True for equal values of one kind: 5 is 5.0, but neither is "5" nor true."""
    if _is_number(value) and _is_number(wanted):
        return bool(value == wanted)
    return type(value) is type(wanted) and bool(value == wanted)
