"""Plain text: paragraphs at their lines."""

import pytest

from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import PageError
from retrievers.indexing.pages import text_page

TEXT = "First paragraph\r\nof two lines.\r\n\r\n \r\n# no heading\r\n"


def test_paragraphs_keep_their_lines() -> None:
    page = text_page(TEXT, "notes/arms.txt", "/docs/notes/arms.txt")
    chunks = chunk_page(page, 5, lambda text: len(text.split()))
    assert [(chunk.source, chunk.text) for chunk in chunks] == [
        ("notes/arms.txt:1-2", "First paragraph\nof two lines."),
        ("notes/arms.txt:5-5", "# no heading"),
    ]
    assert {(c.title, c.heading, c.module, c.source_document_id) for c in chunks} == {
        ("arms", "arms", "notes", "notes/arms.txt")
    }


@pytest.mark.parametrize(("text", "reason"), [(" \n\t\n", "no text"), ("a\0b", "NUL characters: a binary file")])
def test_what_is_no_text_says_so(text: str, reason: str) -> None:
    with pytest.raises(PageError, match=reason):
        text_page(text, "a.txt", "/a.txt")
