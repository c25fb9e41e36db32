"""Filters: three forms are read into filters of Qdrant, and let through what brute force does; every fault is told."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from qdrant_client import QdrantClient, models
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever
from retrievers.config.filters import to_filter
from retrievers.errors import ConfigError, StoreError
from retrievers.search.query import compile_filters
from retrievers.store.collection import NO_LIMITS, SAMPLE
from tests.support.collections import embedded, fill, indexed, settings
from tests.support.expressions import Tree, as_text, holds, trees
from tests.support.qdrant_server import QdrantServer

# As they are written


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


def test_a_filter_is_read() -> None:
    for text, same in (
        ("module = module-1-ros2", "module='module-1-ros2'"),
        ("n < -5\n AND NOT n >= 2.5", "n {'lt': -5.0} and not(n {'gte': 2.5})"),
        ("tags in [a, b,]", "tags='a' or tags='b'"),
        ("x in [50%, 2024-01-01, 1e5, ٥x, 5.0]", "x='50%' or x='2024-01-01' or x='1e5' or x='٥x' or x=5"),
        ("tags contains [a, 2, true]", "tags='a' and tags=2 and tags=True"),
        ("draft = FALSE", "draft=False"),
        ("n = '5'", "n='5'"),
        (r'x = "say \"hi\" \\ bye"', "x='say \"hi\" \\\\ bye'"),
        ("source_url = /docs/größe-b_c.d", "source_url='/docs/größe-b_c.d'"),
        ("'page title' = 🤖", "page title='🤖'"),
        ('"not" = x', "not='x'"),
        ("not a=1 and b=2", "not(a=1) and b=2"),
        ({"module": "a", "tags": ["b", "c"], "n": 5}, "module='a' and tags='b' or tags='c' and n=5"),
    ):
        assert plain(text) == same


def test_and_binds_closer_than_or_and_parentheses_closer_still() -> None:
    assert to_filter("a=1 or b=2 and c=3") == to_filter("(a=1) or ((b=2 and c=3))") != to_filter("(a=1 or b=2) and c=3")


REFUSED: list[Any] = [
    "", "module", "module ros2", "module like ros2", "module =", "module = )", "= 5", "a = 1 b = 2", "a = 1 and",
    "and a = 1", "(a = 1", "a = 1)", "tags in [a", "tags in [a b]", "tags in [,]", 'title = "open', "a = wow!", "()",
    "a b " + "x" * 100_000, "tags in [" + "a " * 50_000,
    "title = what's new", "tags in []", "n > abc", {}, {"tags": []}, {"a": None},
    {"a": [["b"]]}, {"a": {"gte": 5}}, {"a": [{"b": 1}]}, {"a": date(2024, 1, 1)},
    {"must": [{"key": "a", "match": {"valu": 1}}]},
]  # fmt: skip


def test_what_cannot_be_read_is_told_in_one_short_line(snapshot: SnapshotAssertion) -> None:
    told = []
    for source in REFUSED:
        with pytest.raises(ValueError) as caught:
            to_filter(source)
        told.append(str(caught.value))
    assert told == snapshot
    assert all(len(line) < 500 and "\n" not in line for line in told)


# On real collections

METADATA: tuple[dict[str, Any], ...] = (
    {"module": "ros2", "tags": ["a", "b"], "n": 5, "x": 1.5, "draft": True, "mixed": 5},
    {"module": "ros2", "tags": ["b"], "n": 6, "x": 2.0, "draft": False, "mixed": 5.0},
    {"module": "imu", "tags": [], "n": 7, "x": -1, "draft": True, "mixed": "5"},
    {"module": "imu", "tags": ["a"], "n": 5, "mixed": True},
    {"module": "", "tags": ["c", "a", "b"], "x": 2, "mixed": ["5", 7]},
    {"tags": None, "n": [1, 9], "draft": None, "mixed": 1},
    {},
)
FIELDS: Mapping[str, tuple[Any, ...]] = {
    "module": ("ros2", "imu", "", "other"),
    "tags": ("a", "b", "c", "d"),
    "n": (5, 6.0, 1, 9, 4),
    "x": (2, 1.5, 2.0, -1, 0),
    "draft": (True, False),
    "mixed": (5, 5.0, "5", True, 1, 7),
}
FLAT = {"nested_under": "", "text_key": "body"}


class Collection:
    """The payloads in a collection, nested as LangChain writes them, or flat."""

    def __init__(self, client: QdrantClient, payloads: Any = METADATA, *, nested: bool = True, **values: Any) -> None:
        self.client, self.values = client, {"metadata": {} if nested else FLAT, **values}
        stored = [{"page_content": "t", "metadata": one} if nested else {"body": "t", **one} for one in payloads]
        fill(client, "c", [[1.0, 0.0]] * len(stored), stored)

    def matches(self, filters: Any) -> list[int]:
        """Return the places of the payloads that meet the filters."""
        compiled = compile_filters(self.client, settings(collection="c", filters=filters, **self.values), NO_LIMITS)
        found, _ = self.client.scroll("c", compiled, limit=1_000)
        return sorted(int(point.id) for point in found)


@pytest.fixture(scope="module", params=["nested", "flat", "embedded"])
def collection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    if request.param == "embedded":
        with embedded(tmp_path_factory.mktemp("filters")) as client:
            yield Collection(client)
        return
    with closing(QdrantClient(":memory:")) as client:
        yield Collection(client, nested=request.param == "nested")


@given(tree=trees(FIELDS))
def test_what_a_filter_lets_through_is_what_brute_force_does(collection: Collection, tree: Tree) -> None:
    if expected := [place for place, payload in enumerate(METADATA) if holds(tree, payload.get)]:
        assert collection.matches(as_text(tree)) == expected
        return
    with pytest.raises(ConfigError, match="lets no chunk of collection 'c' through"):
        collection.matches(as_text(tree))


def test_a_filter_of_qdrant_is_taken_as_it_is(memory: QdrantClient) -> None:
    own = {"must": [{"key": "metadata.module", "match": {"value": "imu"}}]}
    assert Collection(memory).matches(own) == [2, 3]
    assert compile_filters(memory, settings(collection="none"), NO_LIMITS) is None


UNKNOWN = ["not (modul = x)", "not (point_id = x)", 'not ("a\\"b" = x)', 'not (".." = x)']
UNMET = ["module > 5", "n = '5'", {"draft": "True"}, {"module": "imu", "n": 6}]


@pytest.mark.parametrize("filters", [*UNKNOWN, *UNMET], ids=str)
def test_a_filter_that_lets_nothing_through_is_an_error(
    memory: QdrantClient, filters: Any, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        Collection(memory).matches(filters)
    assert str(caught.value) == snapshot


def test_fields_that_few_chunks_have_are_found_in_the_whole_collection(memory: QdrantClient) -> None:
    rest = {"module": "m", "n": 5}
    rare = [{"n": "text"}, {"rare": 7, "source_url": "/last", "n": True}]
    collection = Collection(memory, [*([rest] * (SAMPLE + 5)), *rare])
    first = SAMPLE + 5
    assert collection.matches("n = text") == [first]
    assert collection.matches("n = true or url = /last or rare = 6") == [first + 1]
    with pytest.raises(ConfigError, match="has no field 'rate'"):
        collection.matches("rare = 7 and rate = 7")


@pytest.mark.parametrize("key", ["page title", "c++", "größe", "x-y", "a(b)", "50%"])
def test_a_payload_key_may_have_any_characters(memory: QdrantClient, key: str) -> None:
    collection = Collection(memory, [{key: "x"}, {key: "y"}])
    assert collection.matches({key: "y"}) == collection.matches(f'"{key}" = y') == [1]
    collection.values = {"metadata": {"map": {"title": key}}}
    assert collection.matches("title = y") == [1]
    with pytest.raises(ConfigError, match="no field 'titel'; did you mean 'title'"):
        collection.matches("titel = y")


def test_a_filter_that_a_server_refuses_is_told_at_the_opening(server: QdrantServer, tmp_path: Path) -> None:
    config = indexed(tmp_path, store={"url": server.url}, filters="tags = topics", threshold=None)
    with QdrantRetriever.open(config, env={}) as retriever:
        assert {hit.chunk.title for hit in retriever.search("messages").chunks} == {"Topics"}
    server.rules.strict = {"unindexed_filtering_retrieve": False}
    with pytest.raises(StoreError, match=r"Index required but not found for .*content_hash"):
        QdrantRetriever.open(config.model_copy(update={"filters": "tags = topics and content_hash = x"}), env={})
