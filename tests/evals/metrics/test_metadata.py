"""Metadata that must be there and be true to the page."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evals.cases.pages import SourcePages
from evals.collect.observations import Unscored
from evals.metrics.metadata import SAMPLE, missing_fields, usual_in, wrong_fields
from evals.metrics.results import NO_CHUNKS
from retrievers.records import Chunk
from tests.support.observed import make_chunk, make_context, observe, results, results_of, scorer

PAGE_FIELDS = ("source_url", "title", "tags", "sidebar_position", "file_path", "source_document_id", "module",
               "chapter", "heading", "section_path", "start_line", "end_line", "content_hash")  # fmt: skip


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


UNTITLED, LAST = {"source_url": "/a", "title": ""}, {"source_url": None, "chunk_index": 0}


@pytest.mark.parametrize(
    ("found", "usual"),
    [
        ([[{"source_url": None}]], ()),
        ([[{"source_url": "/a"}, {"source_url": "/b", "title": "T"}]], ("source_url", "title")),
        ([[UNTITLED, {"source_url": "/b"}, LAST]], ("source_url",)),
        ([[UNTITLED, UNTITLED, UNTITLED, LAST]], ("source_url",)),  # the fourth of a query is not read
        ([*[[UNTITLED]] * SAMPLE, *[[LAST]] * 2 * SAMPLE], ("source_url",)),  # nor are more than so many in all
        ([[]], ()),
    ],
)
def test_usual_fields_are_those_that_half_of_the_best_chunks_have(
    found: list[list[dict[str, Any]]], usual: tuple[str, ...]
) -> None:
    """Of the first of several ways to retrieve, as all read one collection."""
    chunks = [[make_chunk(f"c{number}", **fields) for number, fields in enumerate(each)] for each in found]
    pool = results_of([observe(results(*each)) for each in chunks]).lists.pool
    assert usual_in(replace(pool, tables=(*pool.tables, replace(pool.tables[0], codes=np.full((1, 1), -1))))) == usual


def test_completeness_is_the_share_of_required_fields_over_all_returned_chunks(chunk: Chunk) -> None:
    returned = results(make_chunk("a", title="T", chunk_index=0), make_chunk("b", title="T"), make_chunk("c"))
    completeness, context = scorer("metadata/completeness"), make_context(required=["title", "chunk_index"])
    assert completeness(observe(returned), context) == 0.5
    assert completeness(observe(results(chunk)), make_context(required=PAGE_FIELDS)) == 1.0
    assert completeness(observe(), context) == NO_CHUNKS
    assert completeness(observe(returned)) == Unscored(reason="no metadata field is required")


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
        *(("content_hash", "0" * length) for length in (32, 40, 64)),
        ("file_path", "moved.md"),  # the page is known by its address then
    ],
)
def test_every_wrong_value_is_named_with_what_the_page_gives(
    chunk: Chunk, sources: SourcePages, name: str, value: Any
) -> None:
    assert wrong_fields(chunk, PAGE_FIELDS, sources) == ([], len(PAGE_FIELDS)), "as indexed it is right in all of them"
    [fault], compared = wrong_fields(replace(chunk, **{name: value}), PAGE_FIELDS, sources)
    assert fault.startswith(f"{name}: expected ") and fault.endswith(f" as in the page, got {value!r}")
    assert compared == len(PAGE_FIELDS)
    assert repr(getattr(chunk, name)) in fault or name == "content_hash"


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
