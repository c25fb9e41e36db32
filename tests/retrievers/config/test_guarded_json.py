import json

import pytest

from retrievers.config.guarded_json import load


@pytest.mark.parametrize(
    "text", ["null", "5", "-1.5e3", '"\\ud83e\\udd16 a"', '{"a": [1, {"a": 2}], "b": {}}', "[]", " 1 "]
)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert load(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' is given twice; leave one of them out"),
        ('[{"a": {"b": 1, "b": 2}}]', "'b' is given twice"),
        ("{", "Expecting property name enclosed in double quotes at column 2"),
        ('{\n "a": }', "Expecting value at line 2, column 7"),
        ("", "Expecting value at column 1"),
        ("NaN", "NaN is no JSON number"),
        ("[-Infinity]", "-Infinity is no JSON number"),
        ("1e999", "'1e999' is larger than any number of a computer"),
        ("9" * 5_000, "a number of 5,000 digits, expected at most 100"),
        ("-" + "9" * 5_000, "a number of 5,001 digits"),
        ("[" * 100_000, "nested too deep"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\udfff": 1}', "half of a surrogate pair"),
    ],
)
def test_what_is_not_json_or_ambiguous_is_told(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^not valid JSON: ") as caught:
        load(text)
    assert fault in str(caught.value)
    assert len(str(caught.value)) < 300


def test_thousands_of_keys_given_twice_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="is given twice"):
        load("{" + ", ".join(f'"k{number % 30_000}": 1' for number in range(60_000)) + "}")
