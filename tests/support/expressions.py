"""Filter expressions for tests: random trees, how they are typed, and a brute-force evaluator of payloads.

A tree is a condition `(field, operator, *values)`, `("not", tree)`, `("and", *trees)` or `("or", *trees)`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

from hypothesis import strategies as st

Tree: TypeAlias = tuple[Any, ...]
RANGES: Mapping[str, Callable[[Any, Any], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}


def as_text(tree: Tree) -> str:
    if tree[0] in ("and", "or"):
        return f" {tree[0]} ".join(f"({as_text(part)})" for part in tree[1:])
    if tree[0] == "not":
        return f"not ({as_text(tree[1])})"
    field, operator, *values = tree
    listed = operator in ("in", "contains")
    return f"{json.dumps(field)} {operator} {'[' * listed}{', '.join(map(json.dumps, values))}{']' * listed}"


def holds(tree: Tree, value_of: Callable[[str], Any]) -> bool:
    """Return True if a payload meets the expression, by the language; `value_of` gives a field's value or None."""
    if tree[0] in ("and", "or"):
        return (all if tree[0] == "and" else any)(holds(part, value_of) for part in tree[1:])
    if tree[0] == "not":
        return not holds(tree[1], value_of)
    field, operator, *values = tree
    value = value_of(field)
    found = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if operator in RANGES:
        return any(_is_number(each) and RANGES[operator](each, values[0]) for each in found)
    held = [any(_same(each, wanted) for each in found) for wanted in values]
    return all(held) if operator == "contains" else any(held) != (operator == "!=")


def trees(values: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Tree]:

    def deeper(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        parts = st.lists(inner, min_size=2, max_size=3)
        joined = st.builds(lambda word, several: (word, *several), st.sampled_from(["and", "or"]), parts)
        return st.one_of(inner.map(lambda part: ("not", part)), joined)

    return st.recursive(
        st.sampled_from(sorted(values)).flatmap(lambda field: _conditions(field, values)), deeper, max_leaves=6
    )


def _conditions(field: str, values: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Tree]:
    value = st.sampled_from(values[field])
    several = st.builds(
        lambda operator, given: (field, operator, *given),
        st.sampled_from(["in", "contains"]),
        st.lists(value, min_size=1, max_size=3),
    )
    single = st.builds(lambda operator, given: (field, operator, given), st.sampled_from(["=", "!="]), value)
    if not (numbers := [each for each in values[field] if _is_number(each)]):
        return st.one_of(several, single)
    limit = st.sampled_from(numbers)
    return st.one_of(several, single, st.builds(lambda o, n: (field, o, n), st.sampled_from(sorted(RANGES)), limit))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, wanted: Any) -> bool:
    """Return True for equal values of one kind: 5 is 5.0, but neither is "5" nor true."""
    if _is_number(value) and _is_number(wanted):
        return bool(value == wanted)
    return type(value) is type(wanted) and bool(value == wanted)
