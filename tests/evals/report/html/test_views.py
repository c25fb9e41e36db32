"""What the page says."""

import re
from dataclasses import replace

import pytest

from evals.collect.observations import Summary
from evals.grid.choice import explain
from evals.grid.measure import Measured
from evals.judge.trust import Pair, Trust, agree
from evals.report.html import render, render_page
from evals.report.model import Report, SliceEntry
from evals.report.sections import slices
from tests.support.grids import swept_of, with_swept
from tests.support.judged import judging
from tests.support.results import EMPTY, RIGHT, UNLISTED, WRONG, report, result, without_scores


def rows_of(page: str, table: str) -> list[list[str]]:
    """Return the cells of a table of the page, a list a row."""
    body = page.partition(f'id="{table}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = re.findall("<tr(?: data-group[^>]*)?>(.*?)</tr>", body, re.DOTALL)
    return [re.split("<td[^>]*>", re.sub("</?span[^>]*>", "", row))[1:] for row in rows]


def test_metrics_have_value_interval_n_and_what_must_be_known() -> None:
    found = {row[0]: row[1:] for row in rows_of(render_page(report()), "metrics-table")}
    assert found["ranking/hit_rate_at_5"] == ["0.500", "0.095 … 0.905", "2", ""]
    assert found["ragas/id_context_recall"][3] == "1 failed, 0.250 … 0.750"
    assert found["content/topic_match"] == ["–", "–", "0", "the case names no topics"]
    assert found["latency/total_p95_ms"][0] == "1,234.6"


def queries(made: Report) -> list[list[str]]:
    return rows_of(render_page(made), "queries-table")


def test_queries_come_the_worst_first_with_what_was_returned() -> None:
    rows = queries(report())
    assert [(row[0], row[1]) for row in rows] == [
        ("wrong", "wrongly answered"),
        ("empty", "nothing returned"),
        ("right", "right"),
    ]


def test_only_so_many_queries_are_on_the_page_and_the_worst_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row[0] for row in queries(report())][:2] == ["wrong", "empty"]
    monkeypatch.setattr(render, "MOST_QUERIES", 2)
    assert [row[0] for row in queries(report())] == ["wrong", "empty"]


def test_the_worst_queries_leave_out_those_that_are_right() -> None:
    part = render_page(report()).partition('<section id="worst">')[2].partition("</section>")[0]
    assert set(re.findall("<summary><b>(.*?)</b>", part)) == {WRONG.case.id, EMPTY.case.id}


def test_a_retriever_without_scores_shows_none() -> None:
    assert {row[3] for row in queries(report(without_scores(), UNLISTED))} == {"–"}


def test_disagreements_are_named_by_where_the_chunk_stands() -> None:
    rows = [
        Pair(query_id="right", chunk_id="a", verdict=0, label=1, reason="too short"),
        Pair(query_id="right", chunk_id="b", verdict=0, label=0, reason="other"),
    ]
    page = render_page(report(result(judging=judging(), trust=Trust(agreement=agree(rows)))))
    [found] = [row for row in re.findall("<tr>(.*)</tr>", page) if "too short" in row]
    cells = re.split("<td[^>]*>", re.sub("</?span[^>]*>", "", found))[1:]
    assert cells == [RIGHT.case.id, "a.md:1-2", "relevant", "useless", "too short"]
    assert 'id="disagreements"' not in render_page(report())


def test_facts_are_flat_and_leave_out_what_is_not_known() -> None:
    page, other = (
        re.sub(' class="nowrap"', "", render_page(made)) for made in (report(), report(without_scores(), UNLISTED))
    )
    assert "<td>collection.fingerprint<td>c0ffee" in page
    assert "<td>versions.ragas<td>0.4.3" in page
    assert "<td>embedding<td>" in page and "<td>embedding<td>" not in other


def test_a_grid_says_what_it_comes_down_to_and_lists_its_best_cells(grid: Measured) -> None:
    swept = swept_of(grid)
    assert swept.choice is not None
    page = render_page(report(grid))
    first, *_ = explain(swept.choice)
    assert first in page and "It answers 100% of the out-of-scope queries: constrain that with" in page
    cells = page.partition('<section id="cells">')[2].partition("</section>")[0]
    (chosen,) = re.findall('<tr class="chosen">(.*)</tr>', cells)
    cell = swept.grid.cell(swept.choice.recommended.cell)
    assert re.split("<td[^>]*>", chosen)[3:5] == [str(cell.top_k), f"{cell.threshold:g}"]
    assert cells.count("<tr") <= render.TOP_CELLS + 2 and "The best of 100 cells" in cells


def test_a_grid_that_is_not_ranked_says_why(grid: Measured) -> None:
    lost = with_swept(grid, choice=None, ranking=replace(swept_of(grid).ranking, reason="too few"))
    page = render_page(report(lost))
    assert "The cells are not ranked: too few" in page and 'id="cells"' not in page


def test_slices_have_the_leading_metrics_with_interval_and_n() -> None:
    metric = Summary(metric="m", value=0.5, ci_low=0.3, ci_high=0.7, n=5)
    parts = [
        SliceEntry(by="query_type", name="keyword", n=6, metrics={"ranking/hit_rate_at_5": metric}),
        SliceEntry(by="tag", name="short", n=2, metrics={}),
    ]
    made = report().model_copy(update={"slices": parts, "headline": ["ranking/hit_rate_at_5", "scope/auroc"]})
    section = slices(made)
    assert section is not None and [one.name for one in section.columns] == [
        "queries",
        "",
        "n",
        "ranking/hit_rate_at_5",
    ]
    assert [[cell.text for cell in row] for row in section.rows] == [
        ["keyword", "type", "6", "0.500 (0.300 … 0.700), n 5"],
        ["short", "tag", "2", "–"],
    ]
    assert slices(made.model_copy(update={"slices": parts[:1]})) is None
