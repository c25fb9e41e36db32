"""What indexing writes is what the same settings read."""

from typing import Any

import pytest

from retrievers.config import MetadataConfig
from retrievers.errors import ConfigError
from retrievers.indexing.index import check_writable, to_payload, written_part
from retrievers.records import METADATA_FIELDS, Chunk
from retrievers.store.chunks import payload_keys, to_chunk

CHUNK = Chunk(
    chunk_id="c",
    point_id="00000000-0000-0000-0000-000000000001",
    text="the text",
    source_url="/docs/a",
    title="A",
    section_path="A > B",
    heading="B",
    chunk_index=0,
    total_chunks=2,
    source_document_id="a",
    content_hash="ab12",
    module="m",
    chapter="a",
    tags=("x", "y"),
    sidebar_position=1.5,
    chunk_token_count=2,
    file_path="a.md",
    start_line=3,
    end_line=4,
    page_number=2,
    chunk_context="Handbook > A",
    chunk_headings=("A", "B"),
)
FLAT = {"nested_under": ""}
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    FLAT,
    {"text_key": "body", "nested_under": "meta"},
    {**FLAT, "text_key": "body", "map": {"url": "href", "title": "page title", "tags": "labels"}},
    {**FLAT, "map": {name: f"k{number}" for number, name in enumerate(METADATA_FIELDS)}},
    {"map": {"source_url": "url", "section_path": "document_section", "source_document_id": "document_id"}},
    {**FLAT, "map": {"title": "heading", "heading": "title"}},
)


def metadata(values: dict[str, Any]) -> MetadataConfig:
    return MetadataConfig.model_validate(values)


@pytest.mark.parametrize("values", SETTINGS)
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    config = metadata(values)
    check_writable(config)
    payload = to_payload(CHUNK, config)
    assert to_chunk(CHUNK.point_id, payload, config) == CHUNK
    held = payload[config.nested_under] if config.nested_under else payload
    assert len(held) == len(METADATA_FIELDS) + (1 if config.nested_under else 2)
    for name in METADATA_FIELDS:
        assert payload_keys(name, config)[0].rpartition(".")[2] in held


def test_by_default_it_is_what_langchain_writes() -> None:
    payload = to_payload(CHUNK, metadata({}))
    assert set(payload) == {"page_content", "metadata"}
    assert payload["metadata"]["tags"] == ["x", "y"]
    assert payload["metadata"]["chunk_text_preview"] == "the text"


def test_a_flat_payload_by_hand() -> None:
    bare = Chunk(chunk_id="c", point_id="1", text="t", source_url="/a")
    config = metadata({**FLAT, "text_key": "body", "map": {"url": "href"}})
    assert to_payload(bare, config) == {"body": "t", "chunk_id": "c", "href": "/a", "chunk_text_preview": "t"}


@pytest.mark.parametrize("values", SETTINGS)
def test_keys_of_others_are_no_part_of_what_was_written(values: dict[str, Any]) -> None:
    config = metadata(values)
    payload = to_payload(CHUNK, config)
    assert written_part({**payload, "theirs": 1}, config) == payload
    assert written_part({"theirs": 1}, config) == {}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"text_key": ""}, "metadata.text_key: expected a payload key without dots and quotes to write under, got ''"),
        ({"text_key": "a.b"}, "metadata.text_key: expected a payload key without dots and quotes"),
        ({"nested_under": "a.b"}, "metadata.nested_under: expected a payload key without dots and quotes"),
        ({"map": {"title": 'a"b'}}, "metadata.map.title: expected a payload key without dots and quotes"),
        (
            {"map": {"title": "heading"}},
            "metadata.map: title and heading would both be under the payload key 'heading'",
        ),
        ({"map": {"title": "x", "heading": "x"}}, "metadata.map: title and heading would both be under the payload"),
        ({"map": {"title": "url"}}, "metadata.map: title and source_url would both be under the payload key 'url'"),
        (
            {"map": {"title": "chunk_text_preview"}},
            "metadata.map: title and chunk_text_preview would both be under the payload key 'chunk_text_preview'",
        ),
        ({**FLAT, "text_key": "title"}, "metadata.text_key: the payload key 'title' holds other fields already"),
        ({**FLAT, "text_key": "url"}, "metadata.text_key: the payload key 'url' holds other fields already"),
        ({"text_key": "metadata"}, "metadata.text_key: the payload key 'metadata' holds other fields already"),
    ],
)
def test_keys_that_cannot_be_told_apart_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_writable(metadata(values))
    assert str(caught.value).startswith(said)


def test_a_nested_text_key_may_be_named_as_a_field() -> None:
    config = metadata({"text_key": "title"})
    check_writable(config)
    assert to_chunk("1", to_payload(CHUNK, config), config).text == "the text"
