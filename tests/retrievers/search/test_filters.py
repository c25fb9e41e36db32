"""Filters on real collections: what they let through is what brute force does, and what no payload can meet is told."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from qdrant_client import QdrantClient
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever
from retrievers.errors import ConfigError, StoreError
from retrievers.search.query import compile_filters
from retrievers.store.collection import NO_LIMITS
from retrievers.store.inspection import SAMPLE
from tests.support.collections import embedded, fill, index_pages, settings, write_pages
from tests.support.expressions import Tree, as_text, holds, trees
from tests.support.qdrant_server import QdrantServer

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


def test_a_filter_by_hand(collection: Collection) -> None:
    assert collection.matches("module != ros2") == [2, 3, 4, 5, 6], "what has no module is not of that module"
    assert collection.matches({"module": "imu", "tags": ["a", "z"]}) == [3]
    assert collection.matches("n > 5 and n < 7") == [1, 5], "of a list each condition takes another number"
    assert (collection.matches("mixed = 5"), collection.matches("mixed = '5'")) == ([0, 1], [2, 4])


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
    config = settings(store={"url": server.url}, collection="pages", filters="tags = topics", threshold=None)
    index_pages(config, write_pages(tmp_path))
    with QdrantRetriever.open(config, env={}) as retriever:
        assert {hit.chunk.title for hit in retriever.search("messages").chunks} == {"Topics"}
    server.rules.strict = {"unindexed_filtering_retrieve": False}
    with pytest.raises(StoreError, match=r"Index required but not found for .*content_hash"):
        QdrantRetriever.open(config.model_copy(update={"filters": "tags = topics and content_hash = x"}), env={})
