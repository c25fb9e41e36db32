"""Source pages of a folder and of a site: where a text stands, what the page says of it, and whom is asked."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from evals.cases import pages as source_pages
from evals.cases.pages import SourcePage, SourcePageError, SourcePages, open_sources
from evals.config.experiment import SourcesConfig
from evals.metrics.metadata import wrong_fields
from retrievers.errors import IndexingError
from retrievers.indexing.markdown import parse_page
from tests.support.indexing import TOPICS, true_chunks
from tests.support.loopback import HEAD, LoopbackServer, Reply, Request, drip, flood, raw_server
from tests.support.observed import make_chunk

PAGE = SourcePage(parse_page(TOPICS, "module-1/topics.md", "/docs"))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("A publisher  sends messages. Anyone\n\nmay listen.", [(15, 16, ("Topics", "Publishers"))]),
        ("Mind the queue.", [(18, 18, ("Topics", "Publishers")), (24, 24, ("Topics", "Subscribers"))]),
        ("# not a heading\nros2 topic list", [(27, 28, ("Topics", "Subscribers"))]),
        ("A subscriber sends messages.", []),
        ("  \n ", []),
    ],
)
def test_occurrences_are_found_white_space_aside(text: str, places: list[tuple[int, int, tuple[str, ...]]]) -> None:
    """Lines are counted by hand in the page."""
    assert [(lines[0], lines[-1], PAGE.section_at(lines[0])) for lines in PAGE.occurrences(text)] == places


def test_facts_come_from_front_matter_path_and_place() -> None:
    facts = PAGE.facts(make_chunk("c", "A publisher sends messages. Anyone may listen."))
    assert facts == {
        "source_url": "/docs/module-1/topics", "title": "Topics", "tags": ("ros2", "messaging"), "sidebar_position": 2,
        "file_path": "module-1/topics.md", "source_document_id": "module-1/topics", "module": "module-1",
        "chapter": "topics", "start_line": 15, "end_line": 16, "heading": "Publishers",
        "section_path": "Topics > Publishers",
    }  # fmt: skip
    assert {"start_line", "heading"}.isdisjoint(PAGE.facts(make_chunk("c", "Mind the gap.")))
    assert PAGE.facts(make_chunk("c", source_url="/old#part"))["source_url"] == "/docs/module-1/topics#part"
    assert PAGE.facts(make_chunk("c", "Nodes exchange messages on topics."))["section_path"] == "Topics"
    assert PAGE.headings == {"Topics", "Publishers", "Subscribers"}
    for claimed, heading in ((18, "Publishers"), (24, "Subscribers"), (9, "Publishers")):  # of several places
        assert PAGE.facts(make_chunk("c", "Mind the queue.", start_line=claimed))["heading"] == heading


def test_chunks_as_they_are_indexed_agree_with_their_page_in_every_fact(sources: SourcePages) -> None:
    for chunk in true_chunks(sources, "plain.md"):
        page = sources.page_of(chunk)
        assert page is not None
        facts = page.facts(chunk)
        assert "start_line" in facts and facts == {name: getattr(chunk, name) for name in facts}


def test_a_page_that_cannot_be_read_is_named_by_file_and_address(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="expected a folder of pages, found nothing"):
        SourcePages.read(tmp_path / "nowhere", "/docs")
    (tmp_path / "good.md").write_text("# Good\n\nText.\n")
    (tmp_path / "bad.md").write_bytes(b"\xff")
    pages = SourcePages.read(tmp_path, "/docs")
    for fields in ({"file_path": "bad.md"}, {"source_url": "/docs/bad#part"}):
        with pytest.raises(SourcePageError, match=r"^bad\.md: not UTF-8"):
            pages.page_of(make_chunk("c", **fields))
    assert [fault.partition(":")[0] for fault in pages.faults] == ["bad.md"]


# Over HTTP

HTML = """<!doctype html><html><head><title>Topics | Handbook</title><style>p {}</style></head><body>
<nav><a>Home</a><p>Everywhere</p></nav>
<main><h1>Topics</h1><p>A topic is a <b>named</b> bus.</p>
<h2>Rates<a href="#rates">\u200b</a></h2><ul><li>Ask with <code>ros2 topic hz</code> &amp; wait.</li></ul>
<h3>Windows</h3><p>Ten seconds.</p></main><script>let x = "A topic is";</script></body></html>"""
SERVICES = "---\ntitle: Services\n---\n\n## Calls\n\nA call waits.\n"
ANSWERS = {
    "topics": Reply(body=HTML.encode(), content_type="text/html; charset=utf-8"),
    "services": Reply(body=SERVICES.encode(), content_type="text/markdown"),
    "matter": Reply(body=b"---\na: [\n---\n", content_type="text/markdown"),
    "broken": Reply(status=500),
    "old": Reply(status=301, headers={"Location": "/docs/topics"}),
    "round": Reply(status=302, headers={"Location": "/docs/round"}),
    "away": Reply(status=302, headers={"Location": "http://elsewhere.invalid/"}),
    "file": Reply(status=302, headers={"Location": "file:///etc/passwd"}),
}


class Site(LoopbackServer):
    """A site of a few pages."""

    def answer(self, request: Request) -> Reply:
        return ANSWERS.get(request.path.removeprefix("/docs/"), Reply(status=404))

    @property
    def asked(self) -> list[str]:
        return [request.path for request in self.requests]


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def pages_at(address: str) -> SourcePages:
    host = address.removeprefix("http://")
    pages = open_sources(SourcesConfig(http=(host,), base_url=f"http://{host}"))
    assert pages is not None
    return pages


def test_a_chunk_is_checked_against_its_page_on_the_site_which_is_fetched_once(site: Site) -> None:
    pages = pages_at(site.url)
    required = ("source_url", "title", "heading", "section_path", "tags", "start_line")
    known = {"source_url": "/docs/topics", "heading": "Windows", "section_path": "Topics > Rates > Windows"}
    assert wrong_fields(make_chunk("c", "Ten seconds.", title="Topics", **known), required, pages) == ([], 4)
    wrong = wrong_fields(make_chunk("c", "Ten seconds.", title="Topic", **known), required, pages)[0]
    assert wrong == ["title: expected 'Topics' as in the page, got 'Topic'"]
    services = pages.page_of(make_chunk("c", source_url=f"{site.url}/docs/services"))
    assert services is not None and services.page.title == "Services"
    assert site.asked == ["/docs/topics", "/docs/services"]


@pytest.mark.parametrize("name", ["old", "away", "file", "none"])
def test_only_the_named_hosts_are_ever_asked(site: Site, name: str) -> None:
    pages = pages_at(site.url)
    page = pages.page_of(make_chunk("c", source_url=f"/docs/{name}"))
    assert (page is not None) == (name == "old")
    assert site.asked == [f"/docs/{name}", *(["/docs/topics"] if name == "old" else [])]
    for url in ("", "http://[x", "//[", "mailto:me@x.org", "http://h\x00st/a", "http://other.invalid/a"):
        assert pages.page_of(make_chunk("c", source_url=url)) is None
    assert len(site.asked) == 1 + (name == "old")


def unread(pages: SourcePages, url: str) -> str:
    with pytest.raises(SourcePageError) as caught:
        pages.page_of(make_chunk("c", source_url=url))
    return str(caught.value)


def test_a_page_that_fails_is_an_error_and_the_rest_goes_on(site: Site) -> None:
    pages = pages_at(site.url)
    said = [unread(pages, f"/docs/{name}") for name in ("broken", "round", "matter", "broken")]
    assert said[0] == said[3] == "/docs/broken: answered 500 Internal Server Error"
    assert said[1] == "/docs/round: Exceeded maximum allowed redirects."
    assert "the front matter is not valid YAML" in said[2]
    assert (list(pages.faults), site.asked.count("/docs/broken")) == (said[:3], 1)
    assert pages.page_of(make_chunk("c", source_url="/docs/topics")) is not None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: drip(HEAD + b"\r\n"), "the answer does not end"),
        (lambda _: flood(HEAD + b"\r\n"), "an answer of more than 1,000 bytes"),
        (lambda _: [b"hello"], "/a: "),
    ],
)
def test_a_page_ends_in_time_and_size(
    answer: Callable[[bytes], Iterable[bytes]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_pages, "PAGE_S", 1.0)
    monkeypatch.setattr(source_pages, "MOST_BYTES", 1_000)
    with raw_server(answer) as host:
        assert said in unread(pages_at(host), "/a")
