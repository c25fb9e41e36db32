"""Payloads to chunks and back, listing by filter, and a proposal of the payload's names."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models
from syrupy.assertion import SnapshotAssertion

from retrievers.config import MetadataConfig
from retrievers.records import ALIASES, METADATA_FIELDS, Chunk, RetrievedChunk
from retrievers.store.chunks import scroll, to_chunk, to_metadata, vectors_of
from retrievers.store.collection import OUR_OWN, propose
from retrievers.store.collection import payload_keys as keys_of
from tests.support.collections import fill, settings

FLAT: dict[str, Any] = {"nested_under": "", "text_key": "text"}
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


# Points


def test_vectors_are_in_the_order_of_the_points_and_of_the_named_vector(memory: QdrantClient) -> None:
    params = {name: models.VectorParams(size=2, distance=models.Distance.COSINE) for name in ("a", "b")}
    vectors = [{"a": [1.0, 0.0], "b": [0.0, number]} for number in (1.0, -1.0)]
    fill(memory, "c", vectors, [{}, {}], params=params)
    for name, found in (("a", [[1, 0], [1, 0]]), ("b", [[0, -1], [0, 1]])):
        assert vectors_of(memory, settings(collection="c", vector_name=name), ["1", "0"]).tolist() == found


def test_chunks_are_listed_by_field_in_order_of_their_ids(memory: QdrantClient) -> None:
    """2,500 points, which are three pages of the scroll: a flat payload, the address under an alias."""
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


# A proposal


def test_keys_are_counted_by_type_with_the_first_example(snapshot: SnapshotAssertion) -> None:
    payloads: list[dict[str, Any]] = [
        {"text": "a  b\nc", "meta": {"n": 1, "deep": {"x": None}}},
        {"text": "d", "meta": {"n": "one"}, "tags": ["a"]},
        {"text": "x" * 99, "long": "y" * 61},
    ]
    assert keys_of(payloads) == snapshot
    assert (keys_of([{}]), propose([{}]).text_key, propose([{}]).map) == ([], None, {})


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
