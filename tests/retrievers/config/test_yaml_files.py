from typing import Any

import pytest
import yaml

from retrievers.config.yaml_files import load, load_flag


@pytest.mark.parametrize("text", ["1:20", "0:0.95:0.05", "12:30:45", "190:20:30.15", "-1:30"])
def test_digits_joined_by_colons_are_text(text: str) -> None:
    assert load(f"a: {text}")[0] == {"a": text}
    assert load(f"{{a: {text}, b: 1}}")[0] == {"a": text, "b": 1}


@pytest.mark.parametrize(
    "text",
    ["12", "-3", "+4", "0", "1.5", "3.10", ".5", "-.inf", "1.0e+3", "1e3", "0x1F", "010", "0b11", "1_000", "1_0.5",
     "true", "no", "~", "2024-01-02", "a b", "'1'", "[1, 2.5, x]", "{a: 1}", "1.", "1-2", "1.2.3"],
)  # fmt: skip
def test_everything_else_is_as_the_safe_loader_reads_it(text: str) -> None:
    expected: Any = yaml.safe_load(f"a: {text}")
    found = load(f"a: {text}")[0]
    assert found == expected
    assert type(found["a"]) is type(expected["a"])


def test_python_objects_are_refused() -> None:
    with pytest.raises(yaml.YAMLError):
        load("a: !!python/object/apply:os.getcwd []")


@pytest.mark.parametrize(
    "text", ["*", "*,a/*", "&a", "&a b", "!a b", "%a", "@a", "`a", "|a", "> a", ">= 0.1", "#12", "a: b: c"]
)
def test_a_flag_that_would_be_yamls_own_marks_is_text(text: str) -> None:
    assert load_flag(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[*]", ["*"]),
        ("[a/*, *, !b, &c]", ["a/*", "*", "!b", "&c"]),
        ("['*', 12]", ["*", "12"]),
        ("'*'", "*"),
        ("{a: *, b: >= 0.1}", {"a": "*", "b": ">= 0.1"}),
        ("yes", "yes"),
        ("- a", ["a"]),
        ("", ""),
    ],
)
def test_a_flags_lists_and_mappings_hold_text(text: str, value: Any) -> None:
    assert load_flag(text) == value


@pytest.mark.parametrize("text", ["[a", " {a", '"a', "'a", "[a] b"])
def test_a_flag_that_begins_a_list_a_mapping_or_a_quotation_must_end_it(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_flag(text)


def test_each_key_has_its_line() -> None:
    _, lines = load("a: 1\nb:\n  c: {d: 2}\n  e.f: 3")
    assert lines == {"a": 1, "b": 2, "b.c": 3, "b.c.d": 3, "b.e.f": 4}
