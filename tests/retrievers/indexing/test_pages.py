"""Folders of pages, and pages of HTML, plain text and PDF: every page read or named, whatever lies there."""

import os
import re
import sys
import time
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfWriter
from syrupy.assertion import SnapshotAssertion

from evals.cases.pages import SourcePage
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import Page, PageError
from retrievers.indexing.pages import html_file, html_page, pdf_page, read_corpus, text_page
from tests.support.indexing import pdf, write_pages

PAGES = {
    "one/alpha.md": "---\ntitle: Alpha\n---\n\n# Alpha\n\nAlpha text.\n",
    "one/beta.mdx": "# Beta\n\nBeta text.\n",
    "two.md": "Two text.\n\n## More\n\nMore text.\n",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", PAGES)


def placed(page: Page, budget: int = 50) -> list[tuple[str, str | None, str]]:
    """Source, headings and text of the page's chunks, whose metadata are those that the page shows."""
    chunks = chunk_page(page, budget, lambda text: len(text.split()))
    for chunk in chunks:
        facts = SourcePage(page).facts(chunk)
        assert {name: getattr(chunk, name) for name in facts} == facts
    return [(chunk.source, chunk.section_path, chunk.text) for chunk in chunks]


# A folder


def test_a_folder_may_mix_kinds_and_what_is_no_page_is_left_out(docs: Path, snapshot: SnapshotAssertion) -> None:
    write_pages(docs, {"UPPER.MD": "Upper.", "arm.html": "<h1>Arm</h1><p>Seven joints.", "note.txt": "A note."})
    write_pages(docs, {"_part.mdx": "no", ".hid.md": "no", "_dir/x.md": "no", "e.png": ""})
    write_pages(docs, {"a.docx": "", "b.DOCX": "", "c.rst": ""})
    (docs / "manual.pdf").write_bytes(pdf(["One.", "", "Three."]))
    (docs / "wide.txt").write_bytes("Größe".encode("utf-16"))
    (docs / "bom.md").write_bytes(b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\ntext\r\n")
    (docs / "three.md").symlink_to(docs / "two.md")
    corpus = read_corpus(docs)
    assert ({page.file_path: page.source_url for page in corpus.pages}, corpus.note, corpus.faults) == snapshot


def test_a_folder_that_is_none_or_holds_no_page_is_refused(docs: Path, tmp_path: Path) -> None:
    write_pages(tmp_path / "empty", {"a.rst": "x", "_b.md": "x"})
    faults = {"gone": "found nothing", "docs/two.md": "found a file", "empty": r"holds no page \(\.md, .*pdf\)"}
    for folder, said in faults.items():
        with pytest.raises(IndexingError, match=said):
            read_corpus(tmp_path / folder)


def test_every_fault_is_named_with_its_file_at_once(docs: Path, snapshot: SnapshotAssertion) -> None:
    write_pages(docs, {"b1.md": "---\r\ntitle: T\r\ny: 'a' b\r\n---\r\nx", "b2.md": "", "two.mdx": "Same address."})
    write_pages(docs, {"slug.md": "---\nslug: /two\n---\nSame.", "x1.txt": "", "x2.html": "<script>x</script>"})
    (docs / "b3.md").write_bytes(b"ok so far \xff\xfe")
    (docs / "b4.md").symlink_to(docs / "nowhere.md")
    (docs / "b5.md").mkdir()
    (docs.parent / "secret.md").write_text("a secret", encoding="utf-8")
    (docs / "b6.md").symlink_to("../secret.md")
    (docs / "b7.md").symlink_to("/dev/zero")
    os.mkfifo(docs / "b8.md")
    with (docs / "b9.md").open("wb") as file:
        file.truncate(10_000_000_000)
    os.close(os.open(os.fsencode(docs) + b"/na\xffme.md", os.O_CREAT | os.O_WRONLY))
    (docs / "x3.txt").write_bytes(b"\xff\xfe\x00")
    (docs / "x4.pdf").write_bytes(pdf([""]))
    write_pages(docs, {"x5.txt": "a\0b", "x6.html": "a\0b", "x7.md": "a\0b"})
    corpus = read_corpus(docs)
    assert [page.file_path for page in corpus.pages] == ["one/alpha.md", "one/beta.mdx", "slug.md"]
    told = "\n".join(corpus.faults).replace(f"{docs}/", "")
    assert re.sub(r"(b5.*found) \d+", r"\1 so many", told) == snapshot, "a folder has any size"


def test_the_fingerprint_is_that_of_names_bytes_and_the_base_of_addresses(docs: Path, tmp_path: Path) -> None:
    def of(folder: Path, base_url: str = "/docs") -> str:
        return read_corpus(folder, base_url).fingerprint

    seen = [of(docs), of(docs, "/help")]
    assert seen[0] == of(write_pages(tmp_path / "copy", PAGES | {"_part.md": "x", "image.svg": "<svg/>"}))
    write_pages(docs, {"two.md": "Two text!\n"})
    seen.append(of(docs))
    (docs / "two.md").rename(docs / "three.md")
    seen.append(of(docs))
    seen.append(of(write_pages(tmp_path / "1", {"a.md": "xy", "b.md": "z"})))
    seen.append(of(write_pages(tmp_path / "2", {"a.md": "x", "b.md": "yz"})))
    assert len(set(seen)) == len(seen)


# HTML


def test_html_is_read_as_a_browser_shows_it() -> None:
    for html, text in (
        ("<p>a</p><![foo[ b ]]><p>c</p>", "a\nc"),
        ("<p>a<!-- b <p>c", "a"),
        ("<p>a &amp; &#x110000; &#99; &nope; b", "a & \ufffd c &nope; b"),
        ("<ul><li>a<li>b</ul>c", "a\nb\nc"),
        ("<nav>a</nav>b<nav>c", "b"),
        ("no tags", "no tags"),
        ("  \n", ""),
        ("a\x00b", "a\ufffdb"),
        ("<title>T</title><p>a<br>b", "a\nb"),
        ("<h1>A</h1><p>text</p><main> <br></main>", "A\ntext"),
        ("<main><p>Own.</p></main><p>Text.</p>", "Own."),
        ("<h2>Help</h2><div role=main><h1>B</h1>One.<button>Copy</button><p hidden>later</p></div><p>by", "B\nOne."),
    ):
        assert html_page(html, "/x").text == text


def test_a_page_of_a_site_has_its_headings_and_sections_without_lines(snapshot: SnapshotAssertion) -> None:
    source = (Path(__file__).parent / "pages" / "arms.html").read_text(encoding="utf-8")
    page = SourcePage(html_page(source, "/docs/arms"))
    assert (page.page.title, page.page.file_path, page.text) == snapshot(name="page")
    assert page.headings == {"Arms", "Code", "Nothing", "Table"}
    assert placed(html_file(source, "arms.html", "/docs/arms.html")) == snapshot(name="chunks")
    found = html_page("<p>0<h1 id=a>A</h1><p>1<p>2<h3>B<a href='#b'>\u200b</a></h3><h2>C</h2>3", "/x")
    assert [section.path for section in found.sections] == [(), ("A",), ("A", "B"), ("A", "C")]


@pytest.mark.parametrize(
    "html",
    ["<main>" * 2_000 + "<b></b>" * 80_000]
    + [piece * (500_000 // len(piece)) for piece in ("<!--", "<a b='", "<b><p>", "<table><tr>")],
)
def test_any_html_takes_time_in_proportion_to_its_length(html: str) -> None:
    start = time.process_time()
    html_page(html, "/x")
    assert time.process_time() - start < 10


# Plain text and PDF


def test_plain_text_is_paragraphs_at_their_lines() -> None:
    text = "First paragraph\r\nof two lines.\r\n\r\n \r\n# no heading\r\n"
    assert placed(text_page(text, "notes/arms.txt", "/notes/arms.txt"), 5) == [
        ("notes/arms.txt:1-2", "arms", "First paragraph\nof two lines."),
        ("notes/arms.txt:5-5", "arms", "# no heading"),
    ]


TEXTS = ["Arms have seven joints.\nEach has an encoder.", "", "Wheels turn.", "Wheels turn."]


def test_a_chunk_of_a_pdf_names_its_page() -> None:
    page = pdf_page(pdf(TEXTS, title="The Arm"), "manuals/arm.pdf", "/docs/manuals/arm.pdf")
    assert placed(page) == [(f"manuals/arm.pdf:{number}", "The Arm", TEXTS[number - 1]) for number in (1, 3, 4)]
    [merged] = chunk_page(page, 50, lambda text: len(text.split()), merge_small=True)
    assert (merged.source, merged.start_line) == ("manuals/arm.pdf:1", None)


def locked() -> bytes:
    writer, target = PdfWriter(BytesIO(pdf(TEXTS))), BytesIO()
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf(["", ""]), "none of its 2 pages has text: a scan.*ocrmypdf"),
        (b"", "cannot be read as a PDF"),
        (b"%PDF-1.4\nnot really", "cannot be read as a PDF"),
        (pdf(TEXTS)[:300], "cannot be read as a PDF|has no? text"),
        (locked(), "cannot be read as a PDF without a password"),
    ],
)
def test_a_pdf_that_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PageError, match=reason):
        pdf_page(data, "a.pdf", "/a.pdf")


def test_without_the_reader_of_pdf_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pdf(TEXTS)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(PageError, match=r"pip install 'retrieval-evals\[pdf\]'"):
        pdf_page(data, "a.pdf", "/a.pdf")
