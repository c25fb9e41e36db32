"""The page as text: whole, self-contained, and nothing of what it quotes is taken for HTML."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from evals.grid.measure import Measured
from evals.judge.budget import Usage
from evals.judge.verdicts import ChunkVerdict, Claim, Judging
from evals.report.html import render_page
from evals.report.html.render import embedded
from evals.report.model import Report
from retrievers.text.printable import printable
from tests.support.results import RIGHT, config, facts, hit, observation, report, report_of, result, verdict

VOID = {"meta", "input", "wbr", "br", "image"}
OPEN_ENDED = {"td", "th", "li", "option", "p"}
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&\x1b[2J\u202e"
HALF = HOSTILE + "\ud800"


class Tags(HTMLParser):
    """Elements that are opened and closed, and everything that an attribute could load."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.seen: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.unmatched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.loads += [v or "" for n, v in attrs if n in ("src", "href", "xlink:href", "action", "data")]
        self.handlers += [n for n, _ in attrs if n.startswith("on")]
        if tag not in VOID | OPEN_ENDED:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID | OPEN_ENDED:
            self.opened.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID | OPEN_ENDED:
            return
        if not self.opened or self.opened.pop() != tag:
            self.unmatched.append(tag)


def tags(page: str) -> Tags:
    found = Tags()
    found.feed(page)
    return found


def hostile() -> Report:
    """Everything that users and models write is an attack."""
    asked = observation("evil", [hit(1, 0.9, "a", heading=HALF, text=HALF)], 1, {"b": 1}, query=HOSTILE)
    base = result()
    judging = Judging(
        model="m",
        verdicts={("evil", "a"): ChunkVerdict(verdict=0, reason=HALF)},
        scores={},
        claims={("evil", ("a",)): (Claim(statement=HOSTILE, attributed=0, reason=HOSTILE),)},
        usage=Usage(),
    )
    made = replace(
        base,
        config=config(HOSTILE, mode="semantic"),
        notes=(HOSTILE,),
        observed=replace(base.observed, observations=(asked,)),
        validation=report_of([verdict("evil", "FAILURE", HOSTILE)]),
        context=replace(base.context, judging=judging),
    )
    return report(made, facts(dataset=HOSTILE))


@pytest.fixture(scope="module")
def grid_page(grid: Measured) -> str:
    return render_page(report(grid))


def test_every_element_is_closed_and_nothing_is_loaded(grid_page: str) -> None:
    for page in (render_page(report()), grid_page):
        found = tags(page)
        assert (found.unmatched, found.opened, found.handlers) == ([], [], [])
        assert set(found.loads) <= {"#"}  # a link within the page


def test_what_is_quoted_is_text() -> None:
    page = render_page(hostile())
    found = tags(page)
    assert found.seen.count("script") == 2
    assert "img" not in found.seen and found.handlers == []
    assert page.count("&lt;script&gt;alert") >= 9
    assert printable(page) == page and page.count(r"\x1b[2J\u202e") >= 9


def test_what_figures_quote_cannot_end_their_data() -> None:
    name = "</script><!--<script>"
    data = embedded({"moved": [[name, 0.5]]})
    assert "<" not in data and json.loads(data)["moved"] == [[name, 0.5]]


def test_the_policy_lets_its_own_script_run_and_nothing_be_loaded(grid_page: str) -> None:
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', grid_page)
    script = grid_page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", f"script-src 'sha256-{digest}'",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip


def test_ids_of_all_figures_are_different(grid_page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', grid_page)
    assert len(ids) == len(set(ids))


def test_a_judges_verdicts_stand_beside_the_chunks() -> None:
    judging = Judging(
        model="m",
        verdicts={("right", "a"): ChunkVerdict(verdict=1, reason="it says so")},
        scores={},
        claims={("right", RIGHT.ranked_ids): (Claim(statement="A thing.", attributed=1, reason="read it"),)},
    )
    page = render_page(report(result(judging=judging)))
    assert "Judge: <b>useful</b>. it says so" in page
    assert '<b class="good">supported</b> A thing.' in page
