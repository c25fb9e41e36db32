"""Source pages over HTTP: what is read from them, and whom is asked."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from evals.cases.pages import SourcePageError
from evals.cases.web_pages import WebPages
from evals.metrics.metadata import address_fault, wrong_fields
from retrievers.records import Chunk
from tests.support.raw_server import HEAD, drip, flood, raw_server

HTML = """<!doctype html><html><head><title>Topics | Handbook</title><style>p {}</style></head><body>
<nav><a>Home</a><p>Everywhere</p></nav>
<main><h1>Topics</h1><p>A topic is a <b>named</b> bus.</p>
<h2>Rates<a href="#rates">\u200b</a></h2><ul><li>Ask with <code>ros2 topic hz</code> &amp; wait.</li></ul>
<h3>Windows</h3><p>Ten seconds.</p></main><script>let x = "A topic is";</script></body></html>"""
MARKDOWN = "---\ntitle: Services\n---\nIntro text.\n\n## Calls\n\nA call waits.\n"
ANSWERS: dict[str, tuple[int, dict[str, str], str]] = {
    "/docs/topics": (200, {"Content-Type": "text/html; charset=utf-8"}, HTML),
    "/docs/services": (200, {"Content-Type": "text/markdown"}, MARKDOWN),
    "/docs/anchors": (200, {"Content-Type": "text/html"}, '<h1 id="top">Anchors</h1><h2 id="rates">Rates</h2>'),
    "/docs/old": (301, {"Location": "/docs/topics"}, ""),
    "/docs/away": (302, {"Location": "http://elsewhere.invalid/"}, ""),
    "/docs/broken": (500, {}, "oops"),
    "/docs/nowhere": (302, {"Location": "http://[x"}, ""),
    "/docs/secret": (302, {"Location": "ftp://me:pw@h/"}, ""),
    "/docs/round": (302, {"Location": "/docs/round"}, ""),
    "/docs/matter": (200, {"Content-Type": "text/markdown"}, "---\na: [\n---\n"),
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
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}", Handler.asked
        server.shutdown()
        thread.join()


def chunk(source_url: str, text: str = "Ten seconds.", **known: str) -> Chunk:
    return Chunk(chunk_id="c", point_id="p", text=text, source_url=source_url, **known)  # type: ignore[arg-type]


def test_addresses_with_fragments_are_one_page_and_its_ids_say_which_lead_somewhere(
    site: tuple[str, list[str]],
) -> None:
    host, asked = site
    pages = WebPages([host], f"http://{host}")
    faults = [address_fault(chunk(f"/docs/anchors#{fragment}"), pages) for fragment in ("rates", "top", "gone")]
    assert faults == ["", "", "'/docs/anchors#gone' has a fragment that its page lacks"]
    assert asked == ["/docs/anchors"]
    assert wrong_fields(chunk("/docs/anchors#rates", title="Anchors"), ("source_url", "title"), pages) == ([], 2)


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
    assert (page.page.title, [page.section_at(lines[0]) for lines in page.occurrences("A call waits.")]) == (
        "Services",
        [("Calls",)],
    )


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


def unread(pages: WebPages, source_url: str) -> str:
    with pytest.raises(SourcePageError) as caught:
        pages.page_of(chunk(source_url))
    return str(caught.value)


def test_a_failing_page_is_an_error_and_not_a_wrong_chunk_and_the_rest_goes_on(site: tuple[str, list[str]]) -> None:
    host, asked = site
    pages = WebPages([host], f"http://{host}")
    said = [unread(pages, "/docs/broken") for _ in range(2)]
    assert said == [f"http://{host}/docs/broken: answered 500 Internal Server Error"] * 2
    assert pages.page_of(chunk("/docs/topics")) is not None
    assert asked == ["/docs/broken", "/docs/topics"], "a page is fetched once"
    assert pages.faults == said[:1]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/docs/nowhere", "redirects to 'http://[x', which is no address"),
        ("/docs/secret", "redirects to 'ftp://***@h/', which is no address"),
        ("/docs/round", "answered 302 Found"),
        ("/docs/matter", "line 2: the front matter is not valid YAML"),
    ],
)
def test_what_leads_nowhere_or_is_broken_is_named(site: tuple[str, list[str]], path: str, said: str) -> None:
    host, _ = site
    assert unread(WebPages([host], f"http://{host}"), path).startswith(f"http://{host}{path}: {said}")


@pytest.mark.parametrize("url", ["http://[x", "//[", "mailto:me@x.org", "http://h\x00st/a", ""])
def test_a_chunk_whose_address_is_none_has_no_page(url: str) -> None:
    assert WebPages(["h"], "").page_of(chunk(url)) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: drip(HEAD + b"\r\n"), "cannot be fetched: ReadTimeout"),
        (lambda _: flood(HEAD + b"\r\n"), "cannot be fetched: TooLargeError: an answer of more than 1,000 bytes"),
        (lambda _: [b"hello"], "cannot be fetched: RemoteProtocolError"),
    ],
    ids=["drip", "ten gigabytes", "no HTTP"],
)
def test_a_page_ends_in_time_and_size(answer: Callable[[bytes], Iterable[bytes]], said: str) -> None:
    with raw_server(answer) as host:
        start = time.monotonic()
        pages = WebPages([host], f"http://{host}", page_s=0.3, most_bytes=1_000)
        assert unread(pages, "/a").startswith(f"http://{host}/a: {said}")
        assert time.monotonic() - start < 2


def test_redirects_share_the_time_of_their_page() -> None:
    def answer(request: bytes) -> Iterator[bytes]:
        time.sleep(0.2)
        yield b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    with raw_server(answer) as host:
        assert "ReadTimeout" in unread(WebPages([host], f"http://{host}", page_s=0.5), "/a")


def test_a_host_that_sends_no_page_is_not_asked_for_ever() -> None:
    pages = WebPages(["127.0.0.1:9"], "http://127.0.0.1:9")
    said = [unread(pages, f"/{number}").partition(": ")[2] for number in range(5)]
    assert all(one.startswith("cannot be fetched: ConnectError") for one in said[:3])
    assert said[3:] == ["not fetched, as 127.0.0.1:9 did not send the 3 pages before it"] * 2


@pytest.mark.parametrize("charset", ["iso-8859-1", "punycode", "base64", "\x00", "nope"])
def test_a_page_is_read_whatever_its_character_set_is_said_to_be(charset: str) -> None:
    body = "<h1>Größe</h1>".encode("iso-8859-1" if charset == "iso-8859-1" else "utf-8")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset={charset}\r\nContent-Length: {len(body)}\r\n\r\n"
    with raw_server(lambda _: [head.replace("\x00", "").encode() + body]) as host:
        page = WebPages([host], f"http://{host}").page_of(chunk("/a"))
    assert page is not None and page.page.title == "Größe"
