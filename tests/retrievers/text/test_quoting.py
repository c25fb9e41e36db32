from pathlib import Path
from typing import Any

import pytest

from retrievers.errors import ConfigError
from retrievers.text.quoting import quoted, shortened


@pytest.mark.parametrize("value", ["x", "", 5, 1.5, None, True, [1, "a"], {"a": [1]}, ("b",), Path("a/b")])
def test_a_short_value_is_shown_as_python_writes_it(value: Any) -> None:
    assert quoted(value) == repr(value)


@pytest.mark.parametrize(
    "value",
    ["x" * 400_000, 10**5_000, 1 << 20_000, ["x" * 90] * 5_000, {n: "x" * 90 for n in range(50)}, Path("a" * 5_000)],
    ids=["text", "integer", "power of two", "list", "mapping", "path"],
)
def test_a_long_value_is_shown_in_part(value: Any) -> None:
    assert 10 < len(quoted(value)) <= 201


def test_a_value_that_is_nested_deep_is_shown_in_part() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert quoted(value) == "[[[[[…]]]]]"


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    text = shortened("first\n" + "a" * 1_000 + "b" * 5_000 + "c" * 1_000 + "\nlast")
    first, line, last = text.split("\n")
    assert (first, last) == ("first", "last")
    assert line == "a" * 1_000 + " … (5,000 characters) … " + "c" * 1_000


def test_no_error_is_longer_than_helps() -> None:
    assert len(str(ConfigError("x" * 400_000 + ": do this"))) < 2_100
    assert str(ConfigError("x" * 400_000 + ": do this")).endswith(": do this")
