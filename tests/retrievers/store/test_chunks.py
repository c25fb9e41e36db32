"""Payloads to chunks and back, points read once each, listing by filter, and a proposal of the payload's names."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models

from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.errors import CollectionChangedError, StoreError
from retrievers.records import ALIASES, METADATA_FIELDS, Chunk, RetrievedChunk
from retrievers.store import ChunkTable
from retrievers.store.chunks import all_metadata, scroll, to_chunk, to_metadata, vectors_of
from retrievers.store.inspection import OUR_OWN, PayloadKey, propose
from retrievers.store.inspection import payload_keys as keys_of
from tests.support.collections import fill, settings
from tests.support.hybrid import fill_sparse
from tests.support.qdrant_server import QdrantServer


def config(**values: Any) -> MetadataConfig:
    return MetadataConfig.model_validate(values)


FLAT: dict[str, Any] = {"nested_under": "", "text_key": "text"}
TEXTS = st.text(min_size=1).filter(str.strip)
COUNTS = st.integers(0, 10**6)
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    **dict[str, Any].fromkeys(METADATA_FIELDS, TEXTS),
    **dict[str, Any].fromkeys(("chunk_index", "total_chunks", "chunk_token_count", "start_line", "end_line"), COUNTS),
    "page_number": COUNTS,
    "sidebar_position": st.one_of(st.integers(-5, 50), st.floats(-5, 50)),
    **dict[str, Any].fromkeys(("tags", "chunk_headings"), st.lists(st.text()).map(tuple)),
}
CHUNKS = st.fixed_dictionaries(
    {"chunk_id": TEXTS, "point_id": TEXTS, "text": st.text()},
    optional={name: values for name, values in KNOWN.items() if name != "chunk_id"},
).map(lambda values: Chunk(**cast("dict[str, Any]", values)))


@given(CHUNKS, st.sets(st.sampled_from(METADATA_FIELDS), max_size=3), st.sampled_from(["", "metadata", "meta"]))
def test_what_indexing_writes_is_read_back_the_same(chunk: Chunk, renamed: set[str], nested: str) -> None:
    mapping = {name: f"own_{name}" for name in renamed}
    fields = {mapping.get(name, name): value for name, value in to_metadata(chunk).items()}
    payload = {"text": chunk.text, **({nested: fields} if nested else fields)}
    read = to_chunk(chunk.point_id, payload, config(text_key="text", nested_under=nested, map=mapping))
    assert read == chunk


@pytest.mark.parametrize(
    ("payload", "setting", "rest"),
    [
        ({"page_content": "t", "metadata": {"source": "a.md", "start_index": 7, "title": "T"}}, {},
         {"source": "a.md", "start_index": 7}),
        ({"page_content": "t", "tenant": 1, "metadata": {"page": {"of": 3}}}, {}, {"tenant": 1, "page": {"of": 3}}),
        ({"text": "t", "source": "a.md", "k": None}, FLAT, {"source": "a.md", "k": None}),
        ({"page_content": "t", "metadata": {"title": "T", "chunk_text_preview": "t"}}, {}, {}),
    ],
)  # fmt: skip
def test_the_rest_of_a_payload_is_kept(payload: dict[str, Any], setting: dict[str, Any], rest: dict[str, Any]) -> None:
    chunk = to_chunk("p", payload, config(**setting))
    assert chunk.extra == rest
    assert all_metadata(chunk).items() >= {**rest, "chunk_id": "p"}.items()
    assert {chunk} == {to_chunk("p", payload, config(**setting))}


@pytest.mark.parametrize(
    ("fields", "setting", "read"),
    [
        ({"source_url": "/a", "url": "/b"}, {}, {"source_url": "/a"}),  # the canonical name first
        ({"source_url": None, "url": "/b"}, {}, {"source_url": "/b"}),
        ({"source": "/b"}, {}, {"source_url": "/b"}),
        ({"href": "/c"}, {}, {"source_url": None}),
        ({"document_section": "A > B", "document_id": 7}, {}, {"section_path": "A > B", "source_document_id": "7"}),
        ({"chunk_id": 12}, {}, {"chunk_id": "12"}),
        ({"href": "/c", "source_url": "/a"}, {"map": {"url": "href"}}, {"source_url": "/c"}),  # its key alone
        ({"source_url": "/a"}, {"map": {"url": "href"}}, {"source_url": None}),
        ({"text": ""}, {}, {"text": "", "problems": ()}),
        ({"text": "a \ud800 b", "title": "\udfff", "tags": ["\ud83e\udd16"]}, {},
         {"text": "a \ufffd b", "title": "\ufffd", "tags": ("🤖",)}),  # half a character cannot be stored or sent
    ],
)  # fmt: skip
def test_a_field_is_read_under_each_of_its_names(
    fields: dict[str, Any], setting: dict[str, Any], read: dict[str, Any]
) -> None:
    chunk = to_chunk("p", {"text": "t", **fields}, config(**FLAT, **setting))
    assert {name: getattr(chunk, name) for name in read} == read


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("title", 5, "text"),
        ("title", " \n", "text"),
        ("chunk_id", True, "text or a whole number"),
        ("source_document_id", {}, "text or a whole number"),
        ("chunk_index", -1, "a whole number from 0"),
        ("chunk_index", "3", "a whole number from 0"),
        ("chunk_index", 3.0, "a whole number from 0"),
        ("start_line", False, "a whole number from 0"),
        ("sidebar_position", "1", "a number"),
        ("sidebar_position", True, "a number"),
        ("tags", "a, b", "a list of texts"),
        ("tags", ["a", 1], "a list of texts"),
        ("text", 5, "text under payload key 'text'"),
        ("text", None, "text under payload key 'text'"),
    ],
)
def test_a_value_of_the_wrong_type_is_left_out_and_named(name: str, raw: Any, expected: str) -> None:
    chunk = to_chunk("p", {"text": "t", name: raw}, config(**FLAT))
    assert chunk.problems == (f"{name}: expected {expected}, got {raw!r}",)
    assert getattr(chunk, name) == {"chunk_id": "p", "text": ""}.get(name)


@pytest.mark.parametrize(
    ("known", "source", "breadcrumb"),
    [
        ({"file_path": "ros2/topics.md", "start_line": 5, "end_line": 9}, "ros2/topics.md:5-9", ""),
        ({"file_path": "ros2/topics.md", "start_line": 5, "heading": "Rates"}, "ros2/topics.md:5", "Rates"),
        ({"file_path": "a.pdf", "page_number": 3}, "a.pdf:3", ""),
        ({"source_url": "/docs/topics", "module": "topics", "chapter": "topics", "heading": "Rates"}, "/docs/topics",
         "topics › Rates"),
        ({}, "c1", ""),
    ],
)  # fmt: skip
def test_a_chunk_says_where_it_is_as_far_as_is_known(known: dict[str, Any], source: str, breadcrumb: str) -> None:
    chunk = Chunk(chunk_id="c1", point_id="p1", text="  a\n\n b\tc " + "x" * 300, **known)
    hit = RetrievedChunk(rank=1, score=None, score_scale="none", chunk=chunk)
    assert (hit.source, hit.breadcrumb) == (chunk.source, chunk.breadcrumb) == (source, breadcrumb)
    assert chunk.chunk_text_preview == "a b c " + "x" * 194
    assert [chunk.value(alias) for alias in ALIASES] == [getattr(chunk, name) for name in ALIASES.values()]


# Points


ROWS = [([1.0, 0.0], "red", {"chunk_id": "c0"}), ([0.6, 0.8], "sea", {"chunk_id": "c1"}), ([0.0, 2.0], "red sea", {})]


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    made = QdrantClient(":memory:")
    fill_sparse(made, "c", ROWS)
    yield made
    made.close()


def test_a_point_keeps_its_number_and_is_read_once() -> None:
    with QdrantServer() as server:
        fill_sparse(server.client, "c", ROWS)
        client = QdrantClient(url=server.url, check_compatibility=False)
        chunks = ChunkTable(client, settings(store={"url": server.url}, collection="c"))
        assert chunks.codes([2, 0, 2]).tolist() == [0, 1, 0]
        assert (chunks.codes([1, 0]).tolist(), chunks.codes([]).tolist(), len(chunks)) == ([2, 1], [], 3)
        chunks.read([1, 1])
        chunks.read([0, 1])
        chunks.read([])
        assert [request.body["ids"] for request in server.requests] == [[0], [2]]
        assert [(chunks.name(code), chunks[code].text) for code in (1, 0)] == [
            (("c0", "0"), "red"),
            (("2", "2"), "red sea"),
        ]
        assert chunks[0] is chunks[0] and chunks.given(chunks.codes([1, 2])) == [1, 2]
        with pytest.raises(KeyError):
            chunks[2]
        client.close()


def test_a_point_that_is_gone_is_told(client: QdrantClient) -> None:
    chunks = ChunkTable(client, settings(collection="c"))
    with pytest.raises(CollectionChangedError, match="'c' changed during the search: point 5, which it found, is gone"):
        chunks.read(chunks.codes([0, 5]).tolist())


def test_vectors_are_in_the_order_of_the_points(client: QdrantClient) -> None:
    found = vectors_of(client, settings(collection="c"), ["2", "0", "1"])
    assert found == pytest.approx(np.asarray([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]]), abs=1e-6)
    bare: dict[str, Any] = {"bm25": models.SparseVector(indices=[1], values=[1.0])}
    client.upsert("c", [models.PointStruct(id=9, vector=bare, payload={})])
    with pytest.raises(StoreError, match="point 9 of collection 'c' has no dense vector ''"):
        vectors_of(client, settings(collection="c"), ["0", "9"])
    with pytest.raises(CollectionChangedError, match="point 8"):
        vectors_of(client, settings(collection="c"), ["0", "8"])
    params = {name: models.VectorParams(size=2, distance=models.Distance.COSINE) for name in ("a", "b")}
    fill(client, "two", [{"a": [1.0, 0.0], "b": [0.0, 1.0]}], [{}], params=params)
    assert vectors_of(client, settings(collection="two", vector_name="b"), ["0"]).tolist() == [[0.0, 1.0]]


# Without a search


@pytest.fixture(scope="module")
def foreign() -> Iterator[tuple[QdrantClient, RetrieverConfig]]:
    """2,500 points (three pages of the scroll), a flat payload, the address under an alias."""
    client = QdrantClient(":memory:")
    payloads = [{"text": f"t{n}", "url": f"/docs/{n % 3}", "a b": "en", "chunk_id": 9_999 - n} for n in range(2_500)]
    fill(client, "c", [[1.0, 0.0]] * len(payloads), payloads)
    yield client, settings(collection="c", metadata={**FLAT, "map": {"module": "a b"}})
    client.close()


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({}, 2_500),
        ({"source_url": ["/docs/0"]}, 834),
        ({"url": ["/docs/0", "/docs/2"]}, 1_667),
        ({"source_url": ["/docs/9"]}, 0),
        ({"source_url": []}, 0),
        ({"module": ["en"]}, 2_500),  # under a key of any characters
        ({"module": ["de"]}, 0),
        ({"module": ["en"], "source_url": ["/docs/1"]}, 833),
        ({"point_id": ["7", "0", "none", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"]}, 2),
    ],
)
def test_chunks_are_listed_by_field_in_order_of_their_ids(
    foreign: tuple[QdrantClient, RetrieverConfig], where: dict[str, list[str]], count: int
) -> None:
    chunks = scroll(*foreign, where)
    assert len(chunks) == count
    assert [c.chunk_id for c in chunks] == sorted(c.chunk_id for c in chunks)
    assert {c.source_url for c in chunks} <= {
        *where.get("source_url", where.get("url", ["/docs/0", "/docs/1", "/docs/2"]))
    }


# A proposal


def test_keys_are_counted_by_type_with_the_first_example() -> None:
    payloads: list[dict[str, Any]] = [
        {"text": "a  b\nc", "meta": {"n": 1, "deep": {"x": None}}},
        {"text": "d", "meta": {"n": "one"}, "tags": ["a"]},
        {"text": "x" * 99},
    ]
    assert keys_of(payloads) == [
        PayloadKey(key="meta.deep.x", types={"NoneType": 1}, example="None"),
        PayloadKey(key="meta.n", types={"int": 1, "str": 1}, example="1"),
        PayloadKey(key="tags", types={"list": 1}, example="['a']"),
        PayloadKey(key="text", types={"str": 3}, example="a b c"),
    ]
    assert (keys_of([{}]), keys_of([{"t": "x" * 61}])[0].example) == ([], "x" * 60)


@pytest.mark.parametrize(
    ("payload", "text_key", "nested", "mapping", "same"),
    [
        ({}, None, "", {}, ()),
        ({"page_content": "t", "metadata": {"source_url": "/a"}}, "page_content", "metadata", {}, ("source_url",)),
        ({"text": "t", "url": "/a"}, "text", "", {"source_url": "url"}, ()),
        ({"content": "t", "Page-Title": "A"}, "content", "", {"title": "Page-Title"}, ()),
        ({"text": "t", "chunk_idx": 3}, "text", "", {"chunk_index": "chunk_idx"}, ()),
        (
            {"text": "t", "document_id": "d", "title": "A"},
            "text",
            "",
            {"source_document_id": "document_id"},
            ("title",),
        ),
        ({"text": "t", "id": 7, "hash": "h"}, "text", "", {"chunk_id": "id", "content_hash": "hash"}, ()),
        ({"text": 5, "passage": "t", "start_index": 1}, "passage", "", {}, ()),
        ({"text": "t", "chunk_content": "u"}, "text", "", {}, ()),  # near chunk_context, which only our indexing writes
        ({"text": "t", "source": "a.md"}, "text", "", {"source_url": "source"}, ()),  # one key serves one field
    ],
)
def test_keys_are_recognised_by_name_alias_custom_and_spelling(
    payload: dict[str, Any], text_key: str | None, nested: str, mapping: dict[str, str], same: tuple[str, ...]
) -> None:
    found = propose([payload])
    assert (found.text_key, found.nested_under, found.map, found.same_name) == (text_key, nested, mapping, same)
    assert {*found.missing} == {*METADATA_FIELDS} - {*mapping} - {*same} - {*OUR_OWN}


def test_the_proposed_setting_reads_the_collection() -> None:
    payload = {"content": "t", "link": "/docs/a", "page_title": "A", "position": 3, "keywords": ["x"], "line": 4}
    found = propose([payload])
    chunk = to_chunk("p", payload, config(text_key="content", nested_under=found.nested_under, map=dict(found.map)))
    assert (chunk.text, chunk.source_url, chunk.title, chunk.chunk_index) == ("t", "/docs/a", "A", 3)
    assert (chunk.tags, chunk.start_line, chunk.problems) == (("x",), 4, ())
