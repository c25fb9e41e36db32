"""Source pages: where a text stands, and what the page says of it. Lines are counted by hand in the page."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.pages import SourcePage, SourcePages
from retrievers.errors import IndexingError
from retrievers.indexing.markdown import parse_page
from tests.support.observed import make_chunk
from tests.support.pages import PLAIN, TOPICS, read_pages, true_chunks

PAGE = SourcePage(parse_page(TOPICS, "module-1/topics.md", "/docs"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Nodes exchange messages on topics.", [(7, 7, ())]),
        ("A topic is a named bus.", [(11, 11, ("Topics",))]),
        ("A publisher sends messages.\nAnyone may listen.", [(15, 16, ("Topics", "Publishers"))]),
        ("A publisher  sends messages. Anyone\n\nmay listen.", [(15, 16, ("Topics", "Publishers"))]),
        ("Mind the queue.", [(18, 18, ("Topics", "Publishers")), (24, 24, ("Topics", "Subscribers"))]),
        ("## Publishers\n\nA publisher", [(13, 15, ("Topics", "Publishers"))]),
        ("# not a heading\nros2 topic list", [(27, 28, ("Topics", "Subscribers"))]),
        ("A subscriber sends messages.", []),
        ("", []),
        ("  \n ", []),
    ],
)
def test_occurrences_are_found_white_space_aside(text: str, places: list[tuple[int, int, tuple[str, ...]]]) -> None:
    assert [(lines[0], lines[-1], PAGE.section_at(lines[0])) for lines in PAGE.occurrences(text)] == places


@given(st.integers(0, TOPICS.count("\n") - 1), st.integers(1, 6))
def test_every_stretch_of_lines_is_found_where_it_stands(first: int, count: int) -> None:
    """The oracle is the page itself: blank lines at the ends do not count."""
    lines = TOPICS.split("\n")[first : first + count]
    filled = [number for number, line in enumerate(lines, first + 1) if line.strip()]
    found = [(lines[0], lines[-1]) for lines in PAGE.occurrences("\n".join(lines))]
    assert ((filled[0], filled[-1]) in found) if filled else not found


def test_headings_are_the_pages_own_and_its_title() -> None:
    assert PAGE.headings == {"Topics", "Publishers", "Subscribers"}
    assert SourcePage(parse_page("---\ntitle: T\n---\n\ntext\n", "t.md")).headings == {"T"}


def test_facts_come_from_front_matter_path_and_place() -> None:
    facts = PAGE.facts(make_chunk("c", "A publisher sends messages. Anyone may listen."))
    assert facts == {
        "source_url": "/docs/module-1/topics",
        "title": "Topics",
        "tags": ("ros2", "messaging"),
        "sidebar_position": 2,
        "file_path": "module-1/topics.md",
        "source_document_id": "module-1/topics",
        "module": "module-1",
        "chapter": "topics",
        "start_line": 15,
        "end_line": 16,
        "heading": "Publishers",
        "section_path": "Topics > Publishers",
    }


def test_what_stands_before_the_first_heading_is_under_the_title() -> None:
    facts = PAGE.facts(make_chunk("c", "Nodes exchange messages on topics."))
    assert (facts["heading"], facts["section_path"], facts["start_line"]) == ("Topics", "Topics", 7)


@pytest.mark.parametrize(
    ("claimed", "line", "heading"), [(18, 18, "Publishers"), (24, 24, "Subscribers"), (9, 18, "Publishers")]
)
def test_of_several_places_the_one_that_the_chunk_claims_is_meant(claimed: int, line: int, heading: str) -> None:
    facts = PAGE.facts(make_chunk("c", "Mind the queue.", start_line=claimed))
    assert (facts["start_line"], facts["heading"]) == (line, heading)


def test_a_text_that_is_not_in_the_page_has_no_lines_or_headings() -> None:
    facts = PAGE.facts(make_chunk("c", "Mind the gap."))
    assert {"start_line", "end_line", "heading", "section_path"}.isdisjoint(facts)
    assert facts["title"] == "Topics"


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        ({"file_path": "module-1/topics.md"}, "module-1/topics.md"),
        ({"source_url": "/docs/module-1/services"}, "module-1/services.md"),
        ({"file_path": "module-1/topics.md", "source_url": "/docs/module-1/services"}, "module-1/topics.md"),
        ({"file_path": "moved.md", "source_url": "/docs/module-1/services"}, "module-1/services.md"),
        ({"file_path": "moved.md", "source_url": "/docs/moved"}, None),
        ({"source_url": None}, None),
    ],
)
def test_the_page_of_a_chunk_is_that_of_its_file_else_of_its_address(
    sources: SourcePages, fields: dict[str, str], file: str | None
) -> None:
    page = sources.page_of(make_chunk("c", **fields))
    assert (page.page.file_path if page else None) == file


@pytest.mark.parametrize("file", ["module-1/topics.md", "module-1/services.md", "plain.md"])
def test_chunks_as_they_are_indexed_agree_with_their_page_in_every_fact(sources: SourcePages, file: str) -> None:
    chunks = true_chunks(sources, file)
    for chunk in chunks:
        page = sources.page_of(chunk)
        assert page is not None
        facts = page.facts(chunk)
        assert facts == {name: getattr(chunk, name) for name in facts}
        assert "start_line" in facts
    assert len(chunks) >= (5 if "topics" in file else 1)


def test_a_page_without_front_matter_tells_what_it_can(sources: SourcePages) -> None:
    page = sources.page_of(make_chunk("c", file_path="plain.md"))
    assert page is not None
    facts = page.facts(make_chunk("c", PLAIN))
    assert (facts["title"], facts["tags"], facts["sidebar_position"]) == ("Plain page", (), None)
    assert (facts["module"], facts["chapter"]) == ("plain", "plain")
    assert (facts["start_line"], facts["end_line"]) == (1, 3)


def test_reading_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="expected a folder of pages, found nothing"):
        SourcePages.read(tmp_path / "nowhere", "/docs")


def test_a_page_is_found_by_an_address_with_a_fragment_and_a_live_one_is_true(sources: SourcePages) -> None:
    def address(fragment: str) -> object:
        chunk = make_chunk("a", "A topic is a named bus.", source_url=f"/docs/module-1/topics#{fragment}")
        page = sources.page_of(chunk)
        assert page is not None
        return page.facts(chunk)["source_url"]

    assert address("publishers") == "/docs/module-1/topics#publishers"
    assert address("gone") == "/docs/module-1/topics"
