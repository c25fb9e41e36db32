"""Metadata that must be there and be true to the page, addresses that lead somewhere, numbers that make a sequence."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.pages import SourcePages
from evals.collect.observations import Score, Unscored
from evals.metrics.metadata import has_valid_address, misnumbered, missing_fields, usual_in, wrong_fields
from evals.metrics.results import NO_CHUNKS
from retrievers.records import Chunk
from tests.support.observed import make_chunk, make_context, observe, results
from tests.support.pages import read_pages, true_chunks
from tests.support.scored import results_of, scored, scorer

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


GOOD = (
    "/docs/topics", "/", "https://example.com", "http://localhost:3000/docs/a%20b?version=2", "s3://bucket/a.md",
    "/docs/topics#publishers", "https://[::1]:80/a",
)  # fmt: skip
BAD = (
    "docs/topics", "./topics.md", "//cdn.example.com/a", "file:///home/me/a.md", "https:///a", "#publishers",
    "/docs/a b", "/docs/a\n", "/docs/a\u00a0b", "/docs/topics#", "https://[::1/a", None,
)  # fmt: skip


@pytest.mark.parametrize("url", [*GOOD, *BAD])
def test_well_formed_addresses(url: str | None) -> None:
    assert has_valid_address(make_chunk("a", source_url=url), None) == (url in GOOD)


FILES = Unscored(reason="the chunks carry names of files in place of addresses")


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["/a", "/b", "c", None], 0.5),
        ([], NO_CHUNKS),
        ([None, None], Unscored(reason="no chunk found carries source_url")),
        (["data/state_of_the_union.txt", r"C:\docs\my notes.md", "paper.pdf", None], FILES),
        (["data/state_of_the_union.txt", "/a"], 0.5),  # other chunks have addresses
        (["docs/topics"], 0.0),
        (["//cdn.example.com/a.md"], 0.0),
        (["file:///home/me/a.md"], 0.0),
        (["/docs/a"], 1.0),
    ],
)
def test_the_share_of_good_addresses(urls: list[str | None], expected: Score) -> None:
    """A page that cannot be read fails only what must be looked up in it."""
    chunks = [make_chunk(f"c{number}", source_url=url) for number, url in enumerate(urls)]
    context = make_context(sources=SourcePages([], {"a.md": "not UTF-8"}))
    assert scorer("metadata/url_format")(observe(results(*chunks)), context) == expected


def numbered(*numbers: tuple[int | None, int | None], page: str | None = "/docs/a") -> list[Chunk]:
    return [
        make_chunk(f"{page}{place}", source_url=page, chunk_index=index, total_chunks=total)
        for place, (index, total) in enumerate(numbers)
    ]


@given(st.sets(st.integers(0, 9)), st.sampled_from([0, 1]))
def test_any_part_of_a_whole_sequence_is_valid_from_0_or_from_1(known: set[int], first: int) -> None:
    assert not misnumbered(numbered(*[(index + first, 10) for index in sorted(known)]))


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([(0, 2), (2, 2)], [1]),
        ([(1, 2), (3, 2), (2, 2)], [1]),  # from 1
        ([(-1, 2)], [0]),
        ([(0, 3), (None, 3)], [1]),
        ([(0, 3), (1, None)], [1]),
        ([(0, None), (7, None)], []),  # totals that no chunk has are not missed
        ([(0, 0)], [0]),
        ([(0, 3), (1, 3), (1, 3)], [1, 2]),
        ([(0, 3), (1, 4)], [0, 1]),
    ],
)
def test_what_is_at_fault(numbers: list[tuple[int | None, int | None]], wrong: list[int]) -> None:
    chunks = numbered(*numbers)
    assert misnumbered([*chunks, *chunks]) == {chunks[place].chunk_id for place in wrong}, "found twice is no twin"


def test_the_sequence_is_that_of_all_chunks_found_for_any_query() -> None:
    chunks = numbered((0, 3), (1, 3), (1, 3))
    found, twin, nothing = observe(results(*chunks[:2])), observe(candidates=results(chunks[2])), observe()
    assert scored("metadata/chunk_sequence", [found, twin, nothing]) == [0.5, NO_CHUNKS, NO_CHUNKS]
    assert scorer("metadata/chunk_sequence")(found) == 1.0
    bare = observe(results(*numbered((None, None), (None, 4))))
    assert scorer("metadata/chunk_sequence")(bare) == Unscored(reason="no chunk found carries chunk_index")
