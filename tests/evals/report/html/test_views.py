"""What the page says, before it is HTML."""

import re
from dataclasses import replace

import pytest

from evals.grid.choice import explain
from evals.grid.measure import Measured
from evals.judge.trust import Pair, Trust, agree
from evals.report.html import render_page, views
from evals.report.model.report import SliceEntry, SliceMetric
from tests.support.grids import swept_of, with_swept
from tests.support.judged import judging
from tests.support.results import EMPTY, RIGHT, UNLISTED, WRONG, report, result, without_scores


def rows_of(page: str, table: str) -> list[list[str]]:
    """Return the cells of a table of the page, a list a row."""
    body = page.partition(f'id="{table}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    return [re.split("<td[^>]*>", row)[1:] for row in re.findall("<tr>(.*)</tr>", body)]


def test_metrics_have_value_interval_n_and_what_must_be_known() -> None:
    found = {row[0]: row[1:] for row in rows_of(render_page(report()), "metrics-table")}
    assert found["ranking/hit_rate_at_5"] == ["0.500", "0.095 … 0.905", "2", ""]
    assert found["ragas/id_context_recall"][3] == "1 failed, 0.250 … 0.750"
    assert found["content/topic_match"] == ["–", "–", "0", "the case names no topics"]
    assert found["latency/total_p95_ms"][0] == "1,234.6"


def test_queries_come_the_worst_first_with_what_was_returned() -> None:
    rows = views.queries(report())
    assert [(row["id"], row["why"]) for row in rows] == [
        ("wrong", "wrongly answered"),
        ("empty", "nothing returned"),
        ("right", "right"),
    ]
    assert [hit.source for hit in rows[2]["retrieved"]] == ["a.md:1-2", "b.md:2-3"]
    assert (rows[1]["retrieved"], len(rows[1]["best_below_threshold"])) == ([], 3)
    assert rows[1]["figures"] == {
        "ranking/hit_rate_at_5": "0.000",
        "ragas/id_context_recall": "–",
        "content/topic_match": "–",
    }


def test_only_so_many_queries_are_on_the_page_and_the_worst_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row["id"] for row in views.queries(report())][:2] == ["wrong", "empty"]
    monkeypatch.setattr(views, "MOST_QUERIES", 2)
    assert [row["id"] for row in views.queries(report())] == ["wrong", "empty"]


def test_the_worst_queries_leave_out_those_that_are_right() -> None:
    assert {row["id"] for row in views.worst_queries(report())} == {WRONG.case.id, EMPTY.case.id}


def test_a_retriever_without_scores_shows_none() -> None:
    assert {row["best"] for row in views.queries(report(without_scores(), UNLISTED))} == {"–"}


def test_disagreements_are_named_by_where_the_chunk_stands() -> None:
    rows = [
        Pair(query_id="right", chunk_id="a", verdict=0, label=1, reason="too short"),
        Pair(query_id="right", chunk_id="b", verdict=0, label=0, reason="other"),
    ]
    page = render_page(report(result(judging=judging(), trust=Trust(agreement=agree(rows, 0)))))
    [found] = [row for row in re.findall("<tr>(.*)</tr>", page) if "too short" in row]
    assert re.split("<td[^>]*>", found)[1:] == [RIGHT.case.id, "a.md:1-2", "relevant", "useless", "too short"]
    assert 'id="disagreements"' not in render_page(report())


def test_facts_are_flat_and_leave_out_what_is_not_known() -> None:
    found = dict(views.facts(report()))
    assert found["collection.fingerprint"] == "c0ffee"
    assert found["versions.ragas"] == "0.4.3"
    assert "embedding" not in dict(views.facts(report(without_scores(), UNLISTED)))


def test_a_grid_says_what_it_comes_down_to_and_lists_its_best_cells(grid: Measured) -> None:
    swept = swept_of(grid)
    assert swept.choice is not None
    first, *others = explain(swept.choice)
    assert views.recommended(report(grid)) == [
        f"{first}. It answers 100% of the out-of-scope queries: constrain that with --objective.constraints "
        "'scope/false_answer <= 0.5'",
        *others,
    ]
    found = views.cells(report(grid))
    assert found is not None and found["count"] == 100
    (chosen,) = [row for row in found["rows"] if row.recommended]
    cell = swept.grid.cell(swept.choice.recommended.cell)
    assert (chosen.top_k, chosen.threshold) == (cell.top_k, f"{cell.threshold:g}")
    assert [row.place for row in found["rows"]] == sorted(row.place for row in found["rows"])
    assert len(found["rows"]) <= views.TOP_CELLS + 1


def test_a_grid_that_is_not_ranked_says_why(grid: Measured) -> None:
    lost = with_swept(grid, choice=None, ranking=replace(swept_of(grid).ranking, reason="too few"))
    assert views.recommended(report(lost)) == ["The cells are not ranked: too few"]
    assert views.cells(report(lost)) is None


def test_slices_have_the_leading_metrics_with_interval_and_n() -> None:
    metric = SliceMetric(value=0.5, ci_low=0.3, ci_high=0.7, n=5)
    parts = [
        SliceEntry(by="query_type", name="keyword", n=6, metrics={"ranking/hit_rate_at_5": metric}),
        SliceEntry(by="tag", name="short", n=2, metrics={}),
    ]
    made = report().model_copy(update={"slices": parts, "headline": ["ranking/hit_rate_at_5", "scope/auroc"]})
    assert views.slices(made) == {
        "names": ["ranking/hit_rate_at_5"],
        "rows": [
            {"name": "keyword", "by": "type", "n": 6, "figures": ["0.500 (0.300 … 0.700), n 5"]},
            {"name": "short", "by": "tag", "n": 2, "figures": ["–"]},
        ],
    }
    assert views.slices(made.model_copy(update={"slices": parts[:1]})) is None
