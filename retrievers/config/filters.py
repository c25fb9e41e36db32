"""Filter expressions: one small language, written as text or as a mapping, read into one tree; or Qdrant's own JSON.

    module = module-1-ros2 and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5

    module: module-1-ros2
    any: [{tags: {contains: qos}}, {chunk_token_count: {gte: 200}}]
    not: {sidebar_position: {gt: 5}}

    must: [{key: metadata.module, match: {value: module-1-ros2}}]

Text has `=`, `!=`, `<`, `<=`, `>`, `>=`, `in [a, b]`, `contains x` (or `contains [x, y]`, all of them),
`and`, `or`, `not` and parentheses; quotes hold what would be read otherwise. In a mapping every entry must hold;
a value is an equality, a list an any-of, a mapping an operator. 5 is a number and "5" text: where a collection is
searched, a filter that no chunk passes is an error (`retrievers.search.query`). A mapping of `must`,
`should` and `must_not` is a filter of Qdrant, with the payload's own keys, and goes to it as it is.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from retrievers.errors import ConfigError, nearest
from retrievers.text.quoting import quoted

if TYPE_CHECKING:
    from qdrant_client import models

Operator = Literal["eq", "in", "contains", "gt", "gte", "lt", "lte"]
Scalar = str | int | float | bool
# Numbers beyond this are none that is stored.
LARGEST = 1e308
RANGES: tuple[Operator, ...] = ("gt", "gte", "lt", "lte")
SYMBOLS: Mapping[str, Operator] = {
    "=": "eq", "==": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in", "contains": "contains",
}  # fmt: skip
OPERATORS = (*dict.fromkeys(SYMBOLS.values()), "ne")
EXPECTED = "conditions such as `module = a`, joined by and, or, not and parentheses"
QUOTED, WORD = r""" "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' """, r"""[^\s()\[\],=!<>"']+"""
NUMBER = r"""-?[0-9]{1,300}(?:\.[0-9]+)?(?![^\s()\[\],=!<>"'])"""
ITEM = re.compile(rf"{QUOTED} | (?P<number>{NUMBER}) | {WORD}", re.VERBOSE)
VALUE = rf"(?: {QUOTED} | {WORD} )"
NEXT = re.compile(
    rf"""\s* (?: (?P<glue> [()] | (?:and|or|not)(?![^\s()]) )
    | (?P<field> {VALUE} ) \s* (?P<operator> ==|!=|>=|<=|=|>|<|\b(?:in|contains)(?![^\s\["']) ) \s*
      (?P<values> {VALUE} | \[\s* (?: {VALUE} \s* (?: ,\s* | (?=\]) ) )* \] ) )""",
    re.VERBOSE | re.IGNORECASE,
)
# Keys of a filter of Qdrant.
CLAUSES = frozenset({"must", "should", "must_not", "min_should"})


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


def parse(source: str | Mapping[str, Any]) -> Expression:
    """Read a filter, written as text or as a mapping.

    Raises:
        ConfigError: It is malformed; where and what was expected.
    """
    try:
        return _text(source) if isinstance(source, str) else _tree(source, "filters")
    except RecursionError:
        raise ConfigError("filters: nested too deep; write it with fewer parentheses and `not`") from None


def qdrant_filter(source: str | Mapping[str, Any]) -> "models.Filter | None":
    """Return the filter of Qdrant that a mapping is; None for the language of this module.

    Raises:
        ConfigError: It has the keys of one, and Qdrant would refuse it.
    """
    if not isinstance(source, Mapping) or not source or not CLAUSES.issuperset(source):
        return None
    from qdrant_client import models

    try:
        return models.Filter.model_validate(source)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"] if not str(part)[:1].isupper())
        raise ConfigError(
            f"filters.{where}: no filter of Qdrant: {fault['msg']}, got {quoted(fault['input'])}"
        ) from None


def comparisons(expression: Expression) -> Iterator[Compare]:
    """Yield every condition of an expression."""
    match expression:
        case Compare():
            yield expression
        case Not(part=part):
            yield from comparisons(part)
        case All(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from comparisons(part)


def _condition(field: str, operator: str, given: Any, where: str = "filters") -> Expression:
    """Return a condition: `in` and `contains` take a list that is not empty, a range takes a number."""
    if operator == "ne":
        return Not(part=_condition(field, "eq", given, where))
    known = next((name for name in SYMBOLS.values() if name == operator), None)
    if known is None:
        raise ConfigError(f"{where}: {field}: unknown operator {quoted(operator)}{nearest(operator, OPERATORS)}")
    values = given if isinstance(given, list) and known in ("in", "contains") else [given]
    if not values:
        raise ConfigError(
            f"{where}: {field}: the list of values is empty, so nothing could match; leave the filter out"
        )
    for value in values:
        if not isinstance(value, str | int | float) or (
            not isinstance(value, str) and not -LARGEST <= value <= LARGEST
        ):
            raise ConfigError(f"{where}: {field}: expected text, a finite number or true/false, got {quoted(value)}")
    if known in RANGES and isinstance(values[0], str | bool):
        raise ConfigError(f"{where}: {field}: a range needs a number, got {quoted(values[0])}")
    return Compare(field=field, operator=known, values=tuple(values))


def _joined(kind: type[All] | type[AnyOf], parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else kind(parts=tuple(parts))


# Text


def _text(text: str) -> Expression:
    """Read the conditions; Python's own grammar then knows what `and`, `or`, `not` and parentheses make of them."""
    conditions: list[Expression] = []
    glue, position = "", 0
    while position < len(text.rstrip()):
        found = NEXT.match(text, position)
        if found is None:
            rest = quoted(text[position:].strip()[:40])
            raise ConfigError(f"filters: {quoted(text)}: expected {EXPECTED}, cannot be read from {rest} on")
        position = found.end()
        if found["glue"]:
            glue += f" {found['glue'].lower()} "
            continue
        listed, operator = found["values"][0] == "[", found["operator"].lower()
        values = [_value(item) for item in ITEM.finditer(found["values"])]
        given: Any = values if listed else values[0]
        name = "ne" if operator == "!=" else SYMBOLS[operator]
        conditions.append(_condition(_plain(found["field"]), name, given))
        glue += f" _{len(conditions) - 1} "
    try:
        return _built(ast.parse(glue.strip(), mode="eval").body, conditions)
    except (SyntaxError, RecursionError, MemoryError):
        raise ConfigError(f"filters: {quoted(text)}: expected {EXPECTED}") from None


def _built(node: ast.expr, conditions: Sequence[Expression]) -> Expression:
    match node:
        case ast.BoolOp(op=operator, values=values):
            parts = [_built(value, conditions) for value in values]
            return _joined(All if isinstance(operator, ast.And) else AnyOf, parts)
        case ast.UnaryOp(operand=operand):
            return Not(part=_built(operand, conditions))
        case ast.Name(id=name):
            return conditions[int(name[1:])]
    raise SyntaxError


def _value(item: re.Match[str]) -> Scalar:
    if not item["number"]:
        return {"true": True, "false": False}.get(item[0].lower(), _plain(item[0]))
    return float(item[0]) if "." in item[0] else int(item[0])


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] in "\"'" else text


# Mappings


def _tree(source: Any, where: str) -> Expression:
    if not isinstance(source, Mapping) or not source:
        raise ConfigError(f"{where}: expected a mapping of conditions, got {quoted(source)}")
    return _joined(All, [_entry(str(key), value, where) for key, value in source.items()])


def _entry(key: str, value: Any, where: str) -> Expression:
    path = f"{where}.{key}"
    match key, value:
        case (("all" | "and" | "any" | "or"), list()) if value:
            parts = [_tree(part, f"{path}.{number}") for number, part in enumerate(value)]
            return _joined(All if key in ("all", "and") else AnyOf, parts)
        case (("all" | "and" | "any" | "or"), _):
            raise ConfigError(f"{path}: expected a list of conditions, got {quoted(value)}")
        case "not", _:
            return Not(part=_tree(value, path))
        case _, Mapping() if value:
            return _joined(All, [_condition(key, str(name), operand, where) for name, operand in value.items()])
        case _, Mapping():
            raise ConfigError(f"{path}: expected an operator such as {{gte: 200}}, got {quoted(value)}")
    return _condition(key, "in" if isinstance(value, list) else "eq", value, where)
