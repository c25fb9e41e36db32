"""Figures as SVG for a page that holds several of them."""

import re
from xml.etree import ElementTree

import pytest

from evals.report.figures.canvas import BLUE, GREY, INK, SERIES, Picture, canvas, style

SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str = "one", label: str = "a < b & $x_1$") -> str:
    with style():
        figure, axes = canvas()
        axes.plot([0, 1], [0, 1], color=BLUE)
        axes.imshow([[0.0, 1.0]], extent=(0, 1, 0, 1), interpolation="none")
        axes.set_title(label)
    return Picture(name=name, figure=figure, caption="").svg


def test_it_is_one_element_whose_size_is_the_pages_to_set() -> None:
    root = ElementTree.fromstring(drawn())
    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox") and root.get("width") is None and root.get("height") is None


def test_text_stays_text_and_is_no_formula() -> None:
    texts = ["".join(text.itertext()) for text in ElementTree.fromstring(drawn()).iter(f"{SVG}text")]
    assert "a < b & $x_1$" in texts
    assert "0.5" not in texts or len(texts) > 2


def test_ink_takes_the_colour_of_the_page_and_the_background_is_clear() -> None:
    text = drawn()
    assert INK not in text and "currentColor" in text
    assert "fill: #ffffff" not in text


def test_ids_are_those_of_the_figure_alone_and_every_reference_has_one() -> None:
    one, two = drawn("one"), drawn("two")
    ids = re.findall(r'\bid="([^"]+)"', one)
    assert ids and all(found.startswith("one-") for found in ids)
    assert len(ids) == len(set(ids))
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', two))
    references = re.findall(r'(?:href="#|url\(#)([^")]+)', one)
    assert references and set(references) <= set(ids)


def test_the_same_figure_gives_the_same_text() -> None:
    assert drawn() == drawn()


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", [*SERIES, GREY])
@pytest.mark.parametrize("paper", ["#f5f7f9", "#1d2125"])
def test_lines_stand_out_in_both_themes(color: str, paper: str) -> None:
    """WCAG 2.1, success criterion 1.4.11: at least 3 : 1 for graphics (2.7 : 1 is taken for one that is labelled)."""
    light, dark = sorted((luminance(color), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 2.7
