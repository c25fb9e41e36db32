"""The page as a reader has it: in Chromium, wide and narrow, light and dark."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pypdf import PdfReader

from evals.report.html import render_page
from evals.report.model import Report
from tests.support.chromium import Chromium, Theme, chromium, find_chromium
from tests.support.results import report

pytestmark = pytest.mark.slow
HOSTILE = "<script>document.title = 'owned'</script><b onclick=alert(1)>how</b> " + "x" * 300
PROBES = Path(__file__).with_name("probes.js").read_text(encoding="utf-8")
KEYS = {"Enter": 13, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    found = find_chromium()
    if found is None:
        pytest.skip("needs a browser: chromium, chromium-browser or google-chrome on the PATH")
    with chromium(found, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(grid: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    first, *rest = grid.observed.observations
    evil = replace(first, case=first.case.model_copy(update={"query": HOSTILE}))
    # Few queries: which cells may be the best is not computable, and only some of them are taken for it.
    known = grid.swept.choice
    standings = tuple(replace(one, in_set=place < 3) for place, one in enumerate(known.standings))
    attacked = replace(grid, observed=replace(grid.observed, observations=(evil, *rest)))
    file = tmp_path_factory.mktemp("page") / "report.html"
    drawn = replace(attacked, swept=replace(grid.swept, choice=replace(known, note="", standings=standings)))
    file.write_text(render_page(report(drawn)), encoding="utf-8")
    return file


def look(browser: Chromium, name: str, *arguments: Any) -> Any:
    return browser.evaluate(f"(() => {{ {PROBES} return probes.{name}(...{json.dumps(arguments)}); }})()")


@pytest.fixture
def wide(browser: Chromium, page: Path) -> Chromium:
    visit(browser, page)
    return browser


@pytest.fixture(scope="module")
def section(grid: Any) -> Any:
    return report(grid).grid


def visit(browser: Chromium, page: Path | str, width: int = 1280, theme: Theme = "light", height: int = 900) -> None:
    browser.open(page, width=width, theme=theme, height=height)
    browser.wait_for("!document.querySelector('#explore table:empty')")


def open_report(browser: Chromium, made: Report, folder: Path) -> None:
    file = folder / "made.html"
    file.write_text(render_page(made), encoding="utf-8")
    visit(browser, file)
    assert browser.problems == []


def press(browser: Chromium, key: str, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], text=text)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (400, "dark")])
def test_it_is_whole_fits_and_all_of_it_can_be_read(browser: Chromium, page: Path, width: int, theme: Theme) -> None:
    """Text stands out at least 4.5 : 1 (WCAG 2.1, 1.4.3); plots have a label, areas that scroll take the focus."""
    visit(browser, page, width, theme)
    assert browser.problems == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert look(browser, "overflowing") == look(browser, "faint") == []
    assert look(browser, "names") == ["by_threshold", "by_top_k", "cells", "tradeoff", "scores", "ranks"]
    sizes = look(browser, "widths")
    assert len(sizes) == 5 and min(sizes) > 300
    assert look(browser, "smallest_text") >= 8
    table, around = look(browser, "table")
    assert 300 < table <= around + 1
    assert (look(browser, "background") == "rgb(20, 23, 26)") == (theme == "dark")
    labels = look(browser, "labels")
    assert len(labels) == len(sizes) and all(len(label) > 20 for label in labels)
    assert look(browser, "without_focus") == 0
    edges = look(browser, "verdict_edges")  # pass and fail are in sight on a phone
    assert len(edges) == 11 and max(edges) <= width


def test_queries_are_sorted_and_filtered(wide: Chromium) -> None:
    look(wide, "sort_by_best")
    ascending = [float(text) for text in look(wide, "column", 3)]
    assert ascending == sorted(ascending) and len(ascending) == 11
    look(wide, "sort_by_best")
    assert [float(text) for text in look(wide, "column", 3)] == ascending[::-1]
    for kind in {*look(wide, "column", 1)}:
        look(wide, "type", "select[data-filter]", kind)
        assert {*look(wide, "column", 1)} == {kind}
    look(wide, "type", "select[data-filter]", "")
    look(wide, "type", "input[data-filter]", "ONION")
    wide.wait_for("document.querySelector('[data-count]').textContent === '1 of 11'")
    assert look(wide, "column", 0) == ["soup"]


def test_the_first_picture_is_on_the_first_screen(browser: Chromium, page: Path, tmp_path: Path) -> None:
    map_or_plot = "document.querySelector('#figure-cells table') ?? document.querySelector('figure svg')"
    single = tmp_path / "run.html"
    single.write_text(render_page(report()), encoding="utf-8")
    for file, (width, height) in product((page, single), ((1280, 720), (400, 900))):
        visit(browser, file, width, height=height)
        assert browser.evaluate(f"({map_or_plot}).getBoundingClientRect().bottom") < height
    visit(browser, page, height=800)
    assert max(look(browser, "bottoms", ".curves figure, #figure-cells")) < 800
    visit(browser, page, 640)  # as MLflow's artifact view has it: the table, then the map
    assert look(browser, "bottoms", "#decision") < look(browser, "bottoms", "#figure-cells")


def test_bars_are_as_high_as_their_queries_and_ranks_within_top_k_stand_out(browser: Chromium, tmp_path: Path) -> None:
    """Best scores 0.9 and 0.29 in scope, 0.8 out of scope, in bars of 0.025; the threshold is 0.3.

    First relevant at 1 and at 5, of five candidates; top_k is 3.
    """
    open_report(browser, report(), tmp_path)
    bars = look(browser, "marks", "scores", "bars", "x", "height")
    width = look(browser, "inner", "scores")
    assert [[round((x - 44) / width / 0.025) for x, height in kind if height] for kind in bars] == [[11, 36], [32]]
    assert {height for kind in bars for _, height in kind} == {0, 194}
    assert look(browser, "marks", "scores", "rule", "x1") == [[[pytest.approx(44 + 0.3 * width)]]]
    legend = browser.evaluate("document.querySelector('#figure-scores .legend').innerText.split('\\n')")
    assert legend == ["in scope (n = 2)", "out of scope (n = 1)", "threshold 0.3"]
    assert look(browser, "marks", "ranks", "bars", "height") == [[[194], [0], [0]], [[194]], [[0]]]
    texts = browser.evaluate("[...document.querySelectorAll('#figure-ranks text.middle')].map(one => one.textContent)")
    assert texts == ["1", "2", "3", "4+", "none"]


def test_every_cell_of_the_map_says_its_value(wide: Chromium, grid: Any) -> None:
    swept, choice = grid.swept, grid.swept.choice
    chosen = swept.grid.cell(choice.recommended.cell).variant
    variant = swept.grid.variants[chosen]
    inside = {cell for one in choice.standings[:3] for cell in one.members}
    outlined = set()
    for row, threshold in enumerate(variant.thresholds):
        heading, *found = look(wide, "cells")[row]
        assert float(heading[0]) == pytest.approx(threshold)
        for column, (text, label, has_outline) in enumerate(found):
            number = chosen * swept.grid.size + row * 5 + column
            value = swept.ranking.values[number]
            assert label == f"{variant.name}, top_k {column + 1}, threshold {threshold:g}, {text}: {value:.3f}"
            if number in (choice.recommended.cell, choice.best.cell):
                assert text == ("★" if number == choice.recommended.cell else "○")
            else:
                assert re.fullmatch(r"[01]|\.\d\d", text) and float(text) == pytest.approx(value, abs=0.00501)
            outlined |= {number} if has_outline else set()
    assert outlined == {number for number in inside if swept.grid.cell(number).variant == chosen} != set()


def test_the_named_cells_and_the_headings_are_there_where_no_text_has_room(wide: Chromium) -> None:
    wide.evaluate("document.querySelector('#figure-cells table').style.setProperty('--rows', 60)")
    sizes = (
        "[...document.querySelectorAll('#figure-cells td[data-cell], #figure-cells b')].map(one => "
        "[one.tagName, parseFloat(getComputedStyle(one).fontSize)])"
    )
    assert {tag: size >= 10 for tag, size in wide.evaluate(sizes)} == {"TD": False, "B": True}
    assert wide.evaluate("[...document.querySelectorAll('#figure-cells th')].every(one => one.textContent)")


def test_rows_of_the_decision_and_sliders_go_by_keyboard(wide: Chromium, grid: Any) -> None:
    wide.evaluate("document.querySelector('#decision button').focus()")
    press(wide, "Enter", text="\r")
    chosen = wide.evaluate("document.activeElement.dataset.cell")
    assert wide.evaluate("document.querySelector('#figure-cells [aria-selected=true]').dataset.cell") == chosen
    wide.evaluate("document.querySelector('[data-step=top_k]').focus()")
    seen = []
    for key in ("Home", "ArrowRight", "End"):
        press(wide, key)
        seen.append(int(wide.evaluate("document.querySelector('[data-step=top_k]').nextElementSibling.textContent")))
    top_ks = grid.swept.grid.top_ks
    assert seen == [top_ks[0], top_ks[1], top_ks[-1]]


def test_arrow_keys_choose_a_cell_and_the_other_figures_follow(browser: Chromium, page: Path) -> None:
    visit(browser, page, 400)
    browser.evaluate("document.querySelector('#figure-cells td[data-cell]').click()")
    browser.evaluate("document.querySelector(`#figure-cells td[tabindex='0']`).focus()")
    before = look(browser, "chosen")
    assert "top_k 1, threshold 0," in before["focus"] and before["told"].split(": ")[0].startswith("semantic")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        press(browser, key)
    after = look(browser, "chosen")
    assert [after["focus"]] == after["selected"]
    for where in ("focus", "told", "title"):
        assert "top_k 2, threshold 0.2" in after[where]
    assert after["top_k"] == pytest.approx(44 + 0.25 * look(browser, "inner", "by_top_k"))
    assert after["threshold"] == pytest.approx(44 + 0.2 / 0.9 * look(browser, "inner", "by_threshold"))
    assert browser.evaluate("document.querySelectorAll(`#figure-cells td[tabindex='0']`).length") == 1
    for _ in range(9):
        press(browser, "ArrowLeft")
    assert "top_k 1, threshold 0.2" in look(browser, "chosen")["told"]


def test_a_metric_and_a_configuration_are_chosen(wide: Chromium, section: Any) -> None:
    look(wide, "choose", "metric", "scope/false_answer")
    for number, configuration in enumerate(section.configurations):
        look(wide, "choose", "configuration", configuration.name)
        mean = section.metrics["scope/false_answer"].mean[number * 50 :]
        labels = [cell[1] for row in look(wide, "cells") for cell in row[1:]]
        assert [label.split(": ")[1] for label in labels] == [f"{value:.3f}" for value in mean[:50]]
        assert labels[0].startswith(configuration.name)


def test_what_has_no_threshold_or_value_is_drawn(browser: Chromium, grid: Any, section: Any, tmp_path: Path) -> None:
    cells, metrics = section.cells, section.metrics
    threshold = [None if at else value for at, value in zip(cells.configuration, cells.threshold, strict=True)]
    empty = {"scope/false_answer": metrics["scope/false_answer"].model_copy(update={"mean": [None] * 100})}
    changes = {"cells": cells.model_copy(update={"threshold": threshold}), "metrics": metrics | empty}
    open_report(browser, report(grid).model_copy(update={"grid": section.model_copy(update=changes)}), tmp_path)
    for control in ("metric", "against"):
        look(browser, "choose", control, "scope/false_answer")
    for configuration in section.configurations:
        look(browser, "choose", "configuration", configuration.name)
    text = browser.evaluate("document.querySelector('#figure-by_threshold').innerText")
    assert f"No threshold is in force in {section.configurations[1].name}." in text
    assert browser.problems == [] and "NaN" not in browser.evaluate("document.querySelector('main').innerHTML")


def test_it_prints_with_its_figures_and_their_colours(browser: Chromium, page: Path) -> None:
    visit(browser, page, theme="dark")
    browser.call("Emulation.setEmulatedMedia", media="print")
    shown = "getComputedStyle(document.querySelector('#figure-cells td[data-cell]')).printColorAdjust"
    assert browser.evaluate(shown) == "exact"
    assert look(browser, "background") == "rgb(255, 255, 255)"
    assert min(look(browser, "widths")) > 300
    browser.call("Emulation.setDeviceMetricsOverride", width=718, height=900, deviceScaleFactor=1, mobile=False)
    assert look(browser, "cut") == []  # on paper nothing scrolls
    printed = browser.call("Page.printToPDF", printBackground=False)["data"]
    browser.call("Emulation.setEmulatedMedia", media="")
    text = "".join(page.extract_text() for page in PdfReader(BytesIO(base64.b64decode(printed))).pages)
    for words in ("Every cell: top_k across", "What quality costs", "Along the threshold", "not a candidate"):
        assert words in text


def test_every_figure_is_the_report_s(wide: Chromium, section: Any) -> None:
    weight, found = section.decision.weight, section.results
    means = {name: metric.mean for name, metric in section.metrics.items()}
    for number, gain in enumerate(found.gain):
        wide.evaluate(f"Grid.choose('cell', {number})")
        link = wide.evaluate("document.querySelector('[data-link]').hash")
        assert link == f"#{section.addresses[number]}"  # by which evals.compare names the cell, too
        this, _ = look(wide, "figures")
        expected = {
            "found": gain,
            "scope/false_answer": means["scope/false_answer"][number],
            "scope/false_abstention": means["scope/false_abstention"][number],
            "objective": (1 - weight) * gain + weight * (1 - means["scope/false_answer"][number]),
            "tokens": means["cost/context_tokens"][number],
            "passes": means["queries/pass_rate"][number],
        }
        assert {name: value for name, ([value], _) in this.items()} == pytest.approx(expected, abs=1e-12)
        assert this["objective"][0][0] == pytest.approx(section.ranking.values[number], abs=1e-12)
        for name, (low, high) in found.bands.items():
            assert this[name][1] == pytest.approx([low[number], high[number]], abs=1e-12)
        gains, wrong = found.bands["found"], found.bands["scope/false_answer"]
        ends = [(1 - weight) * gains[side][number] + weight * (1 - wrong[1 - side][number]) for side in (0, 1)]
        assert this["objective"][1] == pytest.approx(ends, abs=1e-12)
    assert wide.problems == []


def test_a_reader_moves_pins_filters_and_comes_back_by_a_link(wide: Chromium, section: Any, page: Path) -> None:
    assert look(wide, "moved") == []  # the cell beside itself
    look(wide, "type", "#explore [data-step=top_k]", 0)
    look(wide, "type", "#explore [data-step=threshold]", 0)
    answered = look(wide, "moved")
    assert answered and all("→" in change for _, change in answered)
    assert "lost" in wide.evaluate("document.querySelector('#explore .count').textContent")
    wide.evaluate("document.querySelector('#explore .queries details').open = true")
    sides = wide.wait_for("[...document.querySelectorAll('#explore .sides > div')].map(one => one.innerText)")
    assert len(sides) == 2 and sides[0].startswith("pinned") and sides[1].startswith("this cell")
    assert "only here" in "".join(sides)
    look(wide, "type", "#explore [data-weight]", 0.75)
    wide.evaluate("document.querySelector('[data-best]').click()")
    gain, wrong = np.array(section.results.gain), np.array(section.metrics["scope/false_answer"].mean)
    best = look(wide, "figures")[0]["objective"][0][0]
    assert best == pytest.approx((0.25 * gain + 0.75 * (1 - wrong)).max(), abs=1e-12)
    address, before = wide.evaluate("document.querySelector('[data-link]').href"), look(wide, "figures")
    assert "#" in address and "~w0.75" in address
    wide.open("about:blank", width=400, theme="dark")  # else it would be the same document, which does not load
    visit(wide, address, 400, "dark")
    assert look(wide, "figures") == before
    wide.open("about:blank", width=400, theme="dark")
    visit(wide, f"{page.absolute().as_uri()}#no-such-cell~w9/%", 400, "dark")
    assert wide.problems == []


def test_a_drag_of_the_weight_moves_the_figures_at_once_and_the_map_where_it_pauses(
    wide: Chromium, section: Any
) -> None:
    before, first = look(wide, "figures")[0]["objective"], "document.querySelector('#figure-cells td[data-cell]')"
    label = wide.evaluate(f"(window.was = {first}).ariaLabel")
    typed = f"(() => {{ {PROBES} probes.type('#explore [data-weight]', 0.9); return {first}.ariaLabel; }})()"
    assert wide.evaluate(typed) == label and look(wide, "figures")[0]["objective"] != before
    wide.wait_for("!was.isConnected")
    assert wide.evaluate(f"{first}.ariaLabel") != label
    told = "['.told', 'table'].map(part => document.querySelector(`#figure-cells ${part}`).innerText).join()"
    assert not re.search("may be the best|as measured|○", wide.evaluate(told)), "of another weight"
    look(wide, "type", "#explore [data-weight]", section.decision.weight)
    wide.wait_for(f"/as measured may be the best/.test({told})")


def test_all_cells_of_the_table_are_marked_and_named(wide: Chromium, section: Any, page: Path, tmp_path: Path) -> None:
    """A link within MLflow's or a notebook's page has nowhere to lead."""
    where = section.cells.configuration
    marked = [level.limit for level in section.decision.levels if level.cell is not None and level.limit < 1
              and where[level.cell] == where[section.chosen]]  # fmt: skip
    texts = wide.evaluate("[...document.querySelectorAll('#figure-by_threshold .flag text')].map(o => o.textContent)")
    assert sorted(texts) == sorted(f"≤ {100 * limit:.3g}%" for limit in marked) and len(texts) > 1
    host = tmp_path / "host.html"
    host.write_text(f'<iframe srcdoc="{escape(page.read_text(encoding="utf-8"))}"></iframe>', encoding="utf-8")
    wide.open(host, width=1280, theme="light")
    link = "frames[0].document.querySelector('[data-link]')"
    wide.wait_for(f"{link}?.textContent")
    assert wide.evaluate(f"{link}.outerHTML") == f'<a data-link="">#{section.addresses[section.chosen]}</a>'


def test_a_link_may_be_short_as_evals_compare_reads_it(wide: Chromium, section: Any) -> None:
    full = next(one for one in section.addresses if re.search(r"-k\d+-t0\.\d$", one))
    way, _, cut = full.rpartition("-k")
    ways = {one.rpartition("-k")[0] for one in section.addresses}
    short = next(way[:n] for n in range(len(way) + 1) if sum(one.startswith(way[:n]) for one in ways) == 1)
    link = "document.querySelector('[data-link]').hash"
    for name in (f"{short}-k{cut}0".lstrip("-"), f"{way.upper()}-k{cut}00"):
        wide.evaluate(f"Grid.choose('cell', {section.addresses.index(full) - 1}); location.hash = '{name}'")
        assert wide.wait_for(f"{link} === '#{full}'")
    chosen = wide.evaluate(link)
    wide.evaluate("location.hash = 'nothing-k1'")
    assert wide.evaluate(link) == chosen


def test_another_choice_moves_the_ring_and_draws_no_point_anew(wide: Chromium) -> None:
    wide.evaluate("document.querySelector('#figure-tradeoff .dots circle').id = 'first'")
    places = "[...document.querySelectorAll('#figure-tradeoff .dots circle')].map(one => +one.dataset.cell)"
    for cell in wide.evaluate(places)[:5]:
        wide.evaluate(f"Grid.choose('cell', {cell})")
        ring = "(({dataset, attributes: {cx, cy}}) => [+dataset.cell, cx.value, cy.value])"
        dot = wide.evaluate(f"{ring}(document.querySelector('#figure-tradeoff .dots [data-cell=\"{cell}\"]'))")
        assert wide.evaluate(f"{ring}(document.querySelector('#figure-tradeoff .ring circle'))") == dot
    assert wide.evaluate("document.getElementById('first') !== null")


def test_own_weights_leave_no_weight_to_move(browser: Chromium, grid: Any, section: Any, tmp_path: Path) -> None:
    twice = {name: 2 * weight for name, weight in section.ranking.metrics.items()}
    ways = [one.model_copy(update={"name": f"__main__:find{n}"}) for n, one in enumerate(section.configurations)]
    changes = {"ranking": section.ranking.model_copy(update={"metrics": twice}), "configurations": ways}
    made = section.model_copy(update=changes)
    open_report(browser, report(grid).model_copy(update={"grid": made}), tmp_path)
    address = made.addresses[made.choice.recommended.cell]
    assert browser.evaluate("document.querySelector('[data-link]').hash") == f"#{address}"
    assert re.match(r"main-find\d-k", address)
    assert browser.evaluate("document.querySelector('[data-weight]')") is None
