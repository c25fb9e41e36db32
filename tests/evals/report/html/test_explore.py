"""Comparing cells query by query: what the report holds beside brute force, and what the page shows of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from evals.errors import ReportError
from evals.grid.measure import Measured
from evals.metrics import PASS_RATE, metric_named
from evals.metrics.declaration import QueryMetric
from evals.report.html import render_page
from evals.report.model import Report, ResultsByCell
from evals.report.parsing import cell_report
from tests.support.chromium import Chromium
from tests.support.grids import swept_of, with_swept
from tests.support.results import report

FIGURES = """[...document.querySelectorAll("#explore tbody tr")].map(row => Object.fromEntries(
  [...row.querySelectorAll("td")].map(cell => [cell.dataset.figure, [cell.dataset.value, cell.dataset.ends].map(
    text => text.split(",").filter(Boolean).map(Number))])))"""
QUERIES = """[...document.querySelectorAll("#explore .queries details")].map(
  one => [one.querySelector("b").textContent, one.querySelector("summary span").textContent])"""


def told(made: Report) -> ResultsByCell:
    assert made.grid is not None and made.grid.results is not None
    return made.grid.results


def place(made: Measured, number: int) -> tuple[int, int]:
    """Return the configuration of a cell, and the place of its threshold."""
    grid = swept_of(made).grid
    cell = grid.cell(number)
    return cell.configuration, number % grid.size // len(grid.top_ks)


def test_every_cell_returns_what_it_would_alone(grid: Measured) -> None:
    """Oracle: the results of each cell by itself, and its metrics on them."""
    found, cells = told(report(grid)), swept_of(grid).grid
    ids = list(found.chunks)
    [name] = found.metrics
    metric = metric_named(name)
    assert isinstance(metric, QueryMetric)
    for number in range(len(cells)):
        configuration, threshold = place(grid, number)
        results, top_k = cells.results(number), cells.cell(number).top_k
        gains, passes = (each.values(results, grid.context).values for each in (metric, PASS_RATE))
        for query, observation in enumerate(results.observations()):
            which = found.list_of[configuration][threshold][query]
            length = min(top_k, len(found.lists[which]))
            assert tuple(ids[code] for code in found.lists[which][:length]) == observation.ranked_ids
            score = found.found[which][length]
            assert (None if score < 0 else found.scores[score]) == (gains[query] if observation.case.in_scope else None)
            passed = found.passes[which][length]
            assert passed == passes[query] if passed >= 0 else passes[query] != passes[query]


def test_a_cell_of_a_saved_grid_is_a_run_of_its_own(grid: Measured) -> None:
    made, cells = report(grid), swept_of(grid).grid
    assert made.grid is not None
    names = [made.grid.address(place) for place in range(len(cells))]
    assert len({*names}) == len(names)
    for number in (0, 7, len(cells) - 1):
        alone, results = cell_report(made, names[number]), cells.results(number)
        passes = PASS_RATE.values(results, grid.context).values
        for row, observation, passed in zip(alone.queries, results.observations(), passes, strict=True):
            assert tuple(hit.chunk_id for hit in row.retrieved) == observation.ranked_ids
            assert all(hit.source for hit in row.retrieved)
            assert (row.outcome == "SUCCESS") == (passed == 1)
        for name, metric in alone.metrics.items():
            assert metric.value == pytest.approx(made.grid.metrics[name].mean[number], abs=1e-12)
        cell = cells.cell(number)
        assert alone.config["retriever"]["top_k"] == cell.top_k
        assert alone.config["retriever"]["threshold"] == cell.threshold


@pytest.mark.parametrize("name", ["", "k99-t0.3", "semantic"])
def test_a_cell_that_is_not_there_is_refused_with_one_that_is(grid: Measured, name: str) -> None:
    with pytest.raises(ReportError, match="expected one such as"):
        cell_report(report(grid), name)
    with pytest.raises(ReportError, match="no results by cell"):
        cell_report(report(), name)


def test_results_that_do_not_fit_the_cells_are_refused(grid: Measured) -> None:
    made = report(grid)
    assert made.grid is not None
    changes: list[dict[str, object]] = [{"lists": []}, {"found": [[]]}, {"list_of": [[[10**6]]]}]
    for changed in changes:
        broken = told(made).model_copy(update=changed)
        section = made.grid.model_copy(update={"results": broken})
        with pytest.raises(ReportError, match="do not fit"):
            cell_report(made.model_copy(update={"grid": section}), made.grid.address(0))


def test_what_is_found_is_shown_where_it_has_no_part_in_the_choice(grid: Measured) -> None:
    swept = swept_of(grid)
    ranking = replace(swept.ranking, weights={name: 0.0 for name in swept.ranking.weights})
    assert told(report(with_swept(grid, ranking=ranking))).gain == pytest.approx(told(report(grid)).gain)


def test_bands_hold_the_figures_and_open_with_fewer_queries(grid: Measured) -> None:
    made = report(grid)
    found = told(made)
    assert made.grid is not None
    shown = {"found": found.gain} | {
        name: made.grid.metrics[name].mean for name in ("scope/false_answer", "scope/false_abstention")
    }
    assert found.bands.keys() == shown.keys()
    for name, (low, high) in found.bands.items():
        for least, figure, most in zip(low, shown[name], high, strict=True):
            assert figure is not None and 0 <= least <= figure + 1e-12 and figure - 1e-12 <= most <= 1
            assert most - least > 0.2  # eleven queries say little of all cells at once


@pytest.fixture(scope="module")
def page(grid: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(render_page(report(grid)), encoding="utf-8")
    return file


@pytest.mark.slow
def test_every_figure_is_the_report_s(browser: Chromium, grid: Measured, page: Path) -> None:
    made = report(grid)
    found = told(made)
    assert made.grid is not None and made.grid.decision is not None
    weight, metrics = made.grid.decision.weight, made.grid.metrics
    browser.open(page, width=1280, theme="light")
    for number in range(len(found.gain)):
        browser.evaluate(f"Grid.choose('cell', {number})")
        link = browser.evaluate("document.querySelector('[data-link]').hash")
        assert link == f"#{made.grid.address(number)}"  # by which evals.compare names the cell, too
        this, _ = browser.evaluate(FIGURES)
        wrong, gain = metrics["scope/false_answer"].mean[number], found.gain[number]
        assert wrong is not None and gain is not None
        expected = {
            "found": gain,
            "scope/false_answer": wrong,
            "scope/false_abstention": metrics["scope/false_abstention"].mean[number],
            "utility": (1 - weight) * gain + weight * (1 - wrong),
            "tokens": metrics["cost/context_tokens"].mean[number],
            "passes": metrics["queries/pass_rate"].mean[number],
        }
        assert {name: value for name, ([value], _) in this.items()} == pytest.approx(expected, abs=1e-12)
        assert this["utility"][0][0] == pytest.approx(made.grid.ranking.values[number], abs=1e-12)
        for name, (low, high) in found.bands.items():
            assert this[name][1] == pytest.approx([low[number], high[number]], abs=1e-12)
        ends = [
            (1 - weight) * found.bands["found"][side][number]
            + weight * (1 - found.bands["scope/false_answer"][1 - side][number])
            for side in (0, 1)
        ]
        assert this["utility"][1] == pytest.approx(ends, abs=1e-12)
    assert browser.problems == []


@pytest.mark.slow
def test_a_reader_moves_pins_filters_and_comes_back_by_a_link(browser: Chromium, grid: Measured, page: Path) -> None:
    made = report(grid)
    browser.open(page, width=1280, theme="light")
    assert browser.evaluate(QUERIES) == []  # the cell beside itself
    slide(browser, "[data-step=top_k]", 0)
    slide(browser, "[data-step=threshold]", 0)
    answered = browser.evaluate(QUERIES)
    assert answered and all("→" in change for _, change in answered)
    assert "lost" in browser.evaluate("document.querySelector('#explore .count').textContent")
    browser.evaluate("document.querySelector('#explore .queries details').open = true")
    sides = browser.wait_for("[...document.querySelectorAll('#explore .sides > div')].map(one => one.innerText)")
    assert len(sides) == 2 and sides[0].startswith("pinned") and sides[1].startswith("this cell")
    assert "only here" in "".join(sides)
    slide(browser, "[data-weight]", 0.75)
    browser.evaluate("document.querySelector('[data-best]').click()")
    best = browser.evaluate(FIGURES)[0]["utility"][0][0]
    gains, wrong = told(made).gain, made.grid and made.grid.metrics["scope/false_answer"].mean
    assert wrong and best == pytest.approx(
        max(0.25 * (g or 0) + 0.75 * (1 - (w or 0)) for g, w in zip(gains, wrong, strict=True)), abs=1e-12
    )
    address, before = browser.evaluate("document.querySelector('[data-link]').href"), browser.evaluate(FIGURES)
    assert "#" in address and "~w0.75" in address
    browser.open("about:blank", width=400, theme="dark")  # else it would be the same document, which does not load
    browser.open(address, width=400, theme="dark")
    assert browser.evaluate(FIGURES) == before
    browser.open("about:blank", width=400, theme="dark")
    browser.open(f"{page.absolute().as_uri()}#no-such-cell~w9/%", width=400, theme="dark")
    assert browser.problems == []


@pytest.mark.slow
def test_sliders_go_by_keyboard(browser: Chromium, grid: Measured, page: Path) -> None:
    browser.open(page, width=1280, theme="light")
    shown = "document.querySelector('[data-step=top_k]').nextElementSibling.textContent"
    browser.evaluate("document.querySelector('[data-step=top_k]').focus()")
    seen = []
    for key in ("Home", "ArrowRight", "End"):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])
        seen.append(int(browser.evaluate(shown)))
    top_ks = swept_of(grid).grid.top_ks
    assert seen == [top_ks[0], top_ks[1], top_ks[-1]]


KEYS = {"Home": 36, "End": 35, "ArrowRight": 39}


def slide(browser: Chromium, selector: str, value: float) -> None:
    move = f"s => {{ s.value = {value}; s.dispatchEvent(new Event('input')) }}"
    browser.evaluate(f"({move})(document.querySelector('#explore {selector}'))")
