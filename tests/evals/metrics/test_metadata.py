"""Metadata that must be there, and must be true to the page."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.collect.observations import Score, Unscored
from evals.golden.source_pages import SourcePages
from evals.metrics.metadata import METRICS, missing_fields, usual_in, wrong_fields
from retrievers.config import MetadataConfig
from retrievers.records import Chunk
from retrievers.store.payload import to_chunk
from tests.support.observed import make_chunk, make_context, observe, results
from tests.support.pages import read_pages, true_chunks
from tests.support.scored import results_of, scored, scorer

PAGE_FIELDS = ("source_url", "title", "tags", "sidebar_position", "file_path", "source_document_id", "module",
               "chapter", "heading", "section_path", "start_line", "end_line", "content_hash")  # fmt: skip

completeness, accuracy = scorer("metadata/completeness"), scorer("metadata/accuracy")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def chunk(sources: SourcePages) -> Chunk:
    """The chunk of `A publisher sends messages. …` as indexing makes it."""
    return next(c for c in true_chunks(sources, "module-1/topics.md") if "publisher sends" in c.text)


class TestMissing:
    @pytest.mark.parametrize(
        ("fields", "missing"),
        [
            ({"title": "T", "chunk_index": 0}, []),
            ({"title": "T"}, ["chunk_index: missing"]),
            ({"title": "", "chunk_index": 0}, ["title: missing"]),
            ({}, ["title: missing", "chunk_index: missing"]),
        ],
    )
    def test_absent_and_empty_fields_are_missing_and_0_is_not(self, fields: dict[str, Any], missing: list[str]) -> None:
        assert missing_fields(make_chunk("c", **fields), ["title", "chunk_index"]) == missing

    def test_a_page_without_tags_has_its_tags(self) -> None:
        assert missing_fields(make_chunk("c", tags=()), ["tags"]) == []

    @pytest.mark.parametrize(
        ("name", "raw", "fault"),
        [
            ("chunk_index", "3", "chunk_index: expected a whole number from 0, got '3'"),
            ("chunk_index", -1, "chunk_index: expected a whole number from 0, got -1"),
            ("chunk_index", True, "chunk_index: expected a whole number from 0, got True"),
            ("title", 7, "title: expected text, got 7"),
            ("title", "  ", "title: expected text, got '  '"),
            ("tags", "ros2", "tags: expected a list of texts, got 'ros2'"),
            ("sidebar_position", "2", "sidebar_position: expected a number, got '2'"),
        ],
    )
    def test_a_value_of_the_wrong_type_says_what_was_found(self, name: str, raw: object, fault: str) -> None:
        stored = to_chunk("1", {"page_content": "text", "metadata": {name: raw}}, MetadataConfig.model_validate({}))
        assert missing_fields(stored, [name]) == [fault]


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


class TestCompleteness:
    def test_is_the_share_of_required_fields_over_all_returned_chunks(self) -> None:
        returned = results(make_chunk("a", title="T", chunk_index=0), make_chunk("b", title="T"), make_chunk("c"))
        context = make_context(required=["title", "chunk_index"])
        assert completeness(observe(returned), context) == 0.5

    def test_is_1_where_nothing_is_missing(self, chunk: Chunk) -> None:
        assert completeness(observe(results(chunk)), make_context(required=PAGE_FIELDS)) == 1.0

    def test_of_nothing_is_unscored(self) -> None:
        assert completeness(observe(), make_context(required=["title"])) == Unscored(reason="nothing was returned")

    def test_without_required_fields_is_unscored(self) -> None:
        assert completeness(observe(results("a")), make_context()) == Unscored(reason="no metadata field is required")


def wrong(chunk: Chunk, sources: SourcePages, *required: str) -> tuple[list[str], int]:
    return wrong_fields(chunk, required or PAGE_FIELDS, sources)


class TestWrong:
    def test_a_chunk_as_indexed_is_right_in_every_field_that_the_page_tells(
        self, chunk: Chunk, sources: SourcePages
    ) -> None:
        assert wrong(chunk, sources) == ([], len(PAGE_FIELDS))

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
        faults, compared = wrong(replace(chunk, **{name: value}), sources)
        expected = f"{name}: expected {getattr(chunk, name)!r} as in the page, got {value!r}"
        assert (faults, compared) == ([expected], len(PAGE_FIELDS))

    def test_only_required_fields_are_compared(self, chunk: Chunk, sources: SourcePages) -> None:
        bad = replace(chunk, title="Services", module="module-2")
        assert wrong(bad, sources, "title", "heading")[1] == 2
        assert wrong(bad, sources, "heading") == ([], 1)

    def test_a_missing_field_is_incomplete_not_wrong(self, chunk: Chunk, sources: SourcePages) -> None:
        assert wrong(replace(chunk, title=None), sources, "title", "module") == ([], 1)

    def test_what_the_page_does_not_tell_is_not_compared(self, chunk: Chunk, sources: SourcePages) -> None:
        assert wrong(chunk, sources, "chunk_id", "chunk_index", "total_chunks", "chunk_token_count") == ([], 0)

    def test_a_page_that_does_not_exist_is_one_fault_of_one(self, chunk: Chunk, sources: SourcePages) -> None:
        lost = replace(chunk, file_path="gone.md", source_url="/docs/gone")
        assert wrong(lost, sources) == (["source page: 'gone.md' does not exist"], 1)

    def test_the_metadata_of_another_page_shows_in_what_that_page_tells(
        self, chunk: Chunk, sources: SourcePages
    ) -> None:
        """File and address of the neighbour, the rest of its own page: all that is left of its own is wrong."""
        moved = replace(chunk, file_path="module-1/services.md", source_url="/docs/module-1/services")
        faults, compared = wrong(moved, sources)
        assert [fault.partition(":")[0] for fault in faults] == [
            "title", "tags", "sidebar_position", "source_document_id", "chapter",
        ]  # fmt: skip
        assert compared == len(PAGE_FIELDS) - 4, "the text is not in that page: no lines, no headings"

    @pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
    def test_hashes_are_checked_by_the_algorithm_of_their_length(
        self, chunk: Chunk, sources: SourcePages, algorithm: str
    ) -> None:
        digest = hashlib.new(algorithm, chunk.text.encode()).hexdigest()
        assert wrong(replace(chunk, content_hash=digest), sources, "content_hash") == ([], 1)
        other = hashlib.new(algorithm, b"another text").hexdigest()
        assert len(wrong(replace(chunk, content_hash=other), sources, "content_hash")[0]) == 1

    @pytest.mark.parametrize("value", ["", "abc", "0" * 56, None])
    def test_a_hash_of_an_unknown_algorithm_cannot_be_compared(
        self, chunk: Chunk, sources: SourcePages, value: str | None
    ) -> None:
        assert wrong(replace(chunk, content_hash=value), sources, "content_hash") == ([], 0)


class TestAccuracy:
    def test_is_the_mean_over_chunks(self, chunk: Chunk, sources: SourcePages) -> None:
        """Right in both fields, in one of two, in none."""
        half = replace(chunk, title="Services")
        none = replace(half, module="module-2")
        context = make_context(required=["title", "module"], sources=sources)
        assert accuracy(observe(results(chunk, half, none)), context) == 0.5

    def test_a_chunk_without_a_page_weighs_as_much_as_any_other(self, chunk: Chunk, sources: SourcePages) -> None:
        lost = replace(chunk, file_path="gone.md", source_url="/docs/gone")
        context = make_context(required=PAGE_FIELDS, sources=sources)
        assert accuracy(observe(results(chunk, chunk, chunk, chunk, lost)), context) == pytest.approx(0.8)

    @pytest.mark.parametrize(
        ("required", "with_sources", "returned", "reason"),
        [
            (["title"], False, True, "no sources"),
            (["title"], True, False, "nothing was returned"),
            (["chunk_index"], True, True, "no required field can be compared with the source pages"),
            ([], True, True, "no required field can be compared with the source pages"),
        ],
    )
    def test_unscored_with_its_reason(
        self, chunk: Chunk, sources: SourcePages, required: list[str], with_sources: bool, returned: bool, reason: str
    ) -> None:
        context = make_context(required=required, sources=sources if with_sources else None)
        found: Score = accuracy(observe(results(chunk) if returned else ()), context)
        assert found == Unscored(reason=reason)


def test_the_handbooks_own_chunks_are_complete_and_accurate(handbook: Path) -> None:
    from retrievers.embedding.tokens import count_tokens
    from retrievers.indexing.chunking import chunk_page

    pages = SourcePages.read(handbook / "docs", "/docs")
    chunks = [c for page in pages.pages[:8] for c in chunk_page(page.page, 256, count_tokens)]
    context = make_context(required=(*PAGE_FIELDS, "chunk_id", "chunk_index", "total_chunks"), sources=pages)
    observations = [observe(results(*chunks[n : n + 5])) for n in range(0, len(chunks), 5)]
    for metric in METRICS:
        assert set(scored(metric, observations, context)) == {1.0}
