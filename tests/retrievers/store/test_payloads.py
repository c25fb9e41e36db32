"""Payloads: filters on them, beside brute force; to chunks and back; a proposal of their names."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import date
from operator import ge, gt, le, lt
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models
from syrupy.assertion import SnapshotAssertion

from retrievers.config import MetadataConfig
from retrievers.config.filters import to_filter
from retrievers.errors import ConfigError
from retrievers.records import ALIASES, METADATA_FIELDS, Chunk, RetrievedChunk
from retrievers.search.query import compile_filters
from retrievers.store.chunks import scroll, to_chunk, to_metadata, vectors_of
from retrievers.store.collection import OUR_OWN, SAMPLE, propose, values_by_key
from tests.support.collections import embedded, fill, settings
from tests.support.command import refusal


def test_a_filter_is_read_as_one_that_is_typed_in_full() -> None:
    for source, full in (
        ("module = module-1-ros2", '"module" = "module-1-ros2"'),
        ("n < -5\n AND NOT n >= 2.5", '("n" < -5) and (not ("n" >= 2.5))'),
        ("tags in [a, b,]", '"tags" in ["a", "b"]'),
        ("x in [50%, 2024-01-01, 1e5, ٥x, 5.0]", '"x" in ["50%", "2024-01-01", "1e5", "٥x", 5]'),
        ("tags contains [a, 2, TRUE]", '"tags" contains ["a", 2, true]'),
        ("draft = FALSE", '"draft" = false'),
        ("n = '5'", '"n" = "5"'),
        (r'x = "say \"hi\" \\ bye"', "'x' = 'say \"hi\" \\\\ bye'"),
        ("source_url = /docs/größe-b_c.d", '"source_url" = "/docs/größe-b_c.d"'),
        ("'page title' = 🤖", '"page title" = "🤖"'),
        ('"not" = x', '"not" = "x"'),
        ("not a=1 and b=2", '(not ("a" = 1)) and ("b" = 2)'),
        ("a=1 or b=2 and c=3", '("a" = 1) or (("b" = 2) and ("c" = 3))'),
        ({"module": "a", "tags": ["b", "c"], "n": 5}, '("module" = "a") and ("tags" in ["b", "c"]) and ("n" = 5)'),
    ):
        assert to_filter(source) == to_filter(full)
    assert to_filter("a=1 or b=2 and c=3") != to_filter("(a=1 or b=2) and c=3")


REFUSED: list[Any] = [
    "", "module", "module ros2", "module like ros2", "module =", "module = )", "= 5", "a = 1 b = 2", "a = 1 and",
    "and a = 1", "(a = 1", "a = 1)", "tags in [a", "tags in [a b]", "tags in [,]", 'title = "open', "a = wow!", "()",
    "a b " + "x" * 100_000, "tags in [" + "a " * 50_000,
    "title = what's new", "tags in []", "n > abc", {}, {"tags": []}, {"a": None},
    {"a": [["b"]]}, {"a": {"gte": 5}}, {"a": [{"b": 1}]}, {"a": date(2024, 1, 1)},
    {"must": [{"key": "a", "match": {"valu": 1}}]},
]  # fmt: skip


def test_what_cannot_be_read_is_told_in_one_short_line(snapshot: SnapshotAssertion) -> None:
    told = [refusal(ValueError, to_filter, source) for source in REFUSED]
    assert told == snapshot and all(len(line) < 500 and "\n" not in line for line in told)


# Random trees, how they are typed, and whether a payload meets them: a tree is `(field, operator, *values)`,
# `("not", tree)`, `("and", *trees)` or `("or", *trees)`

Tree: TypeAlias = tuple[Any, ...]
RANGES: Mapping[str, Callable[[Any, Any], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}


def as_text(tree: Tree) -> str:
    if tree[0] in ("and", "or"):
        return f" {tree[0]} ".join(f"({as_text(part)})" for part in tree[1:])
    if tree[0] == "not":
        return f"not ({as_text(tree[1])})"
    field, operator, *values = tree
    listed = operator in ("in", "contains")
    return f"{json.dumps(field)} {operator} {'[' * listed}{', '.join(map(json.dumps, values))}{']' * listed}"


def holds(tree: Tree, value_of: Callable[[str], Any]) -> bool:
    """Return True if a payload meets the expression, by the language; `value_of` gives a field's value or None."""
    if tree[0] in ("and", "or"):
        return (all if tree[0] == "and" else any)(holds(part, value_of) for part in tree[1:])
    if tree[0] == "not":
        return not holds(tree[1], value_of)
    field, operator, *values = tree
    value = value_of(field)
    found = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if operator in RANGES:
        return any(_is_number(each) and RANGES[operator](each, values[0]) for each in found)
    held = [any(_same(each, wanted) for each in found) for wanted in values]
    return all(held) if operator == "contains" else any(held) != (operator == "!=")


def conditions(field: str) -> st.SearchStrategy[Tree]:
    name, value = st.just(field), st.sampled_from(FIELDS[field])
    several = st.tuples(name, st.sampled_from(["in", "contains"]), st.lists(value, min_size=1, max_size=3))
    numbers = [each for each in FIELDS[field] if _is_number(each)]
    limit = st.sampled_from(numbers) if numbers else st.nothing()
    return st.one_of(
        several.map(lambda drawn: (*drawn[:2], *drawn[2])),
        st.tuples(name, st.sampled_from(["=", "!="]), value),
        st.tuples(name, st.sampled_from(sorted(RANGES)), limit),
    )


def deeper(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    parts = st.lists(inner, min_size=2, max_size=3)
    joined = st.builds(lambda word, several: (word, *several), st.sampled_from(["and", "or"]), parts)
    return st.one_of(inner.map(lambda part: ("not", part)), joined)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, wanted: Any) -> bool:
    """Return True for equal values of one kind: 5 is 5.0, but neither is "5" nor true."""
    if _is_number(value) and _is_number(wanted):
        return bool(value == wanted)
    return type(value) is type(wanted) and bool(value == wanted)


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
FLAT: dict[str, Any] = {"nested_under": "", "text_key": "text"}


class Collection:
    """The payloads in a collection, nested as LangChain writes them, or flat."""

    def __init__(self, client: QdrantClient, payloads: Any = METADATA, *, nested: bool = True, **values: Any) -> None:
        self.client, self.values = client, {"metadata": {} if nested else FLAT, **values}
        stored = [{"page_content": "t", "metadata": one} if nested else {"text": "t", **one} for one in payloads]
        fill(client, "c", [[1.0, 0.0]] * len(stored), stored)

    def matches(self, filters: Any) -> list[int]:
        """Return the places of the payloads that meet the filters."""
        compiled = compile_filters(self.client, settings(collection="c", filters=filters, **self.values))
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


@given(tree=st.recursive(st.sampled_from(sorted(FIELDS)).flatmap(conditions), deeper, max_leaves=6))
def test_what_a_filter_lets_through_is_what_brute_force_does(collection: Collection, tree: Tree) -> None:
    if expected := [place for place, payload in enumerate(METADATA) if holds(tree, payload.get)]:
        assert collection.matches(as_text(tree)) == expected
        return
    with pytest.raises(ConfigError, match="lets no chunk of collection 'c' through"):
        collection.matches(as_text(tree))


def test_a_filter_of_qdrant_is_taken_as_it_is(memory: QdrantClient) -> None:
    own = {"must": [{"key": "metadata.module", "match": {"value": "imu"}}]}
    assert Collection(memory).matches(own) == [2, 3]
    assert compile_filters(memory, settings(collection="none")) is None


UNKNOWN = ["not (modul = x)", "not (point_id = x)", 'not ("a\\"b" = x)', 'not (".." = x)']
UNMET = ["module > 5", "n = '5'", {"draft": "True"}, {"module": "imu", "n": 6}]


@pytest.mark.parametrize("filters", [*UNKNOWN, *UNMET], ids=str)
def test_a_filter_that_lets_nothing_through(memory: QdrantClient, filters: Any, snapshot: SnapshotAssertion) -> None:
    assert refusal(ConfigError, Collection(memory).matches, filters) == snapshot


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


# Payloads to chunks and back, listing by filter, and a proposal of the payload's names

TEXTS = st.text(min_size=1).filter(str.strip)
COUNTS = ("chunk_index", "total_chunks", "chunk_token_count", "start_line", "end_line", "page_number")
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    **dict[str, Any].fromkeys(METADATA_FIELDS, TEXTS),
    **dict[str, Any].fromkeys(COUNTS, st.integers(0, 10**6)),
    "sidebar_position": st.one_of(st.integers(-5, 50), st.floats(-5, 50)),
    **dict[str, Any].fromkeys(("tags", "chunk_headings"), st.lists(st.text()).map(tuple)),
}
CHUNKS = st.fixed_dictionaries(
    {"chunk_id": TEXTS, "point_id": TEXTS, "text": st.text()},
    optional={name: values for name, values in KNOWN.items() if name != "chunk_id"},
).map(lambda values: Chunk(**cast("dict[str, Any]", values)))


def read(payload: dict[str, Any], **config: Any) -> Chunk:
    return to_chunk("p", payload, MetadataConfig.model_validate(config))


@given(CHUNKS, st.sets(st.sampled_from(METADATA_FIELDS), max_size=3), st.sampled_from(["", "metadata", "meta"]))
def test_what_indexing_writes_is_read_back_the_same(chunk: Chunk, renamed: set[str], nested: str) -> None:
    mapping = {name: f"own_{name}" for name in renamed}
    fields = {mapping.get(name, name): value for name, value in to_metadata(chunk).items()}
    payload = {"text": chunk.text, **({nested: fields} if nested else fields)}
    config = MetadataConfig.model_validate({"text_key": "text", "nested_under": nested, "map": mapping})
    assert to_chunk(chunk.point_id, payload, config) == chunk


def test_the_rest_of_a_payload_is_kept() -> None:
    for metadata, beside, rest in (
        ({"source": "a.md", "start_index": 7, "title": "T"}, {}, {"source": "a.md", "start_index": 7}),
        ({"page": {"of": 3}}, {"tenant": 1}, {"tenant": 1, "page": {"of": 3}}),
        ({"title": "T", "chunk_text_preview": "t"}, {}, {}),
    ):
        payload = {"page_content": "t", "metadata": metadata, **beside}
        assert read(payload).extra == rest
        assert {read(payload)} == {read(payload)}, "it can be hashed all the same"


def test_a_field_is_read_by_each_name() -> None:
    for fields, setting, expected in (
        ({"source_url": "/a", "url": "/b"}, {}, {"source_url": "/a"}),  # the canonical name first
        ({"source_url": None, "url": "/b"}, {}, {"source_url": "/b"}),
        ({"source": "/b", "k": None}, {}, {"source_url": "/b", "extra": {"source": "/b", "k": None}}),
        ({"href": "/c"}, {}, {"source_url": None}),
        ({"document_section": "A > B", "document_id": 7}, {}, {"section_path": "A > B", "source_document_id": "7"}),
        ({"section_path": ["A", "B"]}, {}, {"section_path": "A > B"}),
        ({"href": "/c", "source_url": "/a"}, {"url": "href"}, {"source_url": "/c"}),  # its key alone
        ({"source_url": "/a"}, {"url": "href"}, {"source_url": None}),
        ({"text": "", "chunk_id": 12}, {}, {"text": "", "chunk_id": "12", "problems": ()}),
        # Half a character cannot be stored or sent.
        ({"text": "a \ud800 b", "tags": ["\ud83e\udd16"]}, {}, {"text": "a \ufffd b", "tags": ("🤖",)}),
    ):
        chunk = read({"text": "t", **fields}, **FLAT, map=setting)
        assert {name: getattr(chunk, name) for name in expected} == expected


def test_a_value_of_the_wrong_type_is_left_out_and_named() -> None:
    for name, values, kind in (
        ("title", [5, " \n"], "text"),
        ("chunk_id", [True], "text or a whole number"),
        ("source_document_id", [{}], "text or a whole number"),
        ("chunk_index", [-1, "3", 3.0], "a whole number from 0"),
        ("start_line", [False], "a whole number from 0"),
        ("sidebar_position", ["1", True], "a number"),
        ("tags", ["a, b", ["a", 1]], "a list of texts"),
        ("text", [5, None], "text under payload key 'text'"),
    ):
        for value in values:
            chunk = read({"text": "t", name: value}, **FLAT)
            assert chunk.problems == (f"{name}: expected {kind}, got {value!r}",)
            assert getattr(chunk, name) == {"chunk_id": "p", "text": ""}.get(name)


def test_a_chunk_says_where_it_is_as_far_as_is_known() -> None:
    for known, source, breadcrumb in (
        ({"file_path": "ros2/topics.md", "start_line": 5, "end_line": 9}, "ros2/topics.md:5-9", ""),
        ({"file_path": "ros2/topics.md", "start_line": 5, "heading": "Rates"}, "ros2/topics.md:5", "Rates"),
        ({"file_path": "a.pdf", "page_number": 3}, "a.pdf:3", ""),
        ({"source_url": "/docs/a", "module": "a", "chapter": "a", "heading": "Rates"}, "/docs/a", "a › Rates"),
        ({}, "c1", ""),
    ):
        chunk = Chunk(chunk_id="c1", point_id="p1", text="  a\n\n b\tc " + "x" * 300, **known)
        hit = RetrievedChunk(rank=1, score=None, score_scale="none", chunk=chunk)
        assert (hit.source, hit.breadcrumb) == (chunk.source, chunk.breadcrumb) == (source, breadcrumb)
        assert chunk.chunk_text_preview == "a b c " + "x" * 194
        assert [chunk.value(alias) for alias in ALIASES] == [getattr(chunk, name) for name in ALIASES.values()]


def test_vectors_are_in_the_order_of_the_points_and_of_the_named_vector(memory: QdrantClient) -> None:
    params = {name: models.VectorParams(size=2, distance=models.Distance.COSINE) for name in ("a", "b")}
    vectors = [{"a": [1.0, 0.0], "b": [0.0, number]} for number in (1.0, -1.0)]
    fill(memory, "c", vectors, [{}, {}], params=params)
    for name, found in (("a", [[1, 0], [1, 0]]), ("b", [[0, -1], [0, 1]])):
        assert vectors_of(memory, settings(collection="c", vector_name=name), [1, 0]).tolist() == found


def test_chunks_are_listed_by_field_in_order_of_their_ids(memory: QdrantClient) -> None:
    payloads = [{"text": f"t{n}", "url": f"/docs/{n % 3}", "a b": "en", "chunk_id": 9_999 - n} for n in range(2_500)]
    fill(memory, "flat", [[1.0, 0.0]] * len(payloads), payloads)
    config = settings(collection="flat", metadata={**FLAT, "map": {"module": "a b"}})
    rows: list[tuple[dict[str, list[str]], int]] = [
        ({}, 2_500),
        ({"source_url": ["/docs/0"]}, 834),
        ({"url": ["/docs/0", "/docs/2"]}, 1_667),
        ({"source_url": ["/docs/9"]}, 0),
        ({"source_url": []}, 0),
        ({"module": ["en"]}, 2_500),  # under a key of any characters
        ({"module": ["en"], "source_url": ["/docs/1"]}, 833),
        ({"point_id": ["7", "0", "none", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"]}, 2),
    ]
    for where, count in rows:
        chunks = scroll(memory, config, where)
        assert len(chunks) == count
        assert [chunk.chunk_id for chunk in chunks] == sorted(chunk.chunk_id for chunk in chunks)
        urls = where.get("source_url", where.get("url"))
        assert urls is None or {chunk.source_url for chunk in chunks} <= {*urls}


def test_keys_are_counted_by_type_with_the_first_example(snapshot: SnapshotAssertion) -> None:
    payloads: list[dict[str, Any]] = [
        {"text": "a  b\nc", "meta": {"n": 1, "deep": {"x": None}}},
        {"text": "d", "meta": {"n": "one"}, "tags": ["a"]},
        {"text": "x" * 99, "long": "y" * 61},
    ]
    assert values_by_key(payloads) == snapshot
    assert (values_by_key([{}]), propose([{}]).text_key, propose([{}]).map) == ({}, None, {})


@pytest.mark.parametrize("other", [5, "t1", ["title"]])
def test_fields_are_proposed_where_some_points_hold_no_object_under_the_same_key(other: Any) -> None:
    found = propose([{"text": "a", "metadata": {"title": "A", "link": "/a"}}, {"text": "b", "metadata": other}])
    assert (found.nested_under, found.same_name, found.map) == ("metadata", ("title",), {"source_url": "link"})


@pytest.mark.parametrize(
    "payload",
    [
        {"page_content": "t", "metadata": {"source_url": "/a"}},
        {"text": "t", "url": "/a"},
        {"content": "t", "Page-Title": "A"},
        {"text": "t", "chunk_idx": 3},
        {"text": "t", "document_id": "d", "title": "A"},
        {"text": "t", "id": 7, "hash": "h"},
        {"text": 5, "passage": "t", "start_index": 1},
        {"text": "t", "chunk_content": "u"},  # near chunk_context, which only our indexing writes
        {"text": "t", "source": "a.md"},  # one key serves one field
        {"content": "t", "link": "/docs/a", "page_title": "A", "position": 3, "keywords": ["x"], "line": 4},
    ],
    ids=" ".join,
)
def test_keys_are_recognised_by_name_and_spelling(payload: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    found = propose([payload])
    assert (found.text_key, found.nested_under, found.map, found.same_name) == snapshot
    assert {*found.missing} == {*METADATA_FIELDS} - {*found.map} - {*found.same_name} - {*OUR_OWN}
    chunk = read(payload, text_key=found.text_key, nested_under=found.nested_under, map=dict(found.map))
    assert (chunk.text, chunk.problems) in (("t", ()), ("u", ())), "the proposed setting reads the collection"
