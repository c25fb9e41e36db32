import hashlib
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from retrievers.config import MetadataConfig
from retrievers.errors import ForeignRetrieverError
from retrievers.retriever.foreign import checked_documents, chunk_of

TEXT = "a topic is a bus"
UNCHECKED = Document.model_construct(page_content=cast(str, None), metadata={})
FLAT = {"source_url": "/docs/topics", "heading": "Topics", "tags": ["ros"], "start_line": 3}


def config(**values: Any) -> MetadataConfig:
    return MetadataConfig.model_validate(values)


def document(metadata: dict[str, Any] | None = None, **values: Any) -> Document:
    return Document(page_content=TEXT, metadata=metadata or {}, **values)


class TestChecked:
    def test_documents_pass_in_their_order(self) -> None:
        given = [document({"n": n}) for n in range(3)]
        assert checked_documents(given) == checked_documents(tuple(given)) == given
        assert checked_documents([]) == []

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (None, "returned None; expected a list of LangChain Documents"),
            ("text", "returned str 'text'; expected a list of LangChain Documents"),
            (7, "returned int 7; expected a list"),
            (document(), "returned Document Document("),
            (iter([document()]), "returned list_iterator "),
            (["text"], "returned str 'text' at place 1; expected a LangChain Document"),
            ([document(), None], "returned None at place 2; expected a LangChain Document"),
            ([document(), {"page_content": "x"}], "returned dict {'page_content': 'x'} at place 2"),
            ([Document(page_content="", metadata={"n": 1})], "without text at place 1 (metadata dict {'n': 1})"),
            ([document(), Document(page_content=" \n\t")], "without text at place 2"),
            ([UNCHECKED], "without text at place 1"),
        ],
    )
    def test_anything_else_is_named_with_its_place(self, answer: Any, said: str) -> None:
        with pytest.raises(ForeignRetrieverError) as caught:
            checked_documents(answer)
        assert said in str(caught.value)

    def test_a_long_value_is_cut(self) -> None:
        with pytest.raises(ForeignRetrieverError) as caught:
            checked_documents("x" * 10_000)
        assert len(str(caught.value)) < 150


class TestChunk:
    def test_metadata_is_read_as_a_payload_is(self) -> None:
        chunk = chunk_of(document({**FLAT, "start_line": "three"}), config())
        assert (chunk.text, chunk.source_url, chunk.heading, chunk.tags) == (TEXT, "/docs/topics", "Topics", ("ros",))
        assert chunk.problems == ("start_line: expected a whole number from 0, got 'three'",)

    def test_fields_are_mapped_and_aliases_known(self) -> None:
        chunk = chunk_of(document({"source": "/a", "url": "/b"}), config(map={"source_url": "source"}))
        assert chunk.source_url == "/a"
        assert chunk_of(document({"url": "/b"}), config()).source_url == "/b"

    @pytest.mark.parametrize("nested_under", ["metadata", "info", ""])
    def test_metadata_is_looked_into_where_it_is_nested(self, nested_under: str) -> None:
        settings = config(nested_under=nested_under)
        assert chunk_of(document(FLAT), settings).source_url == "/docs/topics"
        if nested_under:
            assert chunk_of(document({nested_under: FLAT}), settings).source_url == "/docs/topics"
            assert chunk_of(document({nested_under: "no mapping", **FLAT}), settings).heading == "Topics"

    def test_a_metadata_key_called_as_the_text_does_not_replace_it(self) -> None:
        for nested_under in ("metadata", ""):
            chunk = chunk_of(document({"page_content": "other"}), config(nested_under=nested_under))
            assert chunk.text == TEXT

    @pytest.mark.parametrize(
        ("metadata", "own", "chunk_id", "point_id"),
        [
            ({"chunk_id": "c", "_id": "p"}, "d", "c", "d"),
            ({"_id": "p"}, "d", "d", "d"),
            ({"_id": "p"}, None, "p", "p"),
            ({"_id": 0}, None, "0", "0"),
            ({"chunk_id": "c"}, None, "c", "c"),
            ({"chunk_id": 7}, None, "7", "7"),
            ({"key": "k", "_id": "p"}, None, "p", "p"),
        ],
    )
    def test_a_chunk_is_known_by_the_first_id_there_is(
        self, metadata: dict[str, Any], own: str | None, chunk_id: str, point_id: str
    ) -> None:
        chunk = chunk_of(document(metadata, id=own), config())
        assert (chunk.chunk_id, chunk.point_id) == (chunk_id, point_id)

    def test_the_id_can_be_mapped(self) -> None:
        chunk = chunk_of(document({"key": "k", "_id": "p"}), config(map={"chunk_id": "key"}))
        assert (chunk.chunk_id, chunk.point_id) == ("k", "p")

    def test_without_any_id_it_is_the_hash_of_address_and_text(self) -> None:
        expected = hashlib.sha256(f"/docs/topics\0{TEXT}".encode()).hexdigest()
        for metadata in (FLAT, {**FLAT, "_id": "", "heading": "other"}, {**FLAT, "_id": None}):
            chunk = chunk_of(document(metadata), config())
            assert (chunk.chunk_id, chunk.point_id) == (expected, expected)
        assert chunk_of(document({"source_url": "/other"}), config()).chunk_id != expected

    @given(st.text(st.characters(), min_size=1), st.text(st.characters(), min_size=1))
    def test_hashes_are_stable_and_tell_texts_apart(self, one: str, other: str) -> None:
        a, b = (chunk_of(Document(page_content=text), config()).chunk_id for text in (one, other))
        assert (a == b) is (one == other)
        assert chunk_of(Document(page_content=one), config()).chunk_id == a
