"""The page as text: whole, self-contained, nothing that it quotes taken for HTML; and the columns of its figures."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from evals.grid.decision import NO_OUT_OF_SCOPE
from evals.grid.measure import Measured
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.report.html import render_page
from evals.report.html.render import embedded, figure_data
from evals.report.model import Report
from retrievers.text.shown import printable
from tests.support.grid_world import with_swept
from tests.support.judged import judging
from tests.support.results import (
    UNLISTED,
    config,
    facts,
    hit,
    observation,
    report,
    report_of,
    result,
    verdict,
    without_scores,
)

LEFT_OPEN = {"meta", "input", "wbr", "br", "image", "td", "th", "li", "option", "p"}
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&\x1b[2J\u202e"
HALF = HOSTILE + "\ud800"


class Tags(HTMLParser):
    """Elements that are opened and closed, and everything that an attribute could load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.opened, self.seen, self.loads, self.handlers, self.unmatched = (list[str]() for _ in range(5))
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.loads += [v or "" for n, v in attrs if n in ("src", "href", "xlink:href", "action", "data")]
        self.handlers += [n for n, _ in attrs if n.startswith("on")]
        if tag not in LEFT_OPEN:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in LEFT_OPEN and (not self.opened or self.opened.pop() != tag):
            self.unmatched.append(tag)


def hostile() -> Report:
    """Everything that users and models write is an attack."""
    asked = observation("evil", [hit(1, 0.9, "a", heading=HALF, text=HALF)], 1, {"b": 1}, query=HOSTILE)
    base = result(
        judging=judging(
            verdicts={("evil", "a"): ChunkVerdict(verdict=0, reason=HALF)},
            claims={("evil", ("a",)): (Claim(statement=HOSTILE, attributed=0, reason=HOSTILE),)},
        )
    )
    made = replace(
        base,
        config=config(HOSTILE, mode="semantic"),
        notes=(HOSTILE,),
        observed=replace(base.observed, observations=(asked,)),
        validation=report_of([verdict("FAILURE", HOSTILE)]),
    )
    return report(made, facts(dataset=HOSTILE))


@pytest.fixture(scope="module")
def grid_page(grid: Measured) -> str:
    return render_page(report(grid))


def test_every_element_is_closed_and_nothing_is_loaded(grid_page: str) -> None:
    for page in (render_page(report()), grid_page):
        found = Tags(page)
        assert (found.unmatched, found.opened, found.handlers) == ([], [], [])
        assert set(found.loads) <= {"#"}  # a link within the page
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))


def test_what_is_quoted_is_text() -> None:
    page = render_page(hostile())
    found = Tags(page)
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


def test_what_is_known_query_by_query_is_zipped_and_is_missed_aloud(grid: Measured) -> None:
    made = report(replace(grid, notes=(NO_OUT_OF_SCOPE,)))
    page, told = render_page(made), figure_data(made)["grid"]["explored"]
    data = json.loads(page.partition('id="figures-data">')[2].partition("</script>")[0])
    assert json.loads(zlib.decompress(base64.b64decode(data["grid"]["explored"]))) == json.loads(embedded(told))
    assert made.grid is not None
    without = render_page(made.model_copy(update={"grid": made.grid.model_copy(update={"results": None})}))
    left_out, marks = "what changes query by query with another cell, are left out", "≤: the cells of the table"
    assert [text in page for text in (left_out, marks)] == [False, True]
    assert [text in without for text in (left_out, marks)] == [True, False]
    assert page.casefold().count(NO_OUT_OF_SCOPE.casefold()) == 1
    assert figure_data(report(with_swept(grid, choice=None)))["grid"] is None


# Figures; what they draw of it is tested in a browser


def drawn(made: Measured, **changes: Any) -> Any:
    """Return the columns of the cells of a grid, with another choice or ranking."""
    return figure_data(report(with_swept(made, **changes)))["grid"]


def test_best_scores_are_those_before_the_threshold_and_ranks_those_of_labelled_queries() -> None:
    """The threshold is drawn on its own scale alone."""
    made = report()
    found = figure_data(made)["scores"]
    scores = {"scale": "cosine similarity", "in_scope": [0.9, 0.29], "out_of_scope": [0.8]}
    assert found == {**scores, "threshold": 0.3}
    final = config(mode="hybrid", fusion="weighted", threshold=0.3, threshold_on="final")
    assert figure_data(report(result(config=final)))["scores"] == {**scores, "threshold": None}
    assert figure_data(report(without_scores(), UNLISTED))["scores"] is None
    assert figure_data(made)["ranks"] == {"ranks": [1, 5], "top_k": 3, "depth": 5}
    unlabelled = [row.model_copy(update={"relevant": {}}) for row in made.queries]
    assert figure_data(made.model_copy(update={"queries": unlabelled}))["ranks"] is None
