"""Filters on a real collection: results as by brute force, and what no payload can meet told."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from qdrant_client import QdrantClient
from retrievers.search.pushdown import compile_filters

from retrievers.config import RetrieverConfig
from retrievers.config.filters import Expression
from retrievers.errors import ConfigError, StoreError
from retrievers.store.chunks import filter_path
from retrievers.store.inspection import SAMPLE
from tests.support.collections import embedded, fill, settings
from tests.support.expressions import as_mapping, conditions, holds, trees
from tests.support.qdrant_server import FAULTS, QdrantServer

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

    def __init__(self, client: QdrantClient, *, nested: bool) -> None:
        self.client = client
        payloads = [{"page_content": "t", "metadata": m} if nested else {"body": "t", **m} for m in METADATA]
        fill(self.client, "c", [[1.0, 0.0]] * len(payloads), payloads)
        self.values: dict[str, Any] = {"collection": "c", "metadata": {} if nested else FLAT}

    def matches(self, filters: Any) -> list[int]:
        """Places of the payloads that meet the filters."""
        compiled = compile_filters(self.client, settings(**self.values, filters=filters))
        found, _ = self.client.scroll("c", compiled, limit=100)
        return sorted(int(point.id) for point in found)


@pytest.fixture(scope="module", params=["nested", "flat", "embedded"])
def collection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    if request.param == "embedded":
        with embedded(tmp_path_factory.mktemp("pushdown")) as client:
            yield Collection(client, nested=True)
        return
    client = QdrantClient(":memory:")
    yield Collection(client, nested=request.param == "nested")
    client.close()


@pytest.fixture(params=["local", "embedded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QdrantClient]:
    if request.param == "embedded":
        with embedded(tmp_path) as client:
            yield client
        return
    client = QdrantClient(":memory:")
    yield client
    client.close()


@given(expression=trees(conditions(FIELDS)))
def test_what_a_filter_lets_through_is_what_brute_force_does(collection: Collection, expression: Expression) -> None:
    expected = [place for place, payload in enumerate(METADATA) if holds(expression, payload.get)]
    assert collection.matches(as_mapping(expression)) == expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("module = ros2", [0, 1]),
        ("module != ros2", [2, 3, 4, 5, 6]),  # what has no module is not of that module
        ("module = ''", [4]),
        ("tags = a", [0, 3, 4]),
        ("tags contains a", [0, 3, 4]),
        ("tags contains [a, b]", [0, 4]),
        ("tags in [b, c]", [0, 1, 4]),
        ("not tags in [a, b]", [2, 5, 6]),
        ("n >= 6", [1, 2, 5]),
        ("n > 5 and n < 7", [1, 5]),  # of a list any number will do, another one for each condition
        ("x = 2", [1, 4]),
        ("x = 2.0", [1, 4]),
        ("x < 0", [2]),
        ("draft = true", [0, 2]),
        ("not draft = true", [1, 3, 4, 5, 6]),
        ("mixed = 5", [0, 1]),  # 5 and 5.0, not "5"
        ("mixed = '5'", [2, 4]),
        ("mixed = true", [3]),  # not 1
        ("mixed = 1", [5]),  # not true
        ("mixed >= 1", [0, 1, 4, 5]),
        ("mixed in ['5', 7, true]", [2, 3, 4]),
        ("(module = imu or tags contains c) and not n = 7", [3, 4]),
    ],
)
def test_a_filter_by_hand(collection: Collection, filters: str, expected: list[int]) -> None:
    assert collection.matches(filters) == expected


def test_a_filter_of_qdrant_is_taken_as_it_is(store: QdrantClient) -> None:
    fill(store, "c", [[1.0, 0.0]] * len(METADATA), [{"metadata": m} for m in METADATA])
    own = {"must": [{"key": "metadata.module", "match": {"value": "imu"}}]}
    found, _ = store.scroll("c", compile_filters(store, settings(collection="c", filters=own)))
    assert sorted(int(point.id) for point in found) == [2, 3]


def test_without_filters_there_is_none() -> None:
    with QdrantServer() as server:
        assert compile_filters(server.client, settings(collection="none")) is None


# Fields and kinds


@pytest.mark.parametrize(
    ("metadata", "field", "said"),
    [
        ({}, "modul", "no field 'modul'; did you mean 'module'?"),
        ({}, "tag", "no field 'tag'; did you mean 'tags'?"),
        ({}, "zzz", "no field 'zzz'"),
        ({}, "point_id", "no field 'point_id'"),
        ({}, "text", "no field 'text'"),
        ({"map": {"title": "module"}}, "titel", "no field 'titel'; did you mean 'title'?"),
        ({}, 'a"b', "no field 'a\"b'"),
        ({}, "..", "no field '..'"),
        ({}, "c++", "no field 'c++'"),
    ],
)
def test_an_unknown_field_is_an_error_with_the_nearest_name(metadata: Any, field: str, said: str) -> None:
    client = QdrantClient(":memory:")
    fill(client, "c", [[1.0, 0.0]] * len(METADATA), [{"metadata": m} for m in METADATA])
    config = settings(collection="c", metadata=metadata, filters={"not": {field: "x"}})
    with pytest.raises(ConfigError) as caught:
        compile_filters(client, config)
    client.close()
    assert str(caught.value).startswith(f"filters: the collection's payload has {said}")


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ("module > 5", "module: a range needs a number, but the payload holds text there"),
        ("draft <= 1", "draft: a range needs a number, but the payload holds true/false there"),
        ("n = 5 or not (tags >= 1)", "tags: a range needs a number, but the payload holds text there"),
        (
            "n = '5'",
            "n: nothing can equal the text '5': the payload holds whole numbers there; write 5 without quotes",
        ),
        (
            {"not": {"n": "five"}},
            "n: nothing can equal the text 'five': the payload holds whole numbers there; expected a number",
        ),
        ("tags contains 5", 'tags: nothing can equal the number 5: the payload holds text there; write "5" in quotes'),
        (
            "module = imu or tags in [a, 1.5]",
            'tags: nothing can equal the number 1.5: the payload holds text there; write "1.5" in quotes',
        ),
        (
            "module = true",
            'module: nothing can equal the value true: the payload holds text there; write "true" in quotes',
        ),
        (
            {"draft": "True"},
            "draft: nothing can equal the text 'True': the payload holds true/false there; write True without quotes",
        ),
        (
            "draft = 1",
            "draft: nothing can equal the number 1: the payload holds true/false there; expected true or false",
        ),
        (
            "x = false",
            "x: nothing can equal the value false: the payload holds numbers there; expected a number",
        ),
    ],
)
def test_what_nothing_in_the_payload_can_meet_is_an_error(collection: Collection, filters: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        collection.matches(filters)
    assert str(caught.value) == f"filters: {said}"


def test_every_such_value_is_named_at_once(collection: Collection) -> None:
    with pytest.raises(ConfigError) as caught:
        collection.matches("tags = 5 and (n = '5' or draft > 1) and tags = 5")
    assert [line.split(":")[1].strip() for line in str(caught.value).splitlines()] == ["tags", "n", "draft"]


def test_a_kind_of_value_that_few_chunks_have_is_found_in_the_whole_collection(store: QdrantClient) -> None:
    rare: tuple[Any, ...] = ("text", 7, True, ["more text"])
    values: list[Any] = [*(SAMPLE * [None]), *rare]
    fillers = {"n": 5, "t": "x", "f": False}
    payloads = [{"metadata": fillers if value is None else {"n": value, "t": value, "f": value}} for value in values]
    fill(store, "c", [[1.0, 0.0]] * len(payloads), payloads)

    def found(filters: str) -> list[Any]:
        compiled = compile_filters(store, settings(collection="c", filters=filters))
        return [int(point.id) - SAMPLE for point in store.scroll("c", compiled, limit=1000)[0]]

    assert found("n = text or n = true") == [0, 2]
    assert found("t >= 7") == [1]
    assert found("t = true or f = 'more text'") == [2, 3]
    assert found("f <= 7") == [1]
    assert found("n = 'in none of them'") == []  # text there is, if not this one
    store.delete("c", list(range(SAMPLE, len(values))))
    for filters in ("n = text", "n = true", "t >= 7", "t = true", "f = 'more text'", "f <= 7"):
        with pytest.raises(ConfigError, match="the payload holds"):
            found(filters)


def test_a_field_that_few_chunks_have_is_found_in_the_whole_collection() -> None:
    client = QdrantClient(":memory:")
    payloads: list[dict[str, Any]] = [{"metadata": {"module": "m"}} for _ in range(SAMPLE + 50)]
    payloads[-1]["metadata"] = {"rare": 7, "source_url": "/last"}
    fill(client, "c", [[1.0, 0.0]] * len(payloads), payloads)

    def found(filters: str) -> list[Any]:
        compiled = compile_filters(client, settings(collection="c", filters=filters))
        return [point.id for point in client.scroll("c", compiled, limit=1000)[0]]

    last = len(payloads) - 1
    assert found("rare >= 7") == [last]
    assert found("url = /last or rare = 6") == [last]
    with pytest.raises(ConfigError, match="has no field 'rate'; did you mean 'rare'"):
        found("rare = 7 and rate = 7")
    with pytest.raises(ConfigError, match="url: a range needs a number, but the payload holds text there"):
        found("url > 7")
    with pytest.raises(
        ConfigError, match="rare: nothing can equal the text 'x': the payload holds whole numbers there"
    ):
        found("rare = x")
    client.close()


def test_a_field_that_is_always_empty_exists() -> None:
    client = QdrantClient(":memory:")
    fill(client, "c", [[1.0, 0.0]], [{"metadata": {"tags": []}}])
    compiled = compile_filters(client, settings(collection="c", filters="tags contains a"))
    assert client.scroll("c", compiled)[0] == []
    client.close()


@pytest.mark.parametrize("key", ["page title", "c++", "größe", "x-y", "a(b)", "50%"])
def test_a_payload_key_may_have_any_characters(key: str) -> None:
    client = QdrantClient(":memory:")
    fill(client, "c", [[1.0, 0.0]] * 2, [{"metadata": {key: "x"}}, {"metadata": {key: "y"}}])
    for config in (
        settings(collection="c", filters={key: "y"}),
        settings(collection="c", filters=f'"{key}" = y'),
        settings(collection="c", filters="title = y", metadata={"map": {"title": key}}),
    ):
        (point,) = client.scroll("c", compile_filters(client, config))[0]
        assert point.id == 1
    client.close()


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("title", "title"),
        ("metadata.source_url", "metadata.source_url"),
        ("metadata.page title", 'metadata."page title"'),
    ],
)
def test_a_path_is_quoted_where_it_is_no_plain_word(key: str, path: str) -> None:
    assert filter_path(key) == path


def test_the_collection_is_asked_once_more_only_for_a_field_the_sample_lacks() -> None:
    with QdrantServer() as server:
        fill(server.client, "c", [[1.0, 0.0]], [{"metadata": {"module": "m", "n": 5}}])
        client = QdrantClient(url=server.url, check_compatibility=False)

        def config(filters: str) -> RetrieverConfig:
            return settings(store={"url": server.url}, collection="c", filters=filters)

        compile_filters(client, config("module = m and n = 5 or n = 6"))
        assert len(server.requests) == 1
        with pytest.raises(ConfigError):
            compile_filters(client, config("modul = m"))
        assert len(server.requests) == 3
        with pytest.raises(ConfigError):
            compile_filters(client, config("module = 5"))  # the sample was all there is
        assert len(server.requests) == 4
        with server.failing(FAULTS["500"]), pytest.raises(StoreError):
            compile_filters(client, config("module = m"))
        client.close()
