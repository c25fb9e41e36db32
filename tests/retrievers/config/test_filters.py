"""The filter language: text and mappings read into the same trees, every fault with its place."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models

from retrievers.config.filters import (
    All,
    AnyOf,
    Compare,
    Expression,
    Not,
    Operator,
    Scalar,
    comparisons,
    parse,
    qdrant_filter,
)
from retrievers.errors import ConfigError
from tests.support.expressions import as_mapping, as_text, trees


def one(field: str, operator: Operator, *values: Scalar) -> Compare:
    return Compare(field=field, operator=operator, values=values)


A, B, C = one("a", "eq", 1), one("b", "eq", 2), one("c", "eq", 3)


def refused(source: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(source)
    return str(caught.value)


# Conditions


@pytest.mark.parametrize(
    ("text", "mapping", "tree"),
    [
        ("module = module-1-ros2", {"module": "module-1-ros2"}, one("module", "eq", "module-1-ros2")),
        ("module == module-1-ros2", {"module": {"eq": "module-1-ros2"}}, one("module", "eq", "module-1-ros2")),
        ("module != x", {"module": {"ne": "x"}}, Not(part=one("module", "eq", "x"))),
        ("n > 5", {"n": {"gt": 5}}, one("n", "gt", 5)),
        ("n >= 5", {"n": {"gte": 5}}, one("n", "gte", 5)),
        ("n < -5", {"n": {"lt": -5}}, one("n", "lt", -5)),
        ("n <= 2.5", {"n": {"lte": 2.5}}, one("n", "lte", 2.5)),
        ("tags in [a, b]", {"tags": ["a", "b"]}, one("tags", "in", "a", "b")),
        ("tags in [a, b,]", {"tags": {"in": ["a", "b"]}}, one("tags", "in", "a", "b")),
        ("tags in a", {"tags": {"in": "a"}}, one("tags", "in", "a")),
        ("tags contains a", {"tags": {"contains": "a"}}, one("tags", "contains", "a")),
        ("tags contains [a, 2, true]", {"tags": {"contains": ["a", 2, True]}}, one("tags", "contains", "a", 2, True)),
        ("draft = true", {"draft": True}, one("draft", "eq", True)),
        ("draft = FALSE", {"draft": False}, one("draft", "eq", False)),
        ("draft = 'true'", {"draft": "true"}, one("draft", "eq", "true")),
        ("n = '5'", {"n": "5"}, one("n", "eq", "5")),
        ("a=1", {"a": 1}, A),
        ("  a  =  1  ", {"a": 1}, A),
        ("x = 'and'", {"x": "and"}, one("x", "eq", "and")),
        ('x = "it\'s"', {"x": "it's"}, one("x", "eq", "it's")),
        (r'x = "say \"hi\" \\ bye"', {"x": 'say "hi" \\ bye'}, one("x", "eq", 'say "hi" \\ bye')),
        ("x = ''", {"x": ""}, one("x", "eq", "")),
        ("x = größe", {"x": "größe"}, one("x", "eq", "größe")),
        ("x = 🤖", {"x": "🤖"}, one("x", "eq", "🤖")),
        ("source_url = /docs/a-b_c.d", {"source_url": "/docs/a-b_c.d"}, one("source_url", "eq", "/docs/a-b_c.d")),
        ("'page title' = x", {"page title": "x"}, one("page title", "eq", "x")),
        ('"not" = x', {"not": {"eq": "x"}}, None),
    ],
)
def test_text_and_mapping_say_the_same(text: str, mapping: Any, tree: Expression | None) -> None:
    if tree is None:
        assert parse(text) == one("not", "eq", "x"), "quoted, a field may have the name of a keyword"
        return
    assert parse(text) == parse(mapping) == tree


@pytest.mark.parametrize("word", ["50%", "2:1", "3d", "5/6", "1.2.3", "2024-01-01", "5;", "1e5", "+5", "5.", "٥x"])
def test_what_only_begins_like_a_number_is_a_word(word: str) -> None:
    assert parse(f"x = {word}") == one("x", "eq", word)
    assert parse(f"x in [{word}, 5]") == one("x", "in", word, 5)


@pytest.mark.parametrize(("text", "kind"), [("5", int), ("-5", int), ("0", int), ("5.0", float), ("-0.25", float)])
def test_numbers_are_whole_or_not_as_written(text: str, kind: type) -> None:
    condition = parse(f"x = {text}")
    assert isinstance(condition, Compare)
    assert type(condition.values[0]) is kind


# Trees


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a=1 and b=2 and c=3", All(parts=(A, B, C))),
        ("a=1 or b=2 or c=3", AnyOf(parts=(A, B, C))),
        ("a=1 or b=2 and c=3", AnyOf(parts=(A, All(parts=(B, C))))),
        ("a=1 and b=2 or c=3", AnyOf(parts=(All(parts=(A, B)), C))),
        ("(a=1 or b=2) and c=3", All(parts=(AnyOf(parts=(A, B)), C))),
        ("not a=1 and b=2", All(parts=(Not(part=A), B))),
        ("not (a=1 and b=2)", Not(part=All(parts=(A, B)))),
        ("not not a=1", Not(part=Not(part=A))),
        ("NOT a=1 AND b=2 Or c=3", AnyOf(parts=(All(parts=(Not(part=A), B)), C))),
        ("((a=1))", A),
        ("a=1\n  and b=2", All(parts=(A, B))),
    ],
)
def test_not_binds_before_and_before_or(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("mapping", "tree"),
    [
        ({"a": 1, "b": 2}, All(parts=(A, B))),
        ({"all": [{"a": 1}, {"b": 2}]}, All(parts=(A, B))),
        ({"and": [{"a": 1}, {"b": 2}]}, All(parts=(A, B))),
        ({"any": [{"a": 1}, {"b": 2, "c": 3}]}, AnyOf(parts=(A, All(parts=(B, C))))),
        ({"or": [{"a": 1}, {"b": 2}]}, AnyOf(parts=(A, B))),
        ({"not": {"a": 1, "b": 2}}, Not(part=All(parts=(A, B)))),
        ({"n": {"gte": 1, "lt": 5}}, All(parts=(one("n", "gte", 1), one("n", "lt", 5)))),
        ({"a": 1, "not": {"b": 2}}, All(parts=(A, Not(part=B)))),
        ({5: 1}, one("5", "eq", 1)),
    ],
)
def test_every_entry_of_a_mapping_must_hold(mapping: Any, tree: Expression) -> None:
    assert parse(mapping) == tree


def test_the_example_of_the_documentation_is_one_tree_in_both_ways() -> None:
    text = "module = module-1-ros2 and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5"
    mapping = yaml.safe_load(
        "module: module-1-ros2\n"
        "any: [{tags: {contains: qos}}, {chunk_token_count: {gte: 200}}]\n"
        "not: {sidebar_position: {gt: 5}}\n"
    )
    assert parse(text) == parse(mapping)
    fields = [condition.field for condition in comparisons(parse(text))]
    assert fields == ["module", "tags", "chunk_token_count", "sidebar_position"]


NAMES = st.sampled_from(["a", "url", "metadata.tags", "page title", "größe", "x-y", "in", "true"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.one_of(st.integers(-(10**6), 10**6), st.integers(-4000, 4000).map(lambda n: n / 8))
VALUES = st.one_of(TEXTS, NUMBERS, st.booleans())
LISTS = st.lists(VALUES, min_size=1, max_size=3)
CONDITIONS = st.one_of(
    st.builds(lambda f, v: one(f, "eq", v), NAMES, VALUES),
    st.builds(lambda f, o, v: one(f, o, *v), NAMES, st.sampled_from(["in", "contains"]), LISTS),
    st.builds(one, NAMES, st.sampled_from(["gt", "gte", "lt", "lte"]), NUMBERS),
)


@given(trees(CONDITIONS))
def test_every_tree_is_read_back_from_text_and_mapping(tree: Expression) -> None:
    assert parse(as_text(tree)) == tree
    assert parse(as_mapping(tree)) == tree
    assert parse(yaml.safe_load(yaml.safe_dump(as_mapping(tree)))) == tree


@given(st.text("a=1<>!()[],'\"\\ ndorti.-", max_size=20))
def test_any_text_is_an_expression_or_a_config_error(text: str) -> None:
    try:
        tree = parse(text)
    except ConfigError as error:
        assert str(error).startswith("filters: ")
    else:
        assert parse(as_text(tree)) == tree


# Faults


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a field name, got the end"),
        ("   ", "expected a field name, got the end"),
        ("module", "expected an operator such as = or >=, got the end"),
        ("module ros2", "expected one of = != < <= > >= in contains, got 'ros2'"),
        ("module like ros2", "expected one of = != < <= > >= in contains, got 'like'"),
        ("module =", "expected a value, got the end"),
        ("module = )", "expected a value, got ')'"),
        ("module = =", "expected a value, got '='"),
        ("5 = module", "expected a field name, got 5"),
        ("= 5", "expected a field name, got '='"),
        ("a = 1 b = 2", "expected 'and', 'or' or the end, got 'b'"),
        ("a = 1 and", "expected a field name, got the end"),
        ("and a = 1", "expected one of = != < <= > >= in contains, got 'a'"),
        ("(a = 1", "expected ')', got the end"),
        ("a = 1)", "expected 'and', 'or' or the end, got ')'"),
        ("tags in [a", "expected ']', got the end"),
        ("tags in [a b]", "expected ']', got 'b'"),
        ("tags in [", "expected a value, got the end"),
        ("tags in [,]", "expected a value, got ','"),
        ("title = what's new", 'cannot be read from "\'s new" on'),
        ('title = "open', "cannot be read from '\"open' on"),
        ("a = wow!", "cannot be read from '!' on"),
        ("tags in []", "tags: the list of values is empty, so nothing could match; leave the filter out"),
        ("tags contains []", "tags: the list of values is empty, so nothing could match; leave the filter out"),
        ("n > abc", "n: a range needs a number, got 'abc'"),
        ("n <= '5'", "n: a range needs a number, got '5'"),
        ("n >= true", "n: a range needs a number, got True"),
        ("n > 9" + "9" * 400, "n: expected a finite number, got inf"),
        ("not " * 10_000 + "a = 1", "nested too deep"),
        ("(" * 10_000 + "a = 1" + ")" * 10_000, "nested too deep"),
        ("a = " + "9" * 5_000, "a: expected a finite number, got inf"),
        ("a b " + "x" * 100_000, "expected one of = != < <= > >= in contains, got 'b'"),
        ("a = '" + "x" * 100_000, "cannot be read from"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_what_was_expected(text: str, said: str) -> None:
    message = refused(text)
    assert message.startswith("filters: ")
    assert said in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({}, "filters: expected a mapping of conditions, got {}"),
        ({"any": []}, "filters.any: expected a list of conditions, got []"),
        ({"all": {"a": 1}}, "filters.all: expected a list of conditions, got {'a': 1}"),
        ({"or": None}, "filters.or: expected a list of conditions, got None"),
        ({"any": [{"a": 1}, 5]}, "filters.any.1: expected a mapping of conditions, got 5"),
        ({"any": [{"a": 1}, {"all": [{}]}]}, "filters.any.1.all.0: expected a mapping of conditions, got {}"),
        ({"not": []}, "filters.not: expected a mapping of conditions, got []"),
        ({"not": {"any": 5}}, "filters.not.any: expected a list of conditions, got 5"),
        ({"a": {}}, "filters.a: expected an operator such as {gte: 200}, got {}"),
        ({"a": {"gt": 1, "near": 5}}, "filters.a: unknown operator 'near'"),
        ({"a": {"contain": "x"}}, "filters.a: unknown operator 'contain'; did you mean 'contains'"),
        ({"a": {5: "x"}}, "filters.a: unknown operator 5"),
        ({"a": []}, "filters: a: the list of values is empty, so nothing could match; leave the filter out"),
        ({"a": {"in": []}}, "filters: a: the list of values is empty"),
        ({"a": {"contains": []}}, "filters: a: the list of values is empty"),
        ({"a": None}, "filters: a: expected text, a number or true/false, got None"),
        ({"a": [["b"]]}, "filters: a: expected text, a number or true/false, got ['b']"),
        ({"a": {"eq": ["b"]}}, "filters: a: expected text, a number or true/false, got ['b']"),
        ({"a": {"ne": ["b"]}}, "filters: a: expected text, a number or true/false, got ['b']"),
        ({"a": yaml.safe_load("2024-01-01")}, "expected text, a number or true/false, got datetime.date(2024, 1, 1)"),
        ({"a": {"gte": "x"}}, "filters: a: a range needs a number, got 'x'"),
        ({"a": {"lt": True}}, "filters: a: a range needs a number, got True"),
        ({"a": {"lt": [1]}}, "filters: a: expected text, a number or true/false, got [1]"),
        ({"a": float("nan")}, "filters: a: expected a finite number, got nan"),
        ({"a": {"gt": float("inf")}}, "filters: a: expected a finite number, got inf"),
        ({"a": 10**400}, "filters: a: expected a finite number, got an integer of 1,329 bits"),
    ],
)
def test_a_mapping_that_cannot_be_read_is_told_where(mapping: Any, said: str) -> None:
    assert said in refused(mapping)


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"must": [{"key": "a", "match": {"value": 1}}], "must_not": [{"has_id": [1, "x"]}]}, ""),
        ({"should": {"key": "n", "range": {"gte": 5}}}, ""),
        ({"must": [{"key": "a", "match": {"valu": 1}}]}, "filters.must"),
        ({"should": 5}, "filters.should"),
    ],
)
def test_a_filter_of_qdrant_goes_to_it_as_it_is(mapping: Any, said: str) -> None:
    if not said:
        assert qdrant_filter(mapping) == models.Filter.model_validate(mapping)
        return
    with pytest.raises(ConfigError, match=said + r".*: no filter of Qdrant: .*, got "):
        qdrant_filter(mapping)


@pytest.mark.parametrize("mapping", [{"module": "a"}, {"must": [], "module": "a"}, {}, "must = 1"])
def test_any_other_mapping_is_of_the_language(mapping: Any) -> None:
    assert qdrant_filter(mapping) is None
