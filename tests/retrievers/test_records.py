from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from retrievers.records import ALIASES, METADATA_FIELDS, Chunk, RetrievedChunk


def chunk(**known: Any) -> Chunk:
    return Chunk(**{"chunk_id": "c1", "point_id": "p1", "text": "A topic is a bus.", **known})


@pytest.mark.parametrize(
    ("known", "source"),
    [
        ({"file_path": "ros2/topics.md", "start_line": 5, "end_line": 9}, "ros2/topics.md:5-9"),
        ({"file_path": "ros2/topics.md", "source_url": "/docs/topics"}, "ros2/topics.md"),
        ({"file_path": "ros2/topics.md", "start_line": 5}, "ros2/topics.md:5"),
        ({"file_path": "ros2/topics.md", "end_line": 9}, "ros2/topics.md"),
        ({"source_url": "/docs/topics", "start_line": 5, "end_line": 5}, "/docs/topics:5-5"),
        ({}, "c1"),
    ],
)
def test_the_source_says_as_much_as_is_known(known: dict[str, Any], source: str) -> None:
    found = RetrievedChunk(rank=1, score=0.5, score_scale="cosine", chunk=chunk(**known))
    assert (chunk(**known).source, found.source) == (source, source)


@pytest.mark.parametrize(
    ("known", "breadcrumb"),
    [
        ({"module": "ros2", "chapter": "topics", "heading": "Rates"}, "ros2 › topics › Rates"),
        ({"module": "ros2", "heading": "Rates"}, "ros2 › Rates"),
        ({"module": "topics", "chapter": "topics", "heading": "Rates"}, "topics › Rates"),
        ({"module": "", "chapter": None}, ""),
    ],
)
def test_the_breadcrumb_leaves_out_what_is_unknown_or_said_twice(known: dict[str, Any], breadcrumb: str) -> None:
    found = RetrievedChunk(rank=1, score=0.5, score_scale="cosine", chunk=chunk(**known))
    assert (chunk(**known).breadcrumb, found.breadcrumb) == (breadcrumb, breadcrumb)


@pytest.mark.parametrize(
    ("text", "preview"),
    [
        ("  a\n\n b\tc ", "a b c"),
        ("x" * 199, "x" * 199),
        ("x" * 201, "x" * 200),
        ("", ""),
        ("ab " * 100, "ab " * 66 + "ab"),
    ],
)
def test_the_preview_is_the_first_200_characters_on_one_line(text: str, preview: str) -> None:
    assert chunk(text=text).chunk_text_preview == preview


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [
        ("url", "source_url"),
        ("document_section", "section_path"),
        ("source_document", "source_document_id"),
        ("document_id", "source_document_id"),
        ("vector_id", "point_id"),
    ],
)
def test_a_field_is_known_by_its_aliases(alias: str, canonical: str) -> None:
    known = chunk(source_url="/docs/topics", section_path="Topics > Rates", source_document_id="ros2/topics")
    assert ALIASES[alias] == canonical
    assert known.value(alias) == known.value(canonical) == getattr(known, canonical)


def test_an_unknown_field_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="titel"):
        chunk().value("titel")


def test_metadata_is_every_field_but_id_of_the_point_text_problems_and_the_rest() -> None:
    assert {f.name for f in fields(Chunk)} - set(METADATA_FIELDS) == {"point_id", "text", "problems", "extra"}


def test_records_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        chunk().text = "other"  # type: ignore[misc]


def test_a_score_is_known_or_asking_for_it_is_a_mistake() -> None:
    found = RetrievedChunk(rank=1, score=0.5, score_scale="cosine", chunk=chunk())
    assert found.known_score == 0.5
    with pytest.raises(ValueError, match="chunk 'c1' has no score"):
        _ = replace(found, score=None, score_scale="none").known_score
