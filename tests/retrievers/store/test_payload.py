from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrievers.config import MetadataConfig
from retrievers.records import METADATA_FIELDS, Chunk
from retrievers.store.payload import all_metadata, payload_keys, to_chunk, to_metadata


def config(**values: Any) -> MetadataConfig:
    return MetadataConfig.model_validate(values)


FLAT = config(nested_under="", text_key="text")
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


@given(CHUNKS)
def test_what_indexing_writes_is_read_back_the_same(chunk: Chunk) -> None:
    payload = {"page_content": chunk.text, "metadata": to_metadata(chunk)}
    assert to_chunk(chunk.point_id, payload, config()) == chunk


@given(CHUNKS, st.dictionaries(st.sampled_from(METADATA_FIELDS), st.sampled_from(["k1", "k2", "k3"]), max_size=3))
def test_a_flat_payload_is_read_through_the_map(chunk: Chunk, mapping: dict[str, str]) -> None:
    unique = {name: f"{key}_{name}" for name, key in mapping.items()}
    payload = {unique.get(name, name): value for name, value in to_metadata(chunk).items()}
    read = to_chunk(
        chunk.point_id, {"text": chunk.text, **payload}, config(nested_under="", text_key="text", map=unique)
    )
    assert read == chunk


@pytest.mark.parametrize(
    ("payload", "settings", "rest"),
    [
        ({"page_content": "t", "metadata": {"source": "a.md", "start_index": 7, "title": "T"}}, {},
         {"source": "a.md", "start_index": 7}),
        ({"page_content": "t", "tenant": 1, "metadata": {"page": {"of": 3}}}, {}, {"tenant": 1, "page": {"of": 3}}),
        ({"text": "t", "source": "a.md", "k": None}, {"nested_under": "", "text_key": "text"},
         {"source": "a.md", "k": None}),
        ({"page_content": "t", "metadata": {"title": "T", "chunk_text_preview": "t"}}, {}, {}),
    ],
)  # fmt: skip
def test_the_rest_of_a_payload_is_kept(payload: dict[str, Any], settings: dict[str, Any], rest: dict[str, Any]) -> None:
    chunk = to_chunk("p", payload, config(**settings))
    assert chunk.extra == rest
    assert all_metadata(chunk).items() >= {**rest, "chunk_id": "p"}.items()
    assert {chunk} == {to_chunk("p", payload, config(**settings))}


def test_metadata_holds_what_is_known_as_json_and_the_preview() -> None:
    chunk = Chunk(chunk_id="c", point_id="p", text=" A \n bus.", tags=("a", "b"), start_line=0, title=None)
    assert to_metadata(chunk) == {"chunk_id": "c", "tags": ["a", "b"], "start_line": 0, "chunk_text_preview": "A bus."}


@pytest.mark.parametrize("alias", ["source_url", "url", "source"])
@pytest.mark.parametrize("nested_under", ["", "metadata", "meta"])
def test_an_address_is_found_under_either_name(alias: str, nested_under: str) -> None:
    fields = {alias: "/docs/a", "document_section": "A > B", "document_id": 7, "chunk_id": 12}
    payload = {"text": "t", **({nested_under: fields} if nested_under else fields)}
    chunk = to_chunk("p", payload, config(text_key="text", nested_under=nested_under))
    assert (chunk.source_url, chunk.section_path, chunk.source_document_id) == ("/docs/a", "A > B", "7")
    assert (chunk.chunk_id, chunk.problems) == ("12", ())


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({"source_url": "/a", "url": "/b"}, "/a"),  # the canonical name first
        ({"source_url": None, "url": "/b"}, "/b"),
        ({"href": "/c"}, None),
    ],
)
def test_the_canonical_name_comes_before_its_alias(fields: dict[str, Any], address: str | None) -> None:
    assert to_chunk("p", {"text": "t", **fields}, FLAT).source_url == address


def test_a_mapped_field_is_read_from_its_key_alone() -> None:
    mapped = config(nested_under="", text_key="text", map={"url": "href"})
    assert to_chunk("p", {"text": "t", "href": "/c", "source_url": "/a"}, mapped).source_url == "/c"
    assert to_chunk("p", {"text": "t", "source_url": "/a"}, mapped).source_url is None


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("title", 5, "text"),
        ("title", "", "text"),
        ("title", " \n", "text"),
        ("title", ["a"], "text"),
        ("chunk_id", True, "text or a whole number"),
        ("chunk_id", 1.5, "text or a whole number"),
        ("source_document_id", {}, "text or a whole number"),
        ("chunk_index", -1, "a whole number from 0"),
        ("chunk_index", "3", "a whole number from 0"),
        ("chunk_index", 3.0, "a whole number from 0"),
        ("start_line", False, "a whole number from 0"),
        ("sidebar_position", "1", "a number"),
        ("sidebar_position", True, "a number"),
        ("tags", "a, b", "a list of texts"),
        ("tags", ["a", 1], "a list of texts"),
    ],
)
def test_a_value_of_the_wrong_type_is_left_out_and_named(name: str, raw: Any, expected: str) -> None:
    chunk = to_chunk("p", {"text": "t", name: raw}, FLAT)
    assert chunk.problems == (f"{name}: expected {expected}, got {raw!r}",)
    assert getattr(chunk, name) == ("p" if name == "chunk_id" else None)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (None, "text: expected text under payload key 'page_content', got None"),
        ({}, "text: expected text under payload key 'page_content', got None"),
        ({"page_content": 5}, "text: expected text under payload key 'page_content', got 5"),
        ({"page_content": ["a"], "metadata": "x"}, "text: expected text under payload key 'page_content', got ['a']"),
    ],
)
def test_a_point_without_text_is_a_chunk_with_a_problem(payload: Any, problem: str) -> None:
    chunk = to_chunk(42, payload, config())
    assert (chunk.chunk_id, chunk.point_id, chunk.text, chunk.problems) == ("42", "42", "", (problem,))


def test_empty_text_is_text() -> None:
    assert to_chunk("p", {"page_content": ""}, config()).problems == ()


@pytest.mark.parametrize(
    ("name", "setting", "keys"),
    [
        ("source_url", {}, ("metadata.source_url", "metadata.url", "metadata.source")),
        ("url", {}, ("metadata.source_url", "metadata.url", "metadata.source")),
        ("title", {"nested_under": ""}, ("title",)),
        ("url", {"nested_under": "meta", "map": {"source_url": "href"}}, ("meta.href",)),
        ("source_document_id", {"nested_under": "", "map": {"document_id": "doc"}}, ("doc",)),
    ],
)
def test_a_filter_names_every_key_that_is_read(name: str, setting: dict[str, Any], keys: tuple[str, ...]) -> None:
    assert payload_keys(name, config(**setting)) == keys


def test_half_a_character_is_replaced_in_every_text() -> None:
    payload = {
        "page_content": "a \ud800 b",
        "metadata": {"title": "\udfff", "tags": ["\ud83e\udd16"], "chunk_id": "c\ud800"},
    }
    chunk = to_chunk("p", payload, MetadataConfig.model_validate({}))
    assert (chunk.text, chunk.title, chunk.tags, chunk.chunk_id) == ("a \ufffd b", "\ufffd", ("🤖",), "c\ufffd")
