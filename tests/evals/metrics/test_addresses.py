"""The format of addresses, also of collections that other chunkers made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.collect.observations import Failure, Unscored
from evals.golden.source_pages import SourcePage, SourcePages
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric
from evals.metrics.metadata import address_fault
from evals.metrics.results import NO_CHUNKS
from retrievers.indexing.markdown import parse_page
from tests.support.observed import make_chunk, make_context, observe, results
from tests.support.pages import read_pages
from tests.support.scored import scored

METRIC = METRICS["metadata/url_format"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize(
    "url",
    [
        "/docs/topics",
        "/",
        "https://example.com",
        "http://localhost:3000/docs/a%20b?version=2",
        "s3://bucket/a.md",
        "/docs/topics#publishers",
        "https://[::1]:80/a",
    ],
)
def test_well_formed(url: str) -> None:
    assert address_fault(make_chunk("a", source_url=url), None) == ""


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("docs/topics", "is neither absolute nor site-relative"),
        ("./topics.md", "is neither absolute nor site-relative"),
        ("//cdn.example.com/a", "is neither absolute nor site-relative"),
        ("file:///home/me/a.md", "is neither absolute nor site-relative"),
        ("https:///a", "is neither absolute nor site-relative"),
        ("#publishers", "is neither absolute nor site-relative"),
        ("/docs/a b", "holds a blank"),
        ("/docs/a\n", "holds a blank"),
        ("/docs/a\u00a0b", "holds a blank"),
        ("/docs/topics#", "has an empty fragment"),
        ("https://[::1/a", "is no address (Invalid IPv6 URL)"),
    ],
)
def test_what_is_not(url: str, fault: str) -> None:
    assert address_fault(make_chunk("a", source_url=url), None) == f"{url!r} {fault}"


@given(st.text() | st.builds("https://{}#{}".format, st.text(), st.text()))
def test_any_text_is_an_address_or_has_a_fault_that_can_be_read(url: str) -> None:
    sources = SourcePages([SourcePage(parse_page("# Topics\n\nA bus.", "topics.md"))])
    assert len(address_fault(make_chunk("a", source_url=url), sources)) < 500


def test_a_long_address_is_shortened() -> None:
    assert len(address_fault(make_chunk("a", source_url="x" * 10_000), None)) < 200


def test_none_is_a_fault() -> None:
    assert address_fault(make_chunk("a", source_url=None), None) == "chunk 'a' has no address"


def test_a_fragment_must_be_a_heading_of_its_page_where_the_page_is_known(sources: SourcePages) -> None:
    def fault(url: str) -> str:
        return address_fault(make_chunk("a", source_url=url), sources)

    assert fault("/docs/module-1/topics#publishers") == ""
    assert fault("/docs/module-1/topics#gone").endswith("has a fragment that its page lacks")
    assert fault("/docs/elsewhere#gone") == ""


def scores(*urls: str | None, sources: SourcePages | None = None) -> list[object]:
    assert isinstance(METRIC, QueryMetric)
    chunks = [make_chunk(f"c{number}", source_url=url) for number, url in enumerate(urls)]
    return list(scored(METRIC, [observe(results(*chunks))], make_context(sources=sources)))


def test_the_metric_is_the_share_of_the_returned_chunks() -> None:
    assert scores("/a", "/b", "c", None) == [0.5]
    assert scores() == [NO_CHUNKS]
    assert scores(None, None) == [Unscored(reason="no chunk found carries source_url")]


def test_names_of_files_are_no_addresses_and_no_fault_unless_other_chunks_have_addresses() -> None:
    unscored = Unscored(reason="the chunks carry names of files in place of addresses")
    assert scores("data/state_of_the_union.txt", r"C:\docs\my notes.md", "paper.pdf", None) == [unscored]
    assert scores("data/state_of_the_union.txt", "/a") == [0.5]
    assert scores("docs/topics") == scores("//cdn.example.com/a.md") == scores("file:///home/me/a.md") == [0.0]


def test_an_unreadable_page_fails_only_what_must_be_looked_up_in_it() -> None:
    broken = SourcePages([], {"a.md": "not UTF-8"})
    assert scores("/docs/a", sources=broken) == [1.0]
    assert scores("/docs/a#b", sources=broken) == [
        Failure(type="SourcePageError", message="source page a.md: not UTF-8")
    ]
