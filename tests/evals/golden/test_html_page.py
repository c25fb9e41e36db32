"""HTML to lines and headings: what browsers show of it, however broken it is."""

import time

import pytest

from evals.golden.html_page import html_page
from evals.golden.source_pages import SourcePage
from tests.evals.golden.test_web_pages import HTML


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
