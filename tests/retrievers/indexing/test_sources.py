"""What is indexed: folders of pages (Markdown, HTML, text, PDF) and datasets; all is read, or named with its fault."""

import json
import os
import re
import sys
import time
import tracemalloc
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pypdf import PdfWriter
from syrupy.assertion import SnapshotAssertion

from evals.cases.pages import SourcePage
from retrievers.config import IndexSettings
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import Page, PageError
from retrievers.indexing.pages import Corpus, html_file, html_page, pdf_page, read_corpus, text_page
from retrievers.indexing.rows import read_rows, rows_of, table_of
from retrievers.records import Chunk
from tests.support.command import refusal
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
    os.mkfifo(tmp_path / "pipe.jsonl")
    faults = {"gone": "found nothing", "docs/two.md": "found a file", "pipe.jsonl": "found a pipe or the like"}
    for folder, said in (faults | {"empty": r"no page \(\.md, .*pdf\); .*: \.rst 1; documents can be"}).items():
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
    write_pages(docs, {"x5.txt": "a\0b", "x6.html": "a\0b", "x7.md": "a\0b", "x8.htm": "<h1>A"})
    corpus = read_corpus(docs)
    assert [page.file_path for page in corpus.pages] == ["one/alpha.md", "one/beta.mdx", "slug.md"]
    told = "\n".join(corpus.faults).replace(f"{docs}/", "")
    assert re.sub(r"(b5.*found) [\d,]*\d", r"\1 so many", told) == snapshot, "a folder has any size"


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
        ("<main><p>Own.</p></main><p>Text.</p><main>b<main>c</main></main>", "Own.\nb\nc"),
        ("<x-page role=main><p>a</p>b</x-page>c", "a\nb"),
        ("<body><h1>A</h1></body></html>\n<html><head></head><body>b</body ></HTML><p>c", "A\nb\nc"),
        ("<!--</html>--><script>'</html>'</script><table><tr><td><textarea></body></textarea></body> b", "</body> b"),
        ("<span>" * 2_046 + "a", "a"),
        ("<h2>Help</h2><div role=main><h1>B</h1>One.<button>Copy</button><p hidden>later</p></div><p>by", "B\nOne."),
    ):
        assert html_page(html, "/x").text == text
    with pytest.raises(PageError, match="line 2: expected elements nested at most 2,048 deep"):
        html_page("<p>\n" + "<span>" * 2_100 + "a", "/x")


def test_a_page_of_a_site_has_its_headings_and_sections_without_lines(snapshot: SnapshotAssertion) -> None:
    source = (Path(__file__).parent / "pages" / "arms.html").read_text(encoding="utf-8")
    page = SourcePage(html_page(source, "/docs/arms"))
    assert (page.page.title, page.page.file_path, page.text) == snapshot(name="page")
    assert page.headings == {"Arms", "Code", "Nothing", "Table"}
    assert placed(html_file(source, "arms.html", "/docs/arms.html")) == snapshot(name="chunks")
    found = html_page("<p>0<h1 id=a>A</h1><p>1<p>2<h3>B<a href='#b'>\u200b</a></h3><h2>C</h2>3", "/x")
    assert [section.path for section in found.sections] == [(), ("A",), ("A", "B"), ("A", "C")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "html",
    ["<main>" * 2_000 + "<b></b>" * 80_000]
    + [piece * (500_000 // len(piece)) for piece in ("<!--", "<a b='", "<b><p>", "<table></table>", "</html>")],
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


def test_a_pdf_that_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, reason in (
        (pdf(["", ""]), "no text in it \\(pages: 2\\): a scan.*ocrmypdf"),
        (b"", "cannot be read as a PDF: EmptyFileError"),
        (b"%PDF-1.4\nnot really", "cannot be read as a PDF"),
        (pdf(TEXTS)[:300], "cannot be read as a PDF|has no? text"),
        (locked(), "^needs a password; save a copy"),
    ):
        with pytest.raises(PageError, match=reason):
            pdf_page(data, "a.pdf", "/a.pdf")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(PageError, match=r"pip install 'retrieval-evals\[pdf\]'"):
        pdf_page(b"", "a.pdf", "/a.pdf")


# Datasets

ROWS = [{"_id": "1", "text": "Größe"}, {"_id": "2", "text": "two\nlines"}, {"_id": "3", "text": ""}]
BEIR: list[Any] = [
    {"_id": "d1", "title": "Arms", "text": "An arm has seven joints. Each has an encoder.", "metadata": {}},
    {"_id": "d2", "title": "", "text": "An arm has seven joints. Each has an encoder."},
    {"_id": 3, "title": "Only a title", "text": ""},
    {"_id": "d4", "title": " ", "text": "\n"},
]


def read(source: Path) -> list[tuple[int, Any]]:
    return [row for _, row in rows_of(source)]


def corpus(folder: Path, rows: Sequence[Any]) -> Corpus:
    file = folder / "corpus.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return read_rows(file)


def cut(rows: Corpus, **named: Any) -> list[Chunk]:
    return list(rows.cut(IndexSettings.model_validate(named).over(rows.defaults(named))))


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    lines = "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a[1].parquet")
    assert read(tmp_path / "a.jsonl") == list(zip([1, 3, 5], ROWS, strict=True))
    assert read(tmp_path / "a[1].parquet") == list(zip([1, 2, 3], ROWS, strict=True))


def test_a_dataset_is_a_file_or_a_folder_of_beir(tmp_path: Path) -> None:
    write_pages(tmp_path, dict.fromkeys(("a/corpus.jsonl", "a/a.md", "b/b.jsonl", "b.jsonl", "c.csv", "d.md"), ""))
    for name, table in (("a", "a/corpus.jsonl"), ("b.jsonl", "b.jsonl"), ("b", ""), ("c.csv", ""), ("d.md", "")):
        assert table_of(tmp_path / name) == (tmp_path / table if table else None)
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert table_of(tmp_path / "pipe.jsonl") is None


FAULTS = {
    "no JSON.jsonl": b'{"text": "x"',
    "no object.jsonl": b'["text"]',
    "Latin.jsonl": b'{"text": "a"}\n{"text": "\xff"}',
    "no.parquet": b"no",
    "empty.jsonl": b"",
    "without text.jsonl": b'{"text": " "}',
    "titles.jsonl": b'{"title": "Start", "body": "Press the button."}',
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_read_says_why_and_where(tmp_path: Path, name: str, snapshot: SnapshotAssertion) -> None:
    (tmp_path / name).write_bytes(FAULTS[name])
    assert refusal(IndexingError, read_rows, tmp_path / name).replace(f"{tmp_path}/", "") == snapshot


def test_a_saved_dataset_and_a_column_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b"{}")
    with pytest.raises(IndexingError, match="cannot be read behind row or line 0: "):
        read(tmp_path)
    text = pa.array([b"ok", b"\xff\xfe"], type=pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    with pytest.raises(IndexingError, match=r"a\.parquet: cannot be read behind row or line 0: .*invalid start byte"):
        read(tmp_path / "a.parquet")


# Documents


def test_a_document_is_one_chunk_under_its_own_id(tmp_path: Path) -> None:
    rows = corpus(tmp_path, BEIR)
    chunks = cut(rows)
    assert [(c.chunk_id, c.source_document_id, c.title, c.heading, c.indexed_text) for c in chunks] == [
        ("d1", "d1", "Arms", "Arms", f"Arms\n\n{BEIR[0]['text']}"),
        ("d2", "d2", None, None, BEIR[1]["text"]),
        ("3", "3", "Only a title", "Only a title", "Only a title\n\nOnly a title"),
    ]
    assert {(c.source_url, c.file_path, c.start_line, c.module) for c in chunks} == {(None, None, None, None)}
    assert rows.note == f"1 rows without text were left out, from {tmp_path}/corpus.jsonl:4 on"
    assert corpus(tmp_path, [dict(reversed(row.items())) for row in BEIR]).fingerprint == rows.fingerprint
    assert corpus(tmp_path, BEIR[:2]).fingerprint != rows.fingerprint


def test_documents_of_equal_texts_stay_apart_when_they_are_cut(tmp_path: Path) -> None:
    chunks = cut(corpus(tmp_path, BEIR[:2]), max_tokens=16, context="none")
    assert [c.source_document_id for c in chunks] == ["d1"] * (len(chunks) // 2) + ["d2"] * (len(chunks) // 2)
    assert len({c.point_id for c in chunks}) == len(chunks) >= 2
    assert " ".join(c.text for c in chunks if c.source_document_id == "d1") == BEIR[0]["text"]


def test_every_fault_is_named_with_its_line_at_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    rows = [*BEIR[:1], {"_id": "d1", "text": "again"}, {"_id": " ", "text": "x"}, {"_id": "d5", "text": ["x"]}, "x"]
    with pytest.raises(IndexingError) as caught:
        corpus(tmp_path, rows)
    assert [fault.replace(f"{tmp_path}/", "") for fault in caught.value.faults] == snapshot


@pytest.mark.slow
def test_a_long_line_is_cut_in_a_few_times_its_memory(tmp_path: Path) -> None:
    text = "word " * 40_000
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    corpus = read_rows(tmp_path / "a.jsonl")
    settings = IndexSettings(max_tokens=256).over(corpus.defaults({"max_tokens": 256}))
    next(corpus.cut(settings))  # the tokeniser is loaded
    tracemalloc.start()
    cut = [*corpus.cut(settings)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cut) > 120 and most < 10 * len(text)
