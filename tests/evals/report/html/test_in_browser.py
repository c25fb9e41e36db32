"""The page as a reader has it: in Chromium, wide and narrow, light and dark."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evals.grid.measure import Measured
from evals.report.figures import draw
from evals.report.html import render_page
from evals.report.model.report import SliceEntry, SliceMetric
from tests.support.chromium import Chromium, Theme, chromium, find_chromium
from tests.support.results import report

FOUND = find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        FOUND is None, reason="needs a browser: chromium, chromium-browser or google-chrome on the PATH"
    ),
]
VIEWS: list[tuple[int, Theme]] = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
HOSTILE = "<script>document.title = 'owned'</script><b onclick=alert(1)>how</b> " + "x" * 300
OVERFLOWING = """[...document.querySelectorAll("body *")].filter(one =>
  one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".wide, pre, svg")).map(one => one.outerHTML)"""
SMALLEST_TEXT = """Math.min(...[...document.querySelectorAll("figure svg text")].map(
  text => text.getBoundingClientRect().height))"""
WIDTHS = "[...document.querySelectorAll('figure svg')].map(one => one.getBoundingClientRect().width)"
CONTRASTS = """(() => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = color => channels(color).slice(0, 3)
    .reduce((sum, v, place) => sum + linear(v / 255) * [.2126, .7152, .0722][place], 0);
  const clear = one => (channels(getComputedStyle(one).backgroundColor)[3] ?? 1) < 1;
  const ratio = one => {
    let under = one;
    while (under !== document.body && clear(under)) under = under.parentElement;
    const style = getComputedStyle(one);
    const pair = [light(one.closest("svg") ? style.fill : style.color), light(getComputedStyle(under).backgroundColor)];
    return (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
  };
  return [...document.querySelectorAll("p, td, th, h1, h2, li, figcaption, summary, b, figure svg text")]
    .map(one => [ratio(one), one.textContent.slice(0, 40)]).filter(([found]) => found < 4.5);
})()"""
INJECT = """(() => {
  const script = document.createElement("script");
  script.textContent = "document.title = 'owned'";
  document.body.append(script, Object.assign(new Image(), {src: "http://127.0.0.1:9/x.png"}));
})()"""
ROWS = "[...document.querySelectorAll('#queries-table tbody tr')].filter(row => !row.hidden)"
SORT = "[...document.querySelectorAll('#queries-table th button')].find(b => b.innerText.startsWith('best')).click()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert FOUND is not None
    with chromium(FOUND, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(grid: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the grid, one of whose queries is an attack, in one very long word."""
    first, *rest = grid.observed.observations
    evil = replace(first, case=first.case.model_copy(update={"query": HOSTILE}))
    attacked = replace(grid, observed=replace(grid.observed, observations=(evil, *rest)))
    file = tmp_path_factory.mktemp("page") / "report.html"
    made = report(attacked)
    file.write_text(render_page(made, draw(attacked, made.queries)), encoding="utf-8")
    return file


@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_it_is_whole_and_fits(browser: Chromium, page: Path, grid: Measured, width: int, theme: Theme) -> None:
    browser.open(page, width=width, theme=theme)
    assert browser.problems == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOWING) == []
    wanted = len(draw(grid, report(grid).queries))
    sizes = browser.evaluate(WIDTHS)
    assert len(sizes) == wanted and min(sizes) > 300
    assert browser.evaluate(SMALLEST_TEXT) >= 8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_stands_out_from_what_is_behind_it(browser: Chromium, page: Path, theme: Theme) -> None:
    """WCAG 2.1, success criterion 1.4.3: at least 4.5 : 1."""
    browser.open(page, width=1280, theme=theme)
    assert browser.evaluate(CONTRASTS) == []
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (theme == "dark")


def test_what_a_query_says_is_not_run(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280, theme="light")
    assert browser.evaluate("document.title") == "small · 73% pass"
    assert browser.evaluate("document.querySelectorAll('b[onclick]').length") == 0
    assert browser.evaluate("document.body.innerText.includes(\"<script>document.title = 'owned'\")")


def test_the_page_forbids_scripts_that_are_not_its_own(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280, theme="light")
    browser.evaluate(INJECT)
    assert browser.evaluate("document.title") != "owned"
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_queries_are_sorted_and_filtered(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280, theme="light")
    column = ROWS + ".map(row => row.cells[{}].innerText)"
    browser.evaluate(SORT)
    ascending = [float(text) for text in browser.evaluate(column.format(3))]
    assert ascending == sorted(ascending) and len(ascending) == 11
    browser.evaluate(SORT)
    assert [float(text) for text in browser.evaluate(column.format(3))] == ascending[::-1]
    kinds = set(browser.evaluate(column.format(1)))
    choose = "(s => {{ s.value = {!r}; s.dispatchEvent(new Event('input')) }})(document.querySelector({!r}))"
    for kind in kinds:
        browser.evaluate(choose.format(kind, "select[data-filter]"))
        assert set(browser.evaluate(column.format(1))) == {kind}
    browser.evaluate(choose.format("", "select[data-filter]"))
    find = "(s => {{ s.value = {!r}; s.dispatchEvent(new Event('input')) }})(document.querySelectorAll('input')[1])"
    browser.evaluate(find.format("ONION"))
    assert browser.evaluate(column.format(0)) == ["soup"]
    assert browser.evaluate("document.querySelector('[data-count]').textContent") == "1 of 11"


VERDICTS = """[...document.querySelectorAll("#criteria tbody tr, #queries-table tbody tr")].map(
  row => row.cells[row.closest("#criteria") ? 0 : 1].getBoundingClientRect().right)"""
SCROLLED = """[...document.querySelectorAll(".wide, pre")].filter(
  one => one.tabIndex !== 0 || (one.matches(".wide") && !one.getAttribute("aria-label"))).length"""
SLICES = """[...document.querySelectorAll("#slices-table tbody tr")].map(
  row => [...row.cells].map(cell => cell.innerText))"""


def test_pass_and_fail_are_in_sight_on_a_phone(browser: Chromium, page: Path) -> None:
    browser.open(page, width=400, theme="light")
    edges = browser.evaluate(VERDICTS)
    assert len(edges) == 11 and max(edges) <= 400


def test_plots_have_a_role_and_a_label_and_scroll_areas_take_focus(browser: Chromium, page: Path) -> None:
    browser.open(page, width=400, theme="light")
    labels = browser.evaluate("[...document.querySelectorAll('figure > [role=img]')].map(one => one.ariaLabel)")
    assert len(labels) == browser.evaluate("document.querySelectorAll('figure svg').length") > 0
    assert all(len(label) > 20 for label in labels)
    assert browser.evaluate(SCROLLED) == 0


def test_two_slices_are_compared_with_the_interval_of_the_difference(browser: Chromium, tmp_path: Path) -> None:
    """Of shares 1.0 (0.6 to 1.0) and 0.5 (0.3 to 0.7): 0.5 ± (0.4472, 0.2) by the square-and-add rule."""
    slices = [
        SliceEntry(by="query_type", name=name, n=6, metrics={"ranking/hit_rate_at_5": metric})
        for name, metric in (
            ("keyword", SliceMetric(value=1.0, ci_low=0.6, ci_high=1.0, n=6)),
            ("</script><b>", SliceMetric(value=0.5, ci_low=0.3, ci_high=0.7, n=6)),
        )
    ]
    file = tmp_path / "slices.html"
    file.write_text(render_page(report().model_copy(update={"slices": slices}), {}), encoding="utf-8")
    browser.open(file, width=1280, theme="light")
    [row] = browser.evaluate(SLICES)
    assert row == [
        "ranking/hit_rate_at_5", "1.000", "0.600 … 1.000", "6", "0.500", "0.300 … 0.700", "6",
        "+0.500", "+0.053 … +0.700",
    ]  # fmt: skip
    assert browser.problems == []
