"""Which chunks a golden query makes relevant, in a listed collection and among what came back; and source pages."""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from evals.cases import pages as source_pages
from evals.cases.case import Case
from evals.cases.pages import SourcePage, SourcePageError, SourcePages, open_sources
from evals.cases.reading import golden_set
from evals.cases.relevance import (
    UNLISTED,
    Relevance,
    evidence_urls,
    known_pages,
    labelled_ids,
    lacking,
    normalise,
    resolve,
    resolve_returned,
    share_held,
)
from evals.config.experiment import SourcesConfig
from evals.errors import DatasetError, ExperimentError
from evals.metrics.metadata import wrong_fields
from retrievers.config import IndexSettings
from retrievers.errors import IndexingError
from retrievers.indexing.markdown import parse_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from tests.support.command import refusal
from tests.support.indexing import TOPICS
from tests.support.loopback import HEAD, LoopbackServer, Reply, Request, drip, raw_server
from tests.support.observed import make_chunk

PAGE = "/docs/a"
QUOTE = "the base frame is fixed to the torso of the robot"  # 49 characters
LETTERS = "0123456789abcdefghij"
LONG = "".join(chr(0x100 + number) for number in range(60))
Find = Callable[..., Relevance]


def chunk(name: str, text: str = "text", *, section: str | None = "Frames", **fields: Any) -> Chunk:
    heading = section.rpartition(" > ")[2] if section else None
    values = {"source_url": PAGE, "section_path": section, "heading": heading, **fields}
    return Chunk(chunk_id=name, point_id=name, text=text, **values)


def case(*evidence: dict[str, Any], name: str = "q", **values: Any) -> Case:
    return Case.model_validate({"id": name, "query": "q", "evidence": list(evidence), **values})


def passage(quote: str | None = QUOTE, heading: str | None = None, grade: int = 1, page: str = PAGE) -> dict[str, Any]:
    return {"source_url": page, "quote": quote, "heading": heading, "grade": grade}


def listed(one: Case, *chunks: Chunk) -> Relevance:
    return replace(resolve([one], chunks, {})["q"], changed=())


def returned(one: Case, *chunks: Chunk) -> Relevance:
    return replace(resolve_returned([one], {"q": chunks})["q"], incomplete="")


both = pytest.mark.parametrize("find", [listed, returned])
NESTED = [chunk(n, section=s) for n, s in zip("abc", ("tf2 > Frames", "tf2 > Frames > Optical", "tf2"), strict=True)]
MERGED = chunk("m", chunk_headings=("Intro", "Setup"), section="Intro")


@both
@pytest.mark.parametrize(
    ("evidence", "chunks", "expected"),
    [
        (passage(), [chunk("a", f"Now: {QUOTE}."), chunk("b", "Something else.")], "a"),
        (passage(), [chunk("a", QUOTE.replace(" ", " \n\t"))], "a"),
        (passage(f"\n{QUOTE.replace(' ', '  ')}"), [chunk("a", QUOTE)], "a"),
        # Every chunk that holds half in one stretch.
        (passage(LONG),
         [chunk("a", "x " + LONG[:30]), chunk("b", LONG[30:]), chunk("c", LONG[:29] + " " + LONG[31:])], "ab"),
        # Half of a short quote is found by chance, too.
        (passage("up to 1,000 rpm."),
         [chunk("a", "It turns at up to 1,000 rpm."), chunk("b", "It turns at up to 2,000 rpm.")], "a"),
        (passage(), [chunk("a", QUOTE), chunk("b", QUOTE[:29]), chunk("c", QUOTE[:30])], "ac"),
        # A text that resembles the passage is no part of it: there what is held ends within the chunk.
        (passage(), [chunk("a", QUOTE), chunk("b", QUOTE.replace("torso", "waist"))], "a"),
        (passage(LONG),
         [chunk("a", "x " + LONG[:35]), chunk("b", f"x {LONG[10:45]} x"), chunk("c", LONG[10:45])], "ac"),
        (passage(), [chunk("a", QUOTE.replace("robot", "arm."))], "a"),
        # The heading decides between chunks that both hold it, but a wrong one hides none.
        (passage(heading="Joints"), [chunk("a", QUOTE), chunk("b", QUOTE, section="Joints")], "b"),
        (passage(), [chunk("a", QUOTE), chunk("b", QUOTE, section="Joints")], "ab"),
        (passage(heading="Joints"), [chunk("a", QUOTE), chunk("b", QUOTE[:20], section="Joints")], "a"),
        (passage(heading="Nowhere"), [chunk("a", QUOTE)], "a"),
        # A heading covers its sub-headings, and those within a merged chunk; a page is one piece of evidence.
        (passage(None, "Frames"), NESTED, "ab"),
        (passage(None, "Optical"), NESTED, "b"),
        (passage(None, "tf2"), NESTED, "abc"),
        (passage(None, "Setup"), [MERGED, chunk("o", section="Other")], "m"),
        (passage(None), [*NESTED, chunk("z", source_url="/docs/z")], "abc"),
        ({"quote": QUOTE}, [chunk("a", QUOTE, source_url=None), chunk("b", QUOTE, source_url="/docs/b")], "ab"),
    ],
)  # fmt: skip
def test_what_evidence_makes_relevant(find: Find, evidence: dict[str, Any], chunks: list[Chunk], expected: str) -> None:
    grades = dict.fromkeys(expected, evidence.get("grade", 1))
    assert find(case(evidence), *chunks) == Relevance(grades=grades, items=(frozenset(expected),))


@both
def test_of_a_passage_named_twice_the_highest_grade_counts_and_what_is_irrelevant_is_kept_apart(find: Find) -> None:
    graded = passage(grade=1), passage(grade=3), passage("and more of it", grade=0)
    one = case(*graded, relevant_ids={"x": 2, "z": 0, "a": -1})
    found = find(one, chunk("a", QUOTE), chunk("b", "and more of it"), chunk("x"))
    items = (frozenset("x"), frozenset("a"))
    assert found == Relevance(grades={"x": 2, "a": 3}, items=items, irrelevant=frozenset("bz"))
    assert find(case(in_scope=False), chunk("a", QUOTE)) == Relevance()


def test_where_no_chunk_holds_half_the_one_that_holds_most_is_relevant_in_a_listed_collection_alone() -> None:
    quote = "a" * 40 + "b" * 45 + "c" * 40
    chunks = [chunk("1", "a" * 40), chunk("2", "b" * 45), chunk("3", "c" * 40)]
    assert set(listed(case(passage(quote)), *chunks).grades) == {"2"}
    assert set(listed(case(passage(quote)), chunks[2], chunks[0]).grades) == {"1"}, "of equal ones the lower id"
    found = resolve_returned([case(passage(quote))], {"q": chunks})["q"]
    assert found == Relevance(items=(frozenset(),), incomplete=UNLISTED)
    for letters, others, is_held in ((30, 40, True), (29, 40, False), (12, 10, True), (9, 11, False), (30, 280, False)):
        one, held = case(passage("a" * letters + "b" * others)), chunk("1", "a" * letters)
        with nullcontext() if is_held else pytest.raises(DatasetError, match="holds half of the quote"):
            assert set(listed(one, held).grades) == {"1"}, "of 30 characters, and a tenth of the quote"
    chunks = [chunk(name, source_document_id=name[0]) for name in ("a1", "a2", "b1")]
    whole = listed(case(relevant_ids={"a": 2, "b1": 1}), *chunks)
    assert whole.grades == {"a1": 2, "a2": 2, "b1": 1}, "the id of a document stands for all of its chunks"


def test_a_missing_chunk_is_relevant_and_noted_and_over_5_percent_are_refused() -> None:
    labelled = [case(name=f"q{letter}", relevant_ids={letter: 1, "z": 0}) for letter in LETTERS]
    found = resolve(labelled, [chunk(letter) for letter in LETTERS[1:]], {})
    only = frozenset("0")
    assert found["q0"] == Relevance(grades={"0": 1}, items=(only,), missing=only, irrelevant=frozenset("z"))
    note = "the collection lacks 1 of 20 relevant chunks, which nothing can retrieve: '0' (case q0)"
    assert [*lacking(found)] == [note] and not [*lacking({})]
    said = (
        r"\n  relevant_ids: the collection lacks 2 of 20 relevant chunks, .*'0' \(case q0\).* at most 5% may be missing"
    )
    with pytest.raises(DatasetError, match=said):
        resolve(labelled, [chunk(letter) for letter in LETTERS[2:]], {"q0": "g:1"})


def test_everything_that_resolves_to_nothing_is_listed_at_once_with_its_place(snapshot: SnapshotAssertion) -> None:
    cases = [
        case(passage(page="/docs/gone"), passage(), name="a"),
        case(passage(None, "Nowhere"), name="b"),
        case(passage("it is said nowhere on this page"), {"quote": "nor anywhere else at all"}, name="c"),
        case(name="d", relevant_ids={"ghost": 1, "a": 1}),
    ]
    with pytest.raises(DatasetError) as caught:
        resolve(cases, [chunk("a", QUOTE)], {"a": "g:1", "b": "g:2", "c": "g:3"})
    assert list(caught.value.faults) == snapshot
    assert evidence_urls(cases) == ["/docs/a", "/docs/gone"]
    assert labelled_ids(cases) == ["a", "ghost"]
    assert "no chunk of the collection says which page it is from" in known_pages(["/b"], [chunk("c", source_url=None)])
    said = known_pages(["/docs/motor"], [chunk("c", source_url=page) for page in ("/1", "/2", "/3", "/docs/motors")])
    assert said.startswith("the collection has 4 pages, '/1', '/2', '/3', …; did you mean '/docs/motors'?")


@given(st.text("ab c", min_size=1, max_size=16), st.text("ab c", max_size=40), st.floats(0, 20))
def test_the_share_held_is_that_of_the_longest_common_stretch_or_none(quote: str, text: str, least: float) -> None:
    stretches = (quote[i:j] for i in range(len(quote)) for j in range(i + 1, len(quote) + 1))
    longest = max((len(stretch) for stretch in stretches if stretch in text), default=0)
    assert share_held(quote, text, 0.0) == longest / len(quote)
    share = share_held(quote, text, least)
    assert share == longest / len(quote) or (share == 0 and longest < least)
    assert normalise(normalise(text)) == normalise(text) == " ".join(text.split())


@pytest.mark.parametrize("tokens", [24, 256])
def test_a_changed_word_is_noticed_in_chunks_of_any_size(handbook: Path, tokens: int) -> None:
    chunks = [*read_corpus(handbook / "docs", "/docs").cut(IndexSettings().over({"max_tokens": tokens}))]
    cases, rng, noticed = golden_set(handbook / "golden.jsonl").cases, random.Random(tokens), 0
    assert not [*lacking(resolve(cases, chunks, {}))]
    for item in rng.sample([item for one in cases for item in one.evidence if item.quote], 50):
        words = str(item.quote).split()
        words[rng.randrange(len(words))] = "zq9"
        with suppress(DatasetError):  # of some quotes too little is left
            reworded = case({"source_url": item.source_url, "quote": " ".join(words)})
            assert resolve([reworded], chunks, {})["q"].changed == (" ".join(words),)
            noticed += 1
    assert noticed > 25


@pytest.mark.parametrize(
    ("evidence", "chunks", "said"),
    [
        (passage(), [chunk("a", QUOTE, source_url=None)], "metadata.map {source_url: KEY}"),
        (passage(None, "Frames"), [chunk("a", QUOTE, section=None)], "metadata.map {heading: KEY}"),
    ],
)
def test_chunks_lack_no_page_or_heading_that_evidence_needs(evidence: dict[str, Any], chunks: Any, said: str) -> None:
    with pytest.raises(ExperimentError, match=re.escape(said)):
        resolve_returned([case(evidence)], {"q": chunks})
    assert returned(case(relevant_ids={"a": 1}), *chunks).grades == {"a": 1}, "ids need neither"


# Source pages of a folder and of a site: where a text stands, what the page says of it, and whom is asked

SOURCE = SourcePage(parse_page(TOPICS, "module-1/topics.md", "/docs"))


def test_facts_come_from_front_matter_path_and_place() -> None:
    facts = SOURCE.facts(make_chunk("c", "A publisher sends messages. Anyone may listen."))
    assert facts == {
        "source_url": "/docs/module-1/topics", "title": "Topics", "tags": ("ros2", "messaging"), "sidebar_position": 2,
        "file_path": "module-1/topics.md", "source_document_id": "module-1/topics", "module": "module-1",
        "chapter": "topics", "start_line": 15, "end_line": 16, "heading": "Publishers",
        "section_path": "Topics > Publishers",
    }  # fmt: skip
    assert {"start_line", "heading"}.isdisjoint(SOURCE.facts(make_chunk("c", "Mind the gap.")))
    assert SOURCE.facts(make_chunk("c", source_url="/old#part"))["source_url"] == "/docs/module-1/topics#part"
    assert SOURCE.facts(make_chunk("c", "Nodes exchange messages on topics."))["section_path"] == "Topics"
    assert SOURCE.headings == {"Topics", "Publishers", "Subscribers"}
    [in_code] = SOURCE.occurrences("# not a heading\nros2 topic list")
    assert (in_code[0], in_code[-1], SOURCE.section_at(27)["section_path"]) == (27, 28, "Topics > Subscribers")
    for claimed, heading in ((18, "Publishers"), (24, "Subscribers"), (9, "Publishers")):  # of several places
        assert SOURCE.facts(make_chunk("c", "Mind the queue.", start_line=claimed))["heading"] == heading
    by_section = make_chunk("c", "Mind the queue.", section_path="Topics > Subscribers")
    assert SOURCE.facts(by_section)["start_line"] == 24, "a chunk of another splitter, without lines"


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
    assert (pages.page_of(make_chunk("c", source_url=f"/docs/{name}")) is not None) == (name == "old")
    assert site.asked == [f"/docs/{name}", *(["/docs/topics"] if name == "old" else [])]
    for url in ("", "http://[x", "//[", "mailto:me@x.org", "http://h\x00st/a", "http://other.invalid/a"):
        assert pages.page_of(make_chunk("c", source_url=url)) is None
    assert len(site.asked) == 1 + (name == "old")


def unread(pages: SourcePages, url: str) -> str:
    return refusal(SourcePageError, pages.page_of, make_chunk("c", source_url=url))


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
        (lambda _: chain([HEAD + b"\r\n"], repeat(b" " * 1_000_000, 10_000)), "an answer of more than 1,000 bytes"),
        (lambda _: [b"hello"], "/a: "),
    ],
)
def test_a_page_ends_in_time_and_size(answer: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_pages, "PAGE_S", 1.0)
    monkeypatch.setattr(source_pages, "MOST_BYTES", 1_000)
    with raw_server(answer) as host:
        assert said in unread(pages_at(host), "/a")
