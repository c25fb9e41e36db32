"""PDF files: a section for each page, its number in place of lines; what cannot be read says why."""

import sys
from io import BytesIO

import pytest
from pypdf import PdfWriter

from evals.cases.pages import SourcePage
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import Page, PageError
from retrievers.indexing.pages import pdf_page
from tests.support.pdf_files import pdf

TEXTS = ["Arms have seven joints.\nEach has an encoder.", "", "Wheels turn."]


def read(data: bytes) -> Page:
    return pdf_page(data, "manuals/arm.pdf", "/docs/manuals/arm.pdf")


def words(text: str) -> int:
    return len(text.split())


def test_a_chunk_names_its_page() -> None:
    page = read(pdf(TEXTS, title="The Arm"))
    chunks = chunk_page(page, 50, words)
    assert [(chunk.source, chunk.text) for chunk in chunks] == [
        ("manuals/arm.pdf:1", TEXTS[0]),
        ("manuals/arm.pdf:3", TEXTS[2]),
    ]
    first = chunks[0]
    assert (first.title, first.page_number, first.start_line) == ("The Arm", 1, None)
    assert (first.source_url, first.source_document_id) == ("/docs/manuals/arm.pdf", "manuals/arm.pdf")
    assert (page.paged, page.blank_pages) == (True, (2,))


def test_small_pages_are_merged_and_named_by_the_first() -> None:
    [chunk] = chunk_page(read(pdf(TEXTS)), 50, words, merge_small=True)
    assert (chunk.source, chunk.title) == ("manuals/arm.pdf:1", "arm")
    assert "encoder" in chunk.text and "Wheels" in chunk.text


def test_its_metadata_can_be_checked_against_the_file() -> None:
    page = read(pdf(["Same words.", "Other words.", "Same words."]))
    for chunk in chunk_page(page, 50, words):
        facts = SourcePage(page).facts(chunk)
        assert {name: getattr(chunk, name) for name in facts} == facts
        assert facts["page_number"] == chunk.page_number


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf(["", ""]), "none of its 2 pages has text: a scan"),
        (pdf([""]), "its page has no text: a scan.*ocrmypdf"),
        (b"", "cannot be read as a PDF"),
        (b"%PDF-1.4\nnot really", "cannot be read as a PDF"),
        (pdf(TEXTS)[:300], "cannot be read as a PDF|has no? text"),
    ],
)
def test_a_file_without_text_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PageError, match=reason):
        read(data)


def test_a_password_is_named() -> None:
    writer, target = PdfWriter(BytesIO(pdf(TEXTS))), BytesIO()
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(target)
    with pytest.raises(PageError, match="protected by a password; save a copy without one"):
        read(target.getvalue())


def test_without_the_reader_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(PageError, match=r"pip install 'retrieval-evals\[pdf\]'"):
        read(pdf(TEXTS))
