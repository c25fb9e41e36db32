"""Filter expressions: one small language, written as text or as a mapping, read into one tree; or Qdrant's own JSON.

    module = module-1-ros2 and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5

    module: module-1-ros2
    any: [{tags: {contains: qos}}, {chunk_token_count: {gte: 200}}]
    not: {sidebar_position: {gt: 5}}

    must: [{key: metadata.module, match: {value: module-1-ros2}}]

Text has `=`, `!=`, `<`, `<=`, `>`, `>=`, `in [a, b]`, `contains x` (or `contains [x, y]`, all of them),
`and`, `or`, `not` and parentheses; quotes hold what would be read otherwise. In a mapping every entry must hold;
a value is an equality, a list an any-of, a mapping an operator. 5 is a number and "5" text: where a collection is
searched, a value that its payload cannot equal is an error (`retrievers.search.query`). A mapping of `must`,
`should` and `must_not` is a filter of Qdrant, with the payload's own keys, and goes to it as it is.
"""

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
RANGES: tuple[Operator, ...] = ("gt", "gte", "lt", "lte")
OPERATORS: tuple[Operator, ...] = ("eq", "in", "contains", *RANGES)
LARGEST = 1e308
SYMBOLS: Mapping[str, Operator] = {
    "=": "eq", "==": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in", "contains": "contains",
}  # fmt: skip
TOKEN = re.compile(
    r"""\s*(?:(?P<symbol>[()\[\],]|==|!=|>=|<=|=|>|<)
      |"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'
      |(?P<number>-?\d+(?:\.\d+)?(?![^\s()\[\],=!<>"']))
      |(?P<word>[^\s()\[\],=!<>"']+))""",
    re.VERBOSE,
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
        return _Text(source).whole() if isinstance(source, str) else _tree(source, "filters")
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
    if isinstance(expression, Compare):
        yield expression
    elif isinstance(expression, Not):
        yield from comparisons(expression.part)
    else:
        for part in expression.parts:
            yield from comparisons(part)


def _compare(field: str, operator: Operator, values: Sequence[Any], where: str = "filters") -> Compare:
    """Check a condition: a list that is not empty, plain values, and a range over a number."""
    if not values:
        raise ConfigError(
            f"{where}: {field}: the list of values is empty, so nothing could match; leave the filter out"
        )
    for value in values:
        if not isinstance(value, str | int | float | bool):
            raise ConfigError(f"{where}: {field}: expected text, a number or true/false, got {quoted(value)}")
        if not isinstance(value, str) and not -LARGEST <= value <= LARGEST:  # NaN is not either
            raise ConfigError(f"{where}: {field}: expected a finite number, got {quoted(value)}")
    if operator in RANGES and isinstance(values[0], str | bool):
        raise ConfigError(f"{where}: {field}: a range needs a number, got {quoted(values[0])}")
    return Compare(field=field, operator=operator, values=tuple(values))


class _Text:
    """A recursive-descent reader: or over and over not over conditions."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.tokens: list[tuple[str, Scalar]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if match is None:
                raise ConfigError(f"filters: {quoted(text)}: cannot be read from {text[position:].strip()[:20]!r} on")
            kind, value, position = str(match.lastgroup), match[str(match.lastgroup)], match.end()
            if kind == "number":
                # A whole number that Python refuses to read is larger than any that is stored.
                self.tokens.append((kind, int(value) if "." not in value and len(value) < 300 else float(value)))
            elif kind in ("double", "single"):
                self.tokens.append(("text", re.sub(r"\\(.)", r"\1", value)))
            else:
                self.tokens.append((kind, value))

    def whole(self) -> Expression:
        expression = self._or()
        if self.place < len(self.tokens):
            raise self._error("'and', 'or' or the end")
        return expression

    def _or(self) -> Expression:
        parts = [self._and()]
        while self._accept("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else AnyOf(parts=tuple(parts))

    def _and(self) -> Expression:
        parts = [self._not()]
        while self._accept("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else All(parts=tuple(parts))

    def _not(self) -> Expression:
        if self._accept("not"):
            return Not(part=self._not())
        if self._accept("("):
            inner = self._or()
            self._expect(")")
            return inner
        field = str(self._take("a field name", "word", "text"))
        name = str(self._take("an operator such as = or >=", "symbol", "word")).lower()
        if name == "!=":
            return Not(part=_compare(field, "eq", [self._value()]))
        if name not in SYMBOLS:
            self.place -= 1
            raise self._error("one of = != < <= > >= in contains")
        listed = name in ("in", "contains") and self._accept("[")
        return _compare(field, SYMBOLS[name], self._rest_of_list() if listed else [self._value()])

    def _rest_of_list(self) -> list[Scalar]:
        values: list[Scalar] = []
        while not self._accept("]"):
            values.append(self._value())
            if not self._accept(","):
                self._expect("]")
                break
        return values

    def _value(self) -> Scalar:
        value = self._take("a value", "word", "text", "number")
        truth = str(value).lower() if self.tokens[self.place - 1][0] == "word" else ""
        return truth == "true" if truth in ("true", "false") else value

    def _take(self, expected: str, *kinds: str) -> Scalar:
        if self.place >= len(self.tokens) or self.tokens[self.place][0] not in kinds:
            raise self._error(expected)
        self.place += 1
        return self.tokens[self.place - 1][1]

    def _accept(self, word: str) -> bool:
        kind, value = self.tokens[self.place] if self.place < len(self.tokens) else ("", "")
        accepted = kind in ("symbol", "word") and str(value).lower() == word
        self.place += accepted
        return accepted

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(repr(word))

    def _error(self, expected: str) -> ConfigError:
        actual = quoted(self.tokens[self.place][1]) if self.place < len(self.tokens) else "the end"
        return ConfigError(f"filters: {quoted(self.text)}: expected {expected}, got {actual}")


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
    if not isinstance(value, Mapping):
        return _compare(key, "in", value, where) if isinstance(value, list) else _compare(key, "eq", [value], where)
    conditions = [_operator(key, name, operand, where) for name, operand in value.items()]
    if not conditions:
        raise ConfigError(f"{path}: expected an operator such as {{gte: 200}}, got {quoted(value)}")
    return conditions[0] if len(conditions) == 1 else All(parts=tuple(conditions))


def _operator(field: str, name: Any, operand: Any, where: str) -> Expression:
    if name == "ne":
        return Not(part=_compare(field, "eq", [operand], where))
    if name not in OPERATORS:
        raise ConfigError(f"{where}.{field}: unknown operator {quoted(name)}{nearest(str(name), [*OPERATORS, 'ne'])}")
    listed = isinstance(operand, list) and name in ("in", "contains")
    return _compare(field, name, operand if listed else [operand], where)
