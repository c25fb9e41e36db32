"""The three forms of a filter, read into filters of Qdrant, every fault told in one line.

`tests/retrievers/search/test_filters.py` has random filters beside brute force.
"""

from datetime import date
from typing import Any

import pytest
from qdrant_client import models
from syrupy.assertion import SnapshotAssertion

from retrievers.config.filters import conditions, is_qdrants, to_filter


def plain(source: Any) -> str:
    """Return the filter as it is typed, every part in parentheses."""

    def typed(part: Any) -> str:
        if isinstance(part, models.Filter):
            clauses = ((part.must, " and "), (part.should, " or "))
            joined = next((word.join(map(typed, clause)) for clause, word in clauses if isinstance(clause, list)), "")
            return joined or f"not({' or '.join(map(typed, part.must_not or []))})"
        if part.match:
            return f"{part.key}={part.match.value!r}"
        limits = part.range.model_dump(exclude_none=True)
        return f"{part.key}={limits['gte']:g}" if len(limits) == 2 else f"{part.key} {limits}"

    return typed(to_filter(source))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("module = module-1-ros2", "module='module-1-ros2'"),
        ("n < -5\n AND NOT n >= 2.5", "n {'lt': -5.0} and not(n {'gte': 2.5})"),
        ("tags in [a, b,]", "tags='a' or tags='b'"),
        ("tags in a", "tags='a'"),
        ("tags contains [a, 2, true]", "tags='a' and tags=2 and tags=True"),
        ("draft = FALSE", "draft=False"),
        ("n = '5'", "n='5'"),
        (r'x = "say \"hi\" \\ bye"', "x='say \"hi\" \\\\ bye'"),
        ("source_url = /docs/größe-b_c.d", "source_url='/docs/größe-b_c.d'"),
        ("'page title' = 🤖", "page title='🤖'"),
        ('"not" = x', "not='x'"),
        ("not a=1 and b=2", "not(a=1) and b=2"),
        ({"module": "a", "tags": ["b", "c"], "n": 5}, "module='a' and tags='b' or tags='c' and n=5"),
    ],
)  # fmt: skip
def test_a_filter_is_read(text: Any, same: str) -> None:
    assert plain(text) == same


def test_and_binds_closer_than_or_and_parentheses_closer_still() -> None:
    assert to_filter("a=1 or b=2 and c=3") == to_filter("(a=1) or ((b=2 and c=3))") != to_filter("(a=1 or b=2) and c=3")
    text = "module = a and (tags contains qos or chunk_token_count >= 200) and not sidebar_position > 5"
    fields = [condition.key for condition in conditions(to_filter(text))]
    assert fields == ["module", "tags", "chunk_token_count", "sidebar_position"]


@pytest.mark.parametrize("word", ["50%", "2:1", "3d", "5/6", "1.2.3", "2024-01-01", "5;", "1e5", "+5", "5.", "٥x"])
def test_what_only_begins_like_a_number_is_a_word(word: str) -> None:
    assert plain(f"x in [{word}, 5, 5.0]") == f"x={word!r} or x=5 or x=5"


REFUSED: list[Any] = [
    "", "module", "module ros2", "module like ros2", "module =", "module = )", "= 5", "a = 1 b = 2", "a = 1 and",
    "and a = 1", "(a = 1", "a = 1)", "tags in [a", "tags in [a b]", "tags in [,]", 'title = "open', "a = wow!", "()",
    "a b " + "x" * 100_000, "tags in [" + "a " * 50_000, "not " * 10_000 + "a = 1",
    "(not " * 10_000 + "a = 1" + ")" * 10_000,
    "title = what's new", "tags in []", "n > abc", "n <= '5'", "n >= true", {}, {"tags": []}, {"a": None},
    {"a": [["b"]]}, {"a": {"gte": 5}}, {"a": [{"b": 1}]}, {"a": date(2024, 1, 1)}, {"a": float("nan")},
    {"a": 10**400}, {"must": [{"key": "a", "match": {"valu": 1}}]},
]  # fmt: skip


def test_what_cannot_be_read_is_told_in_one_short_line(snapshot: SnapshotAssertion) -> None:
    told = []
    for source in REFUSED:
        with pytest.raises(ValueError) as caught:
            to_filter(source)
        told.append(str(caught.value))
    assert told == snapshot
    assert all(len(line) < 500 and "\n" not in line for line in told)


def test_a_filter_of_qdrant_goes_to_it_as_it_is() -> None:
    mapping = {"must": [{"key": "a", "match": {"value": 1}}], "must_not": [{"has_id": [1, "x"]}]}
    assert to_filter(mapping) == models.Filter.model_validate(mapping)
    others: tuple[Any, ...] = ({"a": 1}, {"must": [], "a": 1}, {}, "must = 1")
    assert is_qdrants(mapping) and not any(map(is_qdrants, others))
