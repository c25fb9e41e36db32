import pytest

from retrievers.config.indexing import Context
from retrievers.indexing.chunking import chunk_page, context_of
from retrievers.indexing.markdown import parse_page

PATH = ("Topics", "Quality of service", "Best effort")


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("none", ""),
        ("title", "ROS 2 topics"),
        ("path", "ROS 2 topics > Topics > Quality of service > Best effort"),
    ],
)
def test_it_is_the_title_or_title_and_headings(context: Context, expected: str) -> None:
    assert context_of(context, "ROS 2 topics", PATH, 100, words) == expected


def test_a_heading_that_repeats_the_title_is_left_out() -> None:
    assert context_of("path", "Topics", PATH, 100, words) == "Topics > Quality of service > Best effort"


@pytest.mark.parametrize(("most", "expected"), [(2, "Best effort"), (3, "> Best effort"), (1, "effort"), (0, "")])
def test_its_last_words_are_kept_where_it_is_too_long(most: int, expected: str) -> None:
    assert context_of("path", "Topics", PATH, most, words) == expected


def test_it_counts_towards_the_budget_and_leaves_half_of_it_for_the_text() -> None:
    context: Context
    source = "---\ntitle: one two three\n---\n\n" + "w. " * 40
    for context, length in (("none", 8), ("title", 5)):
        chunks = chunk_page(parse_page(source, "page.md"), 8, words, context=context)
        assert max(words(chunk.indexed_text) for chunk in chunks) <= 8
        assert max(chunk.chunk_token_count or 0 for chunk in chunks) == length
    [chunk] = chunk_page(
        parse_page("---\ntitle: " + "long " * 50 + "\n---\n\nshort text", "p.md"), 8, words, context="title"
    )
    assert chunk.indexed_text == "long long long long\n\nshort text"


def test_the_text_and_its_place_do_not_depend_on_it() -> None:
    page = parse_page("# Arms\n\nOne.\n\n## Hands\n\nTwo.\n", "page.md")
    plain, headed = chunk_page(page, 100, words), chunk_page(page, 100, words, context="path")
    assert [c.chunk_context for c in headed] == ["Arms", "Arms > Hands"]
    assert all(c.chunk_context is None for c in plain)
    places = [[(c.chunk_id, c.text, c.start_line, c.end_line, c.chunk_token_count) for c in x] for x in (plain, headed)]
    assert places[0] == places[1]
