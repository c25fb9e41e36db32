"""Metadata that must be there and be true to the page, addresses that lead somewhere, numbers that make a sequence."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.pages import SourcePage, SourcePages
from evals.collect.observations import Failure, Score, Unscored
from evals.metrics import METRICS
from evals.metrics.metadata import address_fault, missing_fields, sequence_faults, usual_in, wrong_fields
from evals.metrics.results import NO_CHUNKS
from retrievers.config import MetadataConfig
from retrievers.indexing.markdown import parse_page
from retrievers.records import Chunk
from retrievers.store.chunks import to_chunk
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
    ("name", "raw", "expected"),
    [
        ("chunk_index", "3", "a whole number from 0"),
        ("chunk_index", -1, "a whole number from 0"),
        ("chunk_index", True, "a whole number from 0"),
        ("title", 7, "text"),
        ("title", "  ", "text"),
        ("tags", "ros2", "a list of texts"),
        ("sidebar_position", "2", "a number"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_was_found(name: str, raw: object, expected: str) -> None:
    stored = to_chunk("1", {"page_content": "text", "metadata": {name: raw}}, MetadataConfig.model_validate({}))
    assert missing_fields(stored, [name]) == [f"{name}: expected {expected}, got {raw!r}"]


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

    @pytest.mark.parametrize(
        ("change", "required", "faults", "compared"),
        [
            ({"title": "Services", "module": "module-2"}, ["title", "heading"], 1, 2),  # only what is required
            ({"title": None}, ["title", "module"], 0, 1),  # missing is incomplete, not wrong
            ({}, ["chunk_id", "chunk_index", "total_chunks", "chunk_token_count"], 0, 0),  # no page tells them
            *(({"content_hash": value}, ["content_hash"], 0, 0) for value in ("", "abc", "0" * 56, None)),
        ],
    )
    def test_what_can_be_compared(
        self, chunk: Chunk, sources: SourcePages, change: Any, required: list[str], faults: int, compared: int
    ) -> None:
        found, count = wrong_fields(replace(chunk, **change), required, sources)
        assert (len(found), count) == (faults, compared)

    def test_a_page_that_does_not_exist_is_one_fault_of_one(self, chunk: Chunk, sources: SourcePages) -> None:
        lost = replace(chunk, file_path="gone.md", source_url="/docs/gone")
        assert wrong_fields(lost, PAGE_FIELDS, sources) == (["source page: 'gone.md' does not exist"], 1)

    def test_the_metadata_of_another_page_shows_in_what_that_page_tells(
        self, chunk: Chunk, sources: SourcePages
    ) -> None:
        """File and address of the neighbour, the rest of its own page: all that is left of its own is wrong."""
        moved = replace(chunk, file_path="module-1/services.md", source_url="/docs/module-1/services")
        faults, compared = wrong_fields(moved, PAGE_FIELDS, sources)
        named = [fault.partition(":")[0] for fault in faults]
        assert named == ["title", "tags", "sidebar_position", "source_document_id", "chapter"]
        assert compared == len(PAGE_FIELDS) - 4, "the text is not in that page: no lines, no headings"

    @pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
    def test_hashes_are_checked_by_the_algorithm_of_their_length(
        self, chunk: Chunk, sources: SourcePages, algorithm: str
    ) -> None:
        for text, faults in ((chunk.text, 0), ("another text", 1)):
            hashed = replace(chunk, content_hash=hashlib.new(algorithm, text.encode()).hexdigest())
            assert len(wrong_fields(hashed, ["content_hash"], sources)[0]) == faults


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


def test_the_handbooks_own_chunks_are_complete_and_accurate(handbook: Path) -> None:
    from retrievers.embedding.tokens import count_tokens
    from retrievers.indexing.chunking import chunk_page

    pages = SourcePages.read(handbook / "docs", "/docs")
    chunks = [c for page in pages.pages[:8] for c in chunk_page(page.page, 256, count_tokens)]
    context = make_context(required=(*PAGE_FIELDS, "chunk_id", "chunk_index", "total_chunks"), sources=pages)
    observations = [observe(results(*chunks[n : n + 5])) for n in range(0, len(chunks), 5)]
    for name in METRICS:
        if name.startswith("metadata/"):
            assert set(scored(name, observations, context)) == {1.0}


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("/docs/topics", ""),
        ("/", ""),
        ("https://example.com", ""),
        ("http://localhost:3000/docs/a%20b?version=2", ""),
        ("s3://bucket/a.md", ""),
        ("/docs/topics#publishers", ""),
        ("https://[::1]:80/a", ""),
        ("docs/topics", "is neither absolute nor site-relative"),
        ("./topics.md", "is neither absolute nor site-relative"),
        ("//cdn.example.com/a", "is neither absolute nor site-relative"),
        ("file:///home/me/a.md", "is neither absolute nor site-relative"),
        ("https:///a", "is neither absolute nor site-relative"),
        ("#publishers", "is neither absolute nor site-relative"),
        ("/docs/a b", "holds a blank"),
        ("/docs/a\n", "holds a blank"),
        ("/docs/a\u00a0b", "holds a blank"),
        ("/docs/topics#", "has an empty fragment"),
        ("https://[::1/a", "is no address (Invalid IPv6 URL)"),
    ],
)
def test_well_formed_addresses(url: str, fault: str) -> None:
    assert address_fault(make_chunk("a", source_url=url), None) == (f"{url!r} {fault}" if fault else "")


@given(st.text() | st.builds("https://{}#{}".format, st.text(), st.text()) | st.just("x" * 10_000))
def test_any_text_is_an_address_or_has_a_fault_that_can_be_read(url: str) -> None:
    sources = SourcePages([SourcePage(parse_page("# Topics\n\nA bus.", "topics.md"))])
    assert len(address_fault(make_chunk("a", source_url=url), sources)) < 500


def test_a_fragment_must_be_a_heading_of_its_page_where_the_page_is_known(sources: SourcePages) -> None:
    urls = ("/docs/module-1/topics#publishers", "/docs/module-1/topics#gone", "/docs/elsewhere#gone", None)
    assert [address_fault(make_chunk("a", source_url=url), sources) for url in urls] == [
        "", "'/docs/module-1/topics#gone' has a fragment that its page lacks", "", "chunk 'a' has no address",
    ]  # fmt: skip


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
        (["/docs/a#b"], Failure(type="SourcePageError", message="source page a.md: not UTF-8")),
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


def faults(*chunks: Chunk) -> list[str]:
    return [*sequence_faults(chunks).values()]


@given(st.sets(st.integers(0, 9)), st.sampled_from([0, 1]))
def test_any_part_of_a_whole_sequence_is_valid_from_0_or_from_1(known: set[int], first: int) -> None:
    assert faults(*numbered(*[(index + first, 10) for index in sorted(known)])) == []


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([(0, 2), (2, 2)], ["chunk_index 2, expected 0 to 1"]),
        ([(1, 2), (3, 2), (2, 2)], ["chunk_index 3, expected 1 to 2"]),
        ([(-1, 2)], ["chunk_index -1, expected 0 to 1"]),
        ([(0, 3), (None, 3)], ["no chunk_index"]),
        ([(0, 3), (1, None)], ["no total_chunks"]),
        ([(0, None), (7, None)], []),  # totals that no chunk has are not missed
        ([(0, 0)], ["chunk_index 0, expected 0 to -1"]),
        (
            [(0, 3), (1, 3), (1, 3)],
            [f"chunk_index 1, which chunk '/docs/a{twin}' of the same page has too" for twin in (2, 1)],
        ),
        ([(0, 3), (1, 4)], [f"total_chunks {own}, chunks of the same page have 3 and 4" for own in (3, 4)]),
    ],
)
def test_what_is_at_fault(numbers: list[tuple[int | None, int | None]], said: list[str]) -> None:
    assert faults(*numbered(*numbers)) == said


@pytest.mark.parametrize(
    ("pages", "count"),
    [
        (["/docs/a", "/docs/b"], 0),
        (["/docs/a#one", "/docs/a#two"], 2),  # fragments do not part a page
        ([None, None], 0),  # of no known page
    ],
)
def test_pages_are_numbered_apart(pages: Sequence[str | None], count: int) -> None:
    chunks = [replace(numbered((0, 2), page=page)[0], chunk_id=str(n)) for n, page in enumerate(pages)]
    assert len(faults(*chunks, *chunks)) == count, "a chunk found twice is no twin of itself"


def test_the_sequence_is_that_of_all_chunks_found_for_any_query() -> None:
    chunks = numbered((0, 3), (1, 3), (1, 3))
    found, twin, nothing = observe(results(*chunks[:2])), observe(candidates=results(chunks[2])), observe()
    assert scored("metadata/chunk_sequence", [found, twin, nothing]) == [0.5, NO_CHUNKS, NO_CHUNKS]
    assert scorer("metadata/chunk_sequence")(found) == 1.0
    bare = observe(results(*numbered((None, None), (None, 4))))
    assert scorer("metadata/chunk_sequence")(bare) == Unscored(reason="no chunk found carries chunk_index")
