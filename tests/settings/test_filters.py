"""The filter language: text and mappings read into the same trees, every fault told in one line."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models

from retrievers.config.filters import All, AnyOf, Compare, Expression, Not, Operator, Scalar, comparisons, parse
from retrievers.config.filters import qdrant_filter as read_qdrant
from retrievers.errors import ConfigError
from tests.support.expressions import as_mapping, as_text, trees


def one(field: str, operator: Operator, *values: Scalar) -> Compare:
    return Compare(field=field, operator=operator, values=values)


A, B, C = one("a", "eq", 1), one("b", "eq", 2), one("c", "eq", 3)


@pytest.mark.parametrize(
    ("text", "mapping", "tree"),
    [
        ("module = module-1-ros2", {"module": "module-1-ros2"}, one("module", "eq", "module-1-ros2")),
        ("module != x", {"module": {"ne": "x"}}, Not(part=one("module", "eq", "x"))),
        ("n < -5", {"n": {"lt": -5}}, one("n", "lt", -5)),
        ("n <= 2.5", {"n": {"lte": 2.5}}, one("n", "lte", 2.5)),
        ("tags in [a, b,]", {"tags": ["a", "b"]}, one("tags", "in", "a", "b")),
        ("tags in a", {"tags": {"in": "a"}}, one("tags", "in", "a")),
        ("tags contains [a, 2, true]", {"tags": {"contains": ["a", 2, True]}}, one("tags", "contains", "a", 2, True)),
        ("draft = FALSE", {"draft": False}, one("draft", "eq", False)),
        ("draft = 'true'", {"draft": "true"}, one("draft", "eq", "true")),
        ("n = '5'", {"n": "5"}, one("n", "eq", "5")),
        (r'x = "say \"hi\" \\ bye"', {"x": 'say "hi" \\ bye'}, one("x", "eq", 'say "hi" \\ bye')),
        ("x = ''", {"x": ""}, one("x", "eq", "")),
        ("source_url = /docs/größe-b_c.d", {"source_url": "/docs/größe-b_c.d"}, one("source_url", "eq",
         "/docs/größe-b_c.d")),
        ("'page title' = 🤖", {"page title": "🤖"}, one("page title", "eq", "🤖")),
        ("a=1 and b=2 and c=3", {"a": 1, "b": 2, "c": 3}, All(parts=(A, B, C))),
        ("a=1 or b=2 and c=3", {"any": [{"a": 1}, {"b": 2, "c": 3}]}, AnyOf(parts=(A, All(parts=(B, C))))),
        ("(a=1 or b=2) and c=3", {"or": [{"a": 1}, {"b": 2}], "c": 3}, All(parts=(AnyOf(parts=(A, B)), C))),
        ("not a=1 and b=2", {"not": {"a": 1}, "b": 2}, All(parts=(Not(part=A), B))),
        ("NOT (a=1 AND b=2)", {"not": {"a": 1, "b": 2}}, Not(part=All(parts=(A, B)))),
        ("not not a=1", {"not": {"not": {"a": 1}}}, Not(part=Not(part=A))),
        ("((a=1))", {"all": [{"a": 1}]}, A),
        ("n >= 1\n and n < 5", {"n": {"gte": 1, "lt": 5}}, All(parts=(one("n", "gte", 1), one("n", "lt", 5)))),
    ],
)  # fmt: skip
def test_text_and_mapping_say_the_same(text: str, mapping: Any, tree: Expression) -> None:
    assert parse(text) == parse(mapping) == tree


@pytest.mark.parametrize("word", ["50%", "2:1", "3d", "5/6", "1.2.3", "2024-01-01", "5;", "1e5", "+5", "5.", "٥x"])
def test_what_only_begins_like_a_number_is_a_word(word: str) -> None:
    assert parse(f"x in [{word}, 5, 5.0]") == one("x", "in", word, 5, 5.0)


def test_a_field_in_quotes_may_have_the_name_of_a_keyword() -> None:
    assert parse('"not" = x') == one("not", "eq", "x")
    text = "module = a and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5"
    fields = [condition.field for condition in comparisons(parse(text))]
    assert fields == ["module", "tags", "chunk_token_count", "sidebar_position"]


NAMES = st.sampled_from(["a", "url", "metadata.tags", "page title", "größe", "x-y", "in", "true"])
VALUES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8), st.integers(-(10**6), 10**6), st.booleans(),
    st.integers(-4000, 4000).map(lambda n: n / 8),
)  # fmt: skip
CONDITIONS = st.one_of(
    st.builds(lambda field, value: one(field, "eq", value), NAMES, VALUES),
    st.builds(
        one,
        NAMES, st.sampled_from(["gt", "gte", "lt", "lte"]), st.integers(-(10**6), 10**6),
    ),
    st.builds(
        lambda field, operator, values: one(field, operator, *values),
        NAMES, st.sampled_from(["in", "contains"]), st.lists(VALUES, min_size=1, max_size=3),
    ),
)  # fmt: skip


@given(trees(CONDITIONS))
def test_what_is_written_is_read_back(tree: Expression) -> None:
    assert parse(as_text(tree)) == parse(as_mapping(tree)) == tree


@pytest.mark.parametrize(
    ("source", "said"),
    [
        *((text, "expected conditions such as `module = a`, joined by and, or, not and parentheses")
          for text in ("", "module", "module ros2", "module like ros2", "module =", "module = )", "= 5", "a = 1 b = 2",
                       "a = 1 and", "and a = 1", "(a = 1", "a = 1)", "tags in [a", "tags in [a b]", "tags in [,]",
                       'title = "open', "a = wow!", "()", "not " * 10_000 + "a = 1", "a b " + "x" * 100_000,
                       "(" * 10_000 + "a = 1" + ")" * 10_000, "tags in [" + "a " * 50_000)),
        ("title = what's new", 'cannot be read from "\'s new" on'),
        ("tags in []", "the list of values is empty, so nothing could match"),
        ({"a": {"contains": []}}, "the list of values is empty, so nothing could match"),
        *((text, "a range needs a number, got") for text in ("n > abc", "n <= '5'", "n >= true", {"a": {"gte": "x"}})),
        ({}, "filters: expected a mapping of conditions, got {}"),
        ({"any": []}, "filters.any: expected a list of conditions, got []"),
        ({"any": [{"a": 1}, {"all": [{}]}]}, "filters.any.1.all.0: expected a mapping of conditions, got {}"),
        ({"not": {"any": 5}}, "filters.not.any: expected a list of conditions, got 5"),
        ({"a": {}}, "filters.a: expected an operator such as {gte: 200}, got {}"),
        ({"a": {"contain": "x"}}, "a: unknown operator 'contain'; did you mean 'contains'"),
        *(({"a": value}, "expected text, a finite number or true/false, got")
          for value in (None, [["b"]], {"eq": ["b"]}, yaml.safe_load("2024-01-01"), float("nan"), 10**400)),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_one_short_line(source: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^filters") as caught:
        parse(source)
    assert said in str(caught.value) and len(str(caught.value)) < 500 and "\n" not in str(caught.value)


def test_a_filter_of_qdrant_goes_to_it_as_it_is() -> None:
    mapping = {"must": [{"key": "a", "match": {"value": 1}}], "must_not": [{"has_id": [1, "x"]}]}
    assert read_qdrant(mapping) == models.Filter.model_validate(mapping)
    assert [read_qdrant(other) for other in ({"a": 1}, {"must": [], "a": 1}, {}, "must = 1")] == [None] * 4
    with pytest.raises(ConfigError, match=r"filters.must.*: no filter of Qdrant: .*, got "):
        read_qdrant({"must": [{"key": "a", "match": {"valu": 1}}]})
