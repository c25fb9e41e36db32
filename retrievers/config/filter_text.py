"""Filters as text: `module = arms and (tags contains qos or not sidebar_position > 5)`. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping

from retrievers.config.filter_expressions import (
    MAX_DEPTH,
    All,
    AnyOf,
    Expression,
    Not,
    Operator,
    Scalar,
    compare,
    too_deep,
)
from retrievers.errors import ConfigError
from retrievers.text.quoting import quoted

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
