"""Source pages over HTTP: what is read from them, and whom is asked."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from evals.errors import EvaluationError
from evals.metrics.metadata import wrong_fields
from evals.sources import SourcePage
from evals.web_sources import WebPages, html_page
from retrievers.records import Chunk

HTML = """<!doctype html><html><head><title>Topics | Handbook</title><style>p {}</style></head><body>
<nav><a>Home</a><p>Everywhere</p></nav>
<main><h1>Topics</h1><p>A topic is a <b>named</b> bus.</p>
<h2>Rates<a href="#rates">\u200b</a></h2><ul><li>Ask with <code>ros2 topic hz</code> &amp; wait.</li></ul>
<h3>Windows</h3><p>Ten seconds.</p></main><script>let x = "A topic is";</script></body></html>"""
MARKDOWN = "---\ntitle: Services\n---\nIntro text.\n\n## Calls\n\nA call waits.\n"
ANSWERS: dict[str, tuple[int, dict[str, str], str]] = {
    "/docs/topics": (200, {"Content-Type": "text/html; charset=utf-8"}, HTML),
    "/docs/services": (200, {"Content-Type": "text/markdown"}, MARKDOWN),
    "/docs/old": (301, {"Location": "/docs/topics"}, ""),
    "/docs/away": (302, {"Location": "http://elsewhere.invalid/"}, ""),
    "/docs/broken": (500, {}, "oops"),
}


class Site(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]]
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status, headers, body = ANSWERS.get(self.path, (404, {}, ""))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    class Handler(Site):
        asked: ClassVar[list[str]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", Handler.asked
        server.shutdown()
        thread.join()


def chunk(source_url: str, text: str = "Ten seconds.", **known: str) -> Chunk:
    return Chunk(chunk_id="c", point_id="p", text=text, source_url=source_url, **known)  # type: ignore[arg-type]


def test_html_becomes_lines_under_headings_without_navigation_and_scripts() -> None:
    page = SourcePage(html_page(HTML, "/docs/topics"))
    assert page.page.title == "Topics"
    assert page.text == "Topics A topic is a named bus. Rates Ask with ros2 topic hz & wait. Windows Ten seconds."
    assert page.headings == {"Topics", "Rates", "Windows"}


def test_a_chunk_is_checked_against_its_page_on_the_site(site: tuple[str, list[str]]) -> None:
    host, asked = site
    pages = WebPages([host], f"http://{host}")
    right = chunk("/docs/topics", title="Topics", heading="Windows", section_path="Topics > Rates > Windows")
    required = ("source_url", "title", "heading", "section_path", "tags", "start_line")
    assert wrong_fields(right, required, pages) == ([], 4)
    wrong, compared = wrong_fields(chunk("/docs/topics", title="Topic"), required, pages)
    assert (wrong, compared) == (["title: expected 'Topics' as in the page, got 'Topic'"], 2)
    assert asked == ["/docs/topics"], "a page is fetched once"


def test_markdown_is_read_as_markdown(site: tuple[str, list[str]]) -> None:
    host, _ = site
    page = WebPages([host], "").page_of(chunk(f"http://{host}/docs/services"))
    assert page is not None
    assert (page.page.title, [p.section for p in page.places("A call waits.")]) == ("Services", [("Calls",)])


def test_a_redirect_is_followed_only_within_the_named_hosts(site: tuple[str, list[str]]) -> None:
    host, asked = site
    pages = WebPages([host], f"http://{host}")
    assert pages.page_of(chunk("/docs/old")) is not None
    assert pages.page_of(chunk("/docs/away")) is None
    assert asked == ["/docs/old", "/docs/topics", "/docs/away"]


def test_other_hosts_are_never_asked(site: tuple[str, list[str]]) -> None:
    host, asked = site
    assert WebPages(["docs.invalid"], f"http://{host}").page_of(chunk("/docs/topics")) is None
    assert asked == []


def test_a_missing_page_does_not_exist(site: tuple[str, list[str]]) -> None:
    host, _ = site
    assert WebPages([host], f"http://{host}").page_of(chunk("/docs/none")) is None


def test_a_failing_site_is_an_error_and_not_a_wrong_chunk(site: tuple[str, list[str]]) -> None:
    host, _ = site
    with pytest.raises(EvaluationError, match="/docs/broken: answered 500"):
        WebPages([host], f"http://{host}").page_of(chunk("/docs/broken"))
    with pytest.raises(EvaluationError, match="cannot be fetched: ConnectError"):
        WebPages(["127.0.0.1:9"], "http://127.0.0.1:9").page_of(chunk("/docs/topics"))
