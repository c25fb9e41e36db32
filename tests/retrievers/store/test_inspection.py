from typing import Any

import pytest

from retrievers.config import MetadataConfig
from retrievers.records import METADATA_FIELDS
from retrievers.store import open_client
from retrievers.store.inspection import OUR_OWN, SAMPLE, PayloadKey, Proposal, payload_keys, propose, sample
from retrievers.store.payload import to_chunk
from tests.support.collections import fill, settings
from tests.support.qdrant_server import QdrantServer


def test_keys_are_counted_by_type_with_the_first_example() -> None:
    payloads: list[dict[str, Any]] = [
        {"text": "a  b\nc", "meta": {"n": 1, "deep": {"x": None}}},
        {"text": "d", "meta": {"n": "one"}, "tags": ["a"]},
        {"text": "x" * 99},
    ]
    assert payload_keys(payloads) == [
        PayloadKey(key="meta.deep.x", types={"NoneType": 1}, example="None"),
        PayloadKey(key="meta.n", types={"int": 1, "str": 1}, example="1"),
        PayloadKey(key="tags", types={"list": 1}, example="['a']"),
        PayloadKey(key="text", types={"str": 3}, example="a b c"),
    ]


def test_an_example_is_cut_at_60_characters() -> None:
    assert payload_keys([{"t": "x" * 61}])[0].example == "x" * 60


@pytest.mark.parametrize("payloads", [[], [{}], [{"metadata": {}}]])
def test_nothing_gives_nothing(payloads: list[dict[str, Any]]) -> None:
    proposal = propose(payloads)
    assert payload_keys(payloads) == []
    assert (proposal.text_key, proposal.map, proposal.same_name) == (None, {}, ())
    assert set(proposal.missing) == set(METADATA_FIELDS) - set(OUR_OWN)


@pytest.mark.parametrize(
    ("payload", "text_key", "nested", "mapping", "same"),
    [
        ({"page_content": "t", "metadata": {"source_url": "/a"}}, "page_content", "metadata", {}, ("source_url",)),
        ({"text": "t", "url": "/a"}, "text", "", {"source_url": "url"}, ()),
        ({"content": "t", "Page-Title": "A"}, "content", "", {"title": "Page-Title"}, ()),
        ({"body": "t", "heading_path": "A > B"}, "body", "", {"section_path": "heading_path"}, ()),
        ({"text": "t", "chunk_idx": 3}, "text", "", {"chunk_index": "chunk_idx"}, ()),
        (
            {"text": "t", "document_id": "d", "title": "A"},
            "text",
            "",
            {"source_document_id": "document_id"},
            ("title",),
        ),
        ({"text": "t", "id": 7, "hash": "h"}, "text", "", {"chunk_id": "id", "content_hash": "hash"}, ()),
        ({"text": 5, "passage": "t"}, "passage", "", {}, ()),
        ({"text": "t", "zzz": 1}, "text", "", {}, ()),
        ({"text": "t", "chunk_content": "u"}, "text", "", {}, ()),  # near chunk_context, which only our indexing writes
    ],
)
def test_keys_are_recognised_by_name_alias_custom_and_spelling(
    payload: dict[str, Any], text_key: str, nested: str, mapping: dict[str, str], same: tuple[str, ...]
) -> None:
    found = propose([payload])
    assert (found.text_key, found.nested_under, found.map, found.same_name) == (text_key, nested, mapping, same)
    assert set(found.missing) == set(METADATA_FIELDS) - set(mapping) - set(same) - set(OUR_OWN)


def test_one_key_serves_one_field() -> None:
    found = propose([{"text": "t", "source": "a.md"}])
    assert list(found.map.values()).count("source") == 1


def test_the_proposed_setting_reads_the_collection() -> None:
    payload = {"content": "t", "link": "/docs/a", "page_title": "A", "position": 3, "keywords": ["x"], "line": 4}
    found: Proposal = propose([payload])
    config = MetadataConfig.model_validate(
        {"text_key": found.text_key, "nested_under": found.nested_under, "map": dict(found.map)}
    )
    chunk = to_chunk("p", payload, config)
    assert (chunk.text, chunk.source_url, chunk.title, chunk.chunk_index) == ("t", "/docs/a", "A", 3)
    assert (chunk.tags, chunk.start_line, chunk.problems) == (("x",), 4, ())


def test_the_first_points_are_sampled() -> None:
    with QdrantServer() as server:
        fill(server.client, "c", [[1.0, 0.0]] * (SAMPLE + 10), [{"n": n} for n in range(SAMPLE + 10)])
        config = settings(store={"url": server.url}, collection="c")
        client = open_client(config.store, {})
        assert [payload["n"] for payload in sample(client, config)] == list(range(SAMPLE))
        client.close()
