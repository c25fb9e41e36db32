from typing import Any

import pytest
import yaml

from retrievers.plain_yaml import load


@pytest.mark.parametrize("text", ["1:20", "0:0.95:0.05", "12:30:45", "190:20:30.15", "-1:30"])
def test_digits_joined_by_colons_are_text(text: str) -> None:
    assert load(f"a: {text}") == {"a": text}
    assert load(f"{{a: {text}, b: 1}}") == {"a": text, "b": 1}


@pytest.mark.parametrize(
    "text",
    ["12", "-3", "+4", "0", "1.5", "3.10", ".5", "-.inf", "1.0e+3", "1e3", "0x1F", "010", "0b11", "1_000", "1_0.5",
     "true", "no", "~", "2024-01-02", "a b", "'1'", "[1, 2.5, x]", "{a: 1}", "1.", "1-2", "1.2.3"],
)  # fmt: skip
def test_everything_else_is_as_the_safe_loader_reads_it(text: str) -> None:
    expected: Any = yaml.safe_load(f"a: {text}")
    assert load(f"a: {text}") == expected
    assert type(load(f"a: {text}")["a"]) is type(expected["a"])


def test_python_objects_are_refused() -> None:
    with pytest.raises(yaml.YAMLError):
        load("a: !!python/object/apply:os.getcwd []")
