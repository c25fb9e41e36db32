"""What is shown of six stored reports, on every surface, held by snapshots: wording stands there, and nowhere else.

`pytest --snapshot-update` takes what is shown now for right. What must hold of any wording is tested below by itself.
"""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
import xmlschema
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from evals.comparison.comparing import compare
from evals.comparison.records import Run
from evals.comparison.sections import render as render_comparison
from evals.grid.decision import NO_OUT_OF_SCOPE
from evals.judge.trust import Differing
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.report.grid_sections import best_cells, columns
from evals.report.html import render_page
from evals.report.html.render import embedded, figure_data
from evals.report.parsing import parse
from evals.report.sections import disagreements
from evals.report.terminal import description, junit, render
from retrievers.text.shown import json_text, printable
from tests.support.judged import judging
from tests.support.results import FACTS, config, hit, observation, report, result
from tests.support.stored_reports import NAMES, stored

JUNIT = xmlschema.XMLSchema(Path(__file__).parents[2] / "support" / "junit.xsd")
SHOWN = re.compile(r"<(style|script).*?</\1>", re.DOTALL)
REPORTS = pytest.mark.parametrize("name", NAMES)


@pytest.mark.parametrize(("name", "width"), [*((name, 80) for name in NAMES), ("grid", 120)])
def test_on_a_terminal(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    assert render(stored(name), width=width, color=False) == snapshot


def test_differences_from_the_labels_that_a_terminal_leaves_out_are_told() -> None:
    judged: Any = stored("judged")
    differing = (Differing(query_id="q", chunk_id="c", label=0, reason="It says so."),) * 5
    many = judged.model_copy(update={"judge": judged.judge.model_copy(update={"disagreements": differing})})
    assert "; the first 3, all with --verbose" in " ".join(render(many, width=120, color=False).split())
    section = disagreements(many)
    assert section is not None and len(section.rows) == 5 and "first 3" not in str(section.title)


def grid_on_a_terminal(width: int, level: int, **changes: Any) -> str:
    made: Any = stored("grid")
    levels = list(made.grid.decision.levels)
    levels[level] = replace(levels[level], **changes)
    choice = replace(made.grid.choice, recommended=made.grid.choice.standings[3])
    changed = {"decision": replace(made.grid.decision, levels=tuple(levels)), "choice": choice}
    return render(made.model_copy(update={"grid": made.grid.model_copy(update=changed)}), width=width, color=False)


def test_the_cell_to_take_stands_in_80_columns_whatever_retrieved_it() -> None:
    shown = grid_on_a_terminal(80, 1, cell=50).splitlines()
    assert [line.split()[2] for line in shown[1:3]] == ["take", "t0"] and max(map(len, shown[:7])) <= 80
    assert any(line.startswith("at most 50%    k1 t0 ") for line in shown)
    assert " ".join(shown).count("Retrieved by semantic (any, at most 25%, at most 10%, ★ recommended) · hybrid") == 1


@pytest.mark.parametrize("width", [60, 80])
def test_a_level_without_a_cell_and_a_cheaper_cell_are_told_below_the_table_and_nothing_is_cut(width: int) -> None:
    shown = grid_on_a_terminal(width, -1, cell=None, figures=())
    assert "…" not in re.sub(r"\d…\d", "", shown.partition("\nGrid of")[0])
    told = " ".join(shown.split())
    assert "at most 10% none" in told
    assert "at most 10%: none, as every cell that answers in scope, and may be chosen, wrongly answers at least" in told
    assert ": it is cheaper, and at most 0.02 below the best;" in told


def test_of_a_cell_whose_scores_failed_the_worse_bound_is_shown() -> None:
    """As many failed as were scored: with these at the worse end half of the mean is left, and what would be added."""
    made: Any = stored("grid").grid
    name = columns(made)[0]
    failed = {name: made.metrics[name].model_copy(update={"n_failed": made.metrics[name].n})}
    halved = made.model_copy(update={"metrics": made.metrics | failed})
    at = [column.name for column in best_cells(made, made.choice, 1).columns].index(name)
    before, after = (float(best_cells(one, made.choice, 1).rows[0][at].text) for one in (made, halved))
    assert before > 0 and after == pytest.approx(before / 2, abs=1e-3)


@pytest.mark.parametrize("name", ["grid", "judged"])
def test_in_full(name: str, snapshot: SnapshotAssertion) -> None:
    assert render(stored(name), width=100, color=False, everything=True) == snapshot


@pytest.mark.parametrize("name", ["run", "grid", "sampled"])
def test_in_markdown(name: str, snapshot: SnapshotAssertion) -> None:
    assert description(stored(name)) == snapshot


@pytest.mark.parametrize("name", ["run", "grid", "judged"])
def test_as_a_page(name: str, snapshot: SnapshotAssertion) -> None:
    text = unescape(re.sub(r"\s*<[^>]*>\s*", "\n", SHOWN.sub("", render_page(stored(name)).replace("<wbr>", ""))))
    assert "\n".join(filter(None, (line.strip() for line in text.splitlines()))) == snapshot


@REPORTS
def test_for_a_ci_system(name: str, snapshot: SnapshotAssertion) -> None:
    made = stored(name)
    JUNIT.validate(text := junit(made))
    assert text == snapshot
    [criteria] = fromstring(text).findall("testsuite")
    unmet = sum(not gate.passed for gate in made.criteria) + bool(made.incomplete)
    assert (criteria.get("tests"), criteria.get("failures")) == (str(len(made.criteria) + 1), str(unmet))
    assert (len(criteria.findall("testcase")), len(criteria.findall("testcase/failure"))) == (
        len(made.criteria) + 1,
        unmet,
    )


@REPORTS
def test_compared_at_80_columns(name: str, snapshot: SnapshotAssertion) -> None:
    before = stored(name)
    scores = {metric: [0.0, *column[1:]] for metric, column in before.scores.items() if isinstance(column[0], float)}
    config = before.config | {"retriever": before.config["retriever"] | {"top_k": 9}}
    changed = {"scores": before.scores | scores, "config": config, "run": "after"}
    after = parse(json_text(before.model_copy(update=changed).plain()), "after")
    compared = compare(Run.of(before), [Run.of(after)])
    shown = render_comparison(compared, width=80, color=False, queries=2)
    assert shown == snapshot
    assert max(map(len, shown.splitlines())) <= 80 or name == "grid"  # the names of axes are long


# What holds of any wording


@REPORTS
def test_text_from_outside_steers_nothing_and_no_line_is_too_wide(name: str) -> None:
    shown = render(stored(name), width=80, color=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    command = re.compile(r"^Next: .*$", re.MULTILINE)
    assert max(map(len, command.sub("", shown).splitlines())) <= 80
    assert "<script>alert" not in render_page(stored(name)) and "\x1b" not in junit(stored(name))
    assert re.sub(r"\x1b\[[\d;]*m|\x1b\]8;.*?\x1b\\", "", render(stored(name), width=80, color=True)) == shown
    first = render(stored(name), width=120, color=False).partition("\nDetails")[0]
    assert len(first.splitlines()) <= 17 or name == "grid"


@given(st.text(min_size=1, max_size=40).map(lambda text: (text, None)))
@example(("<b> & \"quotes\" 'too' ]]>", "<b> & \"quotes\" 'too' ]]>"))
@example(("\x1b[31mred\x00", r"\x1b[31mred\x00"))
@example(("half \ud800 pair", r"half \ud800 pair"))
@example(("\ufffe and \uffff", r"\ufffe and \uffff"))
@example(("ünïcode 🤖 日本", "ünïcode 🤖 日本"))
@example(("two\nlines\tand a tab", "two\nlines\tand a tab"))
def test_whatever_a_reason_holds_the_junit_file_is_valid_utf_8_xml(case: tuple[str, str | None]) -> None:
    reason, shown = case
    text = junit(report().model_copy(update={"incomplete": reason}))
    JUNIT.validate(text)
    found = fromstring(text.encode("utf-8")).find("testsuite/testcase/failure")
    assert found is not None and (shown is None or found.get("message") == shown)


LEFT_OPEN = {"meta", "input", "wbr", "br", "image", "td", "th", "li", "option", "p"}
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&\x1b[2J\u202e"
HALF = HOSTILE + "\ud800"


class Tags(HTMLParser):
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


def test_what_is_quoted_is_text() -> None:
    asked = observation("evil", [hit(1, 0.9, "a", heading=HALF, text=HALF)], 1, {"b": 1}, query=HOSTILE)
    said = judging(
        verdicts={("evil", "a"): ChunkVerdict(verdict=0, reason=HALF)},
        claims={("evil", ("a",)): (Claim(statement=HOSTILE, attributed=0, reason=HOSTILE),)},
    )
    made = result(asked, config=config(HOSTILE, mode="semantic"), notes=(HOSTILE,), judging=said)
    wrong = replace(made.validation, outcome=("FAILURE",), reasons=((HOSTILE,),))
    page = render_page(report(replace(made, validation=wrong), FACTS.model_copy(update={"dataset": HOSTILE})))
    found = Tags(page)
    assert found.seen.count("script") == 2
    assert "img" not in found.seen and found.handlers == []
    assert page.count("&lt;script&gt;alert") >= 9
    assert printable(page) == page and page.count(r"\x1b[2J\u202e") >= 9


@pytest.fixture(scope="module")
def grid_page(grid: Any) -> str:
    return render_page(report(grid))


def test_every_element_is_closed_and_nothing_is_loaded(grid_page: str) -> None:
    for page in (render_page(report()), grid_page):
        found = Tags(page)
        assert (found.unmatched, found.opened, found.handlers) == ([], [], [])
        assert set(found.loads) <= {"#"}  # a link within the page
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))


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


def test_what_is_known_query_by_query_is_zipped_and_is_missed_aloud(grid: Any) -> None:
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
    assert figure_data(report(replace(grid, swept=replace(grid.swept, choice=None))))["grid"] is None


# Figures; what they draw of it is tested in a browser


def test_best_scores_are_those_before_the_threshold_and_ranks_those_of_labelled_queries() -> None:
    made = report()
    found = figure_data(made)["scores"]
    scores = {"in_scope": [0.9, 0.29], "out_of_scope": [0.8]}
    assert found == {**scores, "threshold": 0.3}
    final = config(mode="hybrid", fusion="weighted", threshold=0.3, threshold_on="final")
    assert figure_data(report(result(config=final)))["scores"] == {**scores, "threshold": None}
    assert figure_data(stored("unlisted"))["scores"] is None
    assert figure_data(made)["ranks"] == {"ranks": [1, 5], "top_k": 3, "depth": 5}
    # Relevant chunks that were not found are not known if chunks cannot be listed.
    for changes, ranks in (({"relevant": {}, "first_relevant": None}, [None] * 2), ({"cause": "not labelled"}, None)):
        queries = [row.model_copy(update=changes) for row in made.queries]
        shown = figure_data(made.model_copy(update={"queries": queries}))["ranks"]
        assert (shown and shown["ranks"]) == ranks
