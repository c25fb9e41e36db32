"""Filter expressions: one small language, written as text or as YAML/JSON, read into one tree. Pure.

    module = module-1-ros2 and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5

    module: module-1-ros2
    any: [{tags: {contains: qos}}, {chunk_token_count: {gte: 200}}]
    not: {sidebar_position: {gt: 5}}

Text has `=`, `!=`, `<`, `<=`, `>`, `>=`, `in [a, b]`, `contains x` (or `contains [x, y]`, all of them),
`and`, `or`, `not` and parentheses; quotes hold what would be read otherwise. In a mapping every entry must hold;
a value is an equality, a list an any-of, a mapping an operator. 5 is a number and "5" text: where a collection is
searched, a value that its payload cannot equal is an error (`retrievers.search.pushdown`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from retrievers.errors import ConfigError, nearest
from retrievers.text.quoting import quoted

Operator = Literal["eq", "in", "contains", "gt", "gte", "lt", "lte"]
Scalar = str | int | float | bool
RANGES = ("gt", "gte", "lt", "lte")
OPERATORS: tuple[Operator, ...] = ("eq", "in", "contains", "gt", "gte", "lt", "lte")
MAX_DEPTH = 50
MAX_CONDITIONS = 1_000
MAX_VALUES = 10_000
LARGEST = 1e308
MAX_CHARACTERS = 200_000
# A number with more is larger than any float.
MAX_DIGITS = 310
SYMBOLS: Mapping[str, Operator] = {"=": "eq", "==": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
TOKEN = re.compile(
    r"""\s*(?:(?P<symbol>[()\[\],]|==|!=|>=|<=|=|>|<)
      |"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'
      |(?P<number>-?\d+(?:\.\d+)?(?![^\s()\[\],=!<>"']))
      |(?P<word>[^\s()\[\],=!<>"']+))""",
    re.VERBOSE,
)


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


def parse_text(text: str) -> Expression:
    """Read a filter out of a text.

    Raises:
        ConfigError: It is malformed, too long, or nested too deep.
    """
    return _Text(text).whole()


class _Text:
    """A recursive-descent reader: or over and over not over conditions."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise ConfigError(f"filters: expected at most {MAX_CHARACTERS:,} characters, got {len(text):,}")
        self.text = text
        self.tokens = list(self._split(text))
        self.place = 0
        self.depth = 0

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
            return Not(part=self._deeper(self._not))
        if self._accept("("):
            inner = self._deeper(self._or)
            self._expect(")")
            return inner
        return self._condition()

    def _deeper(self, read: Callable[[], Expression]) -> Expression:
        if self.depth == MAX_DEPTH:
            raise too_deep()
        self.depth += 1
        inner = read()
        self.depth -= 1
        return inner

    def _condition(self) -> Expression:
        kind, field = self._take("a field name")
        if kind not in ("word", "text"):
            self.place -= 1
            raise self._error("a field name")
        _, symbol = self._take("an operator such as = or >=")
        name = str(symbol).lower()
        if name == "!=":
            return Not(part=compare(str(field), "eq", [self._value()], "filters"))
        if name in SYMBOLS:
            return compare(str(field), SYMBOLS[name], [self._value()], "filters")
        if name in ("in", "contains"):
            return compare(str(field), "in" if name == "in" else "contains", self._values(), "filters")
        self.place -= 1
        raise self._error("one of = != < <= > >= in contains")

    def _values(self) -> list[Scalar]:
        if not self._accept("["):
            return [self._value()]
        values: list[Scalar] = []
        while not self._accept("]"):
            values.append(self._value())
            if not self._accept(","):
                self._expect("]")
                break
        return values

    def _value(self) -> Scalar:
        kind, value = self._take("a value")
        if kind == "symbol":
            self.place -= 1
            raise self._error("a value")
        if kind == "word" and str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        return value

    def _take(self, expected: str) -> tuple[str, Scalar]:
        if self.place >= len(self.tokens):
            raise self._error(expected)
        self.place += 1
        return self.tokens[self.place - 1]

    def _accept(self, word: str) -> bool:
        if self.place < len(self.tokens):
            kind, value = self.tokens[self.place]
            if kind in ("symbol", "word") and str(value).lower() == word:
                self.place += 1
                return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(repr(word))

    def _error(self, expected: str) -> ConfigError:
        actual = quoted(self.tokens[self.place][1]) if self.place < len(self.tokens) else "the end"
        return ConfigError(f"filters: {quoted(self.text)}: expected {expected}, got {actual}")

    @staticmethod
    def _split(text: str) -> Iterator[tuple[str, Scalar]]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if match is None:
                rest = text[position : position + 100].strip()[:20]
                raise ConfigError(f"filters: {quoted(text)}: cannot be read from {rest!r} on")
            kind = str(match.lastgroup)
            value = match[kind]
            position = match.end()
            if kind == "number":
                yield kind, float(value) if "." in value or len(value) > MAX_DIGITS else int(value)
            elif kind in ("double", "single"):
                yield "text", re.sub(r"\\(.)", r"\1", value)
            else:
                yield kind, value


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
