"""HTML to lines and headings: what browsers show of it, however broken it is."""

import time

import pytest

from evals.cases.pages import SourcePage
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.html_page import html_file, html_page
from retrievers.indexing.markdown import PageError
from tests.evals.cases.test_pages import HTML


def test_html_becomes_lines_under_headings_without_navigation_and_scripts() -> None:
    page = SourcePage(html_page(HTML, "/docs/topics"))
    assert page.page.title == "Topics"
    assert page.text == "Topics A topic is a named bus. Rates Ask with ros2 topic hz & wait. Windows Ten seconds."
    assert page.headings == {"Topics", "Rates", "Windows"}


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p><![foo[ b ]]><p>c</p>", "a\nc"),
        ("<p>a<!-- b <p>c", "a"),
        ("<p>a &amp; &#x110000; &#99; &nope; b", "a & \ufffd c &nope; b"),
        ("<ul><li>a<li>b</ul>c", "a\nb\nc"),
        ("<nav>a</nav>b<nav>c", "b"),
        ("no tags", "no tags"),
        ("", ""),
        ("  \n", ""),
        ("a\x00b", "a\ufffdb"),
        ("<title>T</title><p>a<br>b", "a\nb"),
    ],
)
def test_whatever_is_sent_is_read(html: str, text: str) -> None:
    assert html_page(html, "/x").text == text


def test_sections_are_headings_with_the_lines_under_them() -> None:
    sections = html_page("<p>0<h1>A</h1><p>1<p>2<h3>B</h3><h2>C</h2>3", "/x").sections
    found = [(section.path, section.runs[0][0].start_line, section.runs[0][0].end_line) for section in sections]
    assert found == [((), 1, 1), (("A",), 2, 4), (("A", "B"), 5, 5), (("A", "C"), 6, 7)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a b='", "</", "<![CDATA[", "<?", "<div>", "<b><p>", "<h1>", "&#9", "<table><tr>", "<a>", "word "],
)
def test_any_page_takes_time_in_proportion_to_its_length(piece: str) -> None:
    start = time.process_time()
    html_page("<p>x" + piece * (1_000_000 // len(piece)), "/x")
    assert time.process_time() - start < 10


FILE = """<!doctype html>
<title>Arms – Robots</title>
<header><h1>Robots</h1></header><div role="navigation">Menu</div>
<main><article><header><h1>Arms<a href="#arms">¶</a></h1></header>
<p>An arm has <b>sev</b>en
joints.</p>
<!-- not
shown -->
<h2>Code</h2>
<pre>
def go():
    return 1
</pre>
<h2>Nothing</h2>
<h3>Table</h3><table><tr><td>a</td><td>b</td></tr></table>
</article></main>
<footer>© us</footer>
"""


def test_a_file_has_sections_at_its_own_lines() -> None:
    page = html_file(FILE, "arms.html", "/docs/arms.html")
    chunks = chunk_page(page, 50, lambda text: len(text.split()))
    assert [(chunk.source, chunk.section_path, chunk.text) for chunk in chunks] == [
        ("arms.html:4-6", "Arms", "Arms\nAn arm has seven joints."),
        ("arms.html:9-12", "Arms > Code", "Code\ndef go():\n    return 1"),
        ("arms.html:15-15", "Arms > Nothing > Table", "Table\na b"),
    ]
    assert {chunk.title for chunk in chunks} == {"Arms"}
    for chunk in chunks:
        facts = SourcePage(page).facts(chunk)
        assert {name: getattr(chunk, name) for name in facts} == facts


def test_lines_are_counted_behind_those_that_libxml2_counts() -> None:
    page = html_file("<p>a\n" + "b\n" * 70_000 + "<p>c", "a.html", "/a.html")
    assert page.origins == ((1, 70_001), (70_002, 70_002))


def test_a_page_on_one_line_keeps_its_sections() -> None:
    page = html_file("<h1>A</h1><p>a<h2>B</h2><p>b", "a.html", "/a.html")
    chunks = chunk_page(page, 50, lambda text: len(text.split()))
    assert [(chunk.source, chunk.section_path) for chunk in chunks] == [("a.html:1-1", "A"), ("a.html:1-1", "A > B")]
    assert [SourcePage(page).facts(chunk)["section_path"] for chunk in chunks] == ["A", "A > B"]


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("", "shows no text"),
        ("<!-- a -->", "shows no text"),
        ("<nav>a</nav><h1>b</h1>", "shows no text"),
        ("a\0", "NUL"),
    ],
)
def test_a_file_without_text_says_so(html: str, reason: str) -> None:
    with pytest.raises(PageError, match=reason):
        html_file(html, "a.html", "/a.html")


HELP = '<div id="help"><h2>Keyboard shortcuts</h2><p>Press S to search</p></div>'


@pytest.mark.parametrize(
    "main", ["<main>{}</main>", '<div role="main">{}</div>', "<div><main><article>{}</article></main></div>"]
)
def test_what_stands_outside_of_the_main_part_is_no_text(main: str) -> None:
    body = main.format("<h1 id=b>Borrowing</h1><p>At most one is mutable.</p><button>Copy</button><p hidden>later</p>")
    page = html_page(f"<title>Book</title><body>{HELP}{body}<p>Powered by a generator</p></body>", "/docs/b")
    assert (page.title, page.text) == ("Borrowing", "Borrowing\nAt most one is mutable.")
    assert {"help", "b"} <= page.ids, "an address may lead to any element"


def test_a_page_whose_main_part_is_empty_is_read_as_a_whole() -> None:
    assert html_page("<h1>A</h1><p>text</p><main> <br></main>", "/docs/a").text == "A\ntext"


def test_elements_without_text_are_passed_over_in_linear_time() -> None:
    start = time.process_time()
    assert html_page("<main>" * 2_000 + "<b></b>" * 80_000, "/a").sections == ()
    assert html_page("<main><p></p></main><p>Text.</p>", "/a").text == "Text."
    assert html_page("<main><p>Own.</p></main><p>Text.</p>", "/a").text == "Own."
    assert time.process_time() - start < 10
