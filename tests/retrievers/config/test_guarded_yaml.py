from itertools import pairwise
from typing import Any

import pytest
import yaml

from retrievers.config.guarded_yaml import MOST_DEPTH, Guards, YamlFault, load


class Loader(Guards, yaml.SafeLoader):
    """The guards on the safe loader."""


def bomb(form: str) -> str:
    """Nine levels, each of nine references to the one before."""
    names = "abcdefghi"
    levels = (f"{new}: &{new} {form % ', '.join([f'*{old}'] * 9)}\n" for old, new in pairwise(names))
    return "a: &a {x: 1}\n" + "".join(levels)


def chain(length: int) -> str:
    """A list in which each element holds the one before: deep by aliases alone."""
    return "- &n0 x\n" + "".join(f"- &n{number} [*n{number - 1}]\n" for number in range(1, length))


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: 2\na: 1", 3, "'a' is given twice, first at line 1; leave one of them out"),
        ("a:\n  - {b: 1, b: 2}", 2, "'b' is given twice"),
        (bomb("[%s]"), 6, "more than 100,000 values"),
        (bomb("{<<: [%s]}"), 6, "more than 100,000 values"),
        ("a: 1\nc: &a\n  b: [*a]", 2, "an alias refers to what it stands in"),
        ("[" * 50_000, 1, f"nested more than {MOST_DEPTH} deep"),
        ("- " * 50_000, 1, f"nested more than {MOST_DEPTH} deep"),
        (chain(200), 121, f"nested more than {MOST_DEPTH} deep, aliases followed"),
        ("a: 1\nb: -" + "9" * 5_000, 2, "a number of 5,001 digits, expected at most 100"),
        ("a: 0x" + "f" * 5_000, 1, "a number of 5,002 digits"),
        ("a: 2024-02-30", 1, "expected a value of type timestamp, got '2024-02-30'; put text into quotes"),
        ("a: 0b_", 1, "expected a value of type int, got '0b_'"),
        ("a: !!bool maybe", 1, "expected a value of type bool, got 'maybe'"),
        ("a: !!timestamp now", 1, "expected a value of type timestamp, got 'now'"),
        ('a: "\\ud800"', 1, "half of a surrogate pair"),
        ("a: 1\nb: \x00", 2, "the character '\\x00' has no place in YAML"),
        ("a: 1\n? [b]\n: 2", 2, "unhashable key"),
        ("a: *b", 1, "undefined alias 'b'"),
        ("a: 1\n---\nb: 2", 2, "another document"),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(YamlFault) as caught:
        load(text, Loader)
    assert problem in caught.value.problem
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: &x {b: [1]}\nc: *x\nd: {<<: *x, e: 2}", {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1], "e": 2}}),
        ("[" * 100 + "]" * 100, None),
        (chain(100), None),
        ("{<<: {a: 1}, a: 2}", {"a": 2}),
    ],
)
def test_everything_else_is_read_as_the_loader_reads_it(text: str, value: Any) -> None:
    loaded, _ = load(text, Loader)
    assert loaded == yaml.safe_load(text)
    assert value is None or loaded == value


def test_each_key_has_its_line() -> None:
    _, lines = load("a: 1\nb:\n  c: {d: 2}\n  e.f: 3", Loader)
    assert lines == {"a": 1, "b": 2, "b.c": 3, "b.c.d": 3, "b.e.f": 4}
