"""Metadata that must be there and be true to the page."""

from dataclasses import replace
from typing import Any

import pytest

from evals.cases.pages import SourcePages
from evals.collect.observations import Unscored
from evals.metrics.metadata import missing_fields, usual_in, wrong_fields
from evals.metrics.results import NO_CHUNKS
from retrievers.records import Chunk
from tests.support.observed import make_chunk, make_context, observe, results
from tests.support.pages import read_pages, true_chunks
from tests.support.scored import results_of, scorer

PAGE_FIELDS = ("source_url", "title", "tags", "sidebar_position", "file_path", "source_document_id", "module",
               "chapter", "heading", "section_path", "start_line", "end_line", "content_hash")  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def chunk(sources: SourcePages) -> Chunk:
    """The chunk of `A publisher sends messages. …` as indexing makes it."""
    return next(c for c in true_chunks(sources, "module-1/topics.md") if "publisher sends" in c.text)


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"title": "T", "chunk_index": 0, "tags": ()}, []),  # a page without tags has its tags
        ({"title": "T", "tags": ("a",)}, ["chunk_index: missing"]),
        ({"title": "", "chunk_index": 0, "tags": ()}, ["title: missing"]),
        ({}, ["title: missing", "chunk_index: missing", "tags: missing"]),
    ],
)
def test_absent_and_empty_fields_are_missing_and_0_is_not(fields: dict[str, Any], missing: list[str]) -> None:
    assert missing_fields(make_chunk("c", **fields), ["title", "chunk_index", "tags"]) == missing


@pytest.mark.parametrize(
    ("chunks", "usual"),
    [
        ([{"source_url": None}], ()),
        ([{"source_url": "/a"}, {"source_url": "/b", "title": "T"}], ("source_url", "title")),
        (
            [{"source_url": "/a", "title": ""}, {"source_url": "/b"}, {"source_url": None, "chunk_index": 0}],
            ("source_url",),
        ),
        ([], ()),
    ],
)
def test_usual_fields_are_those_that_half_of_the_chunks_have(
    chunks: list[dict[str, Any]], usual: tuple[str, ...]
) -> None:
    found = results(*(make_chunk(f"c{number}", **fields) for number, fields in enumerate(chunks)))
    assert usual_in(results_of([observe(found)]).lists.pool) == usual


def test_completeness_is_the_share_of_required_fields_over_all_returned_chunks(chunk: Chunk) -> None:
    returned = results(make_chunk("a", title="T", chunk_index=0), make_chunk("b", title="T"), make_chunk("c"))
    completeness, context = scorer("metadata/completeness"), make_context(required=["title", "chunk_index"])
    assert completeness(observe(returned), context) == 0.5
    assert completeness(observe(results(chunk)), make_context(required=PAGE_FIELDS)) == 1.0
    assert completeness(observe(), context) == NO_CHUNKS
    assert completeness(observe(returned)) == Unscored(reason="no metadata field is required")


class TestWrong:
    def test_a_chunk_as_indexed_is_right_in_every_field_that_the_page_tells(
        self, chunk: Chunk, sources: SourcePages
    ) -> None:
        assert wrong_fields(chunk, PAGE_FIELDS, sources) == ([], len(PAGE_FIELDS))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("source_url", "/docs/module-1/services"),
            ("title", "Services"),
            ("tags", ("messaging", "ros2")),
            ("sidebar_position", 3),
            ("source_document_id", "module-1/services"),
            ("module", "module-2"),
            ("chapter", "services"),
            ("heading", "Subscribers"),
            ("section_path", "Topics > Subscribers"),
            ("start_line", 14),
            ("end_line", 17),
            ("content_hash", "0" * 64),
            ("file_path", "moved.md"),  # the page is known by its address then
        ],
    )
    def test_every_wrong_value_is_named_with_what_the_page_gives(
        self, chunk: Chunk, sources: SourcePages, name: str, value: Any
    ) -> None:
        faults, compared = wrong_fields(replace(chunk, **{name: value}), PAGE_FIELDS, sources)
        expected = f"{name}: expected {getattr(chunk, name)!r} as in the page, got {value!r}"
        assert (faults, compared) == ([expected], len(PAGE_FIELDS))

    def test_a_page_that_does_not_exist_is_one_fault_of_one(self, chunk: Chunk, sources: SourcePages) -> None:
        lost = replace(chunk, file_path="gone.md", source_url="/docs/gone")
        assert wrong_fields(lost, PAGE_FIELDS, sources) == (["source page: 'gone.md' does not exist"], 1)


def test_accuracy_is_the_mean_over_chunks(chunk: Chunk, sources: SourcePages) -> None:
    """Right in both fields, in one of two, in none; a chunk without a page weighs as much as any other."""
    half = replace(chunk, title="Services")
    none, lost = replace(half, module="module-2"), replace(chunk, file_path="gone.md", source_url="/docs/gone")
    accuracy, context = scorer("metadata/accuracy"), make_context(required=["title", "module"], sources=sources)
    assert accuracy(observe(results(chunk, half, none)), context) == 0.5
    assert accuracy(observe(results(chunk, chunk, chunk, chunk, lost)), context) == 0.8
    assert accuracy(observe(results(chunk)), make_context(required=["title"])) == Unscored(reason="no sources")
    assert accuracy(observe(), context) == NO_CHUNKS
    for required in (["chunk_index"], []):
        found = accuracy(observe(results(chunk)), make_context(required=required, sources=sources))
        assert found == Unscored(reason="no required field can be compared with the source pages")
