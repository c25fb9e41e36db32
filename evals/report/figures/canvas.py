"""The size and colours that all figures share, and their SVG. Third parties enter when one is drawn."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Each has a contrast of 3 : 1 or more both on white and on near-black.
BLUE, ORANGE, GREEN, RED, PURPLE, TEAL = "#3a7cc9", "#dd7a33", "#3f9b5f", "#cf4a4a", "#8f6bc4", "#2f9aa0"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, TEAL, RED)
GREY = "#828a93"
# Text, axes and ticks; `currentColor` in SVG, so that they follow the page's theme.
INK = "#1c2024"
# Inches; at 10 points the text is still legible where a phone shows the figure 370 pixels wide.
SIZE = (5.6, 3.6)
LINE_WIDTH = 1.8
# Points beyond these are drawn as an image within the figure.
MOST_VECTORS = 2_500


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure and one sentence on how to read it; its name is of letters, digits, `-` and `_`."""

    name: str
    figure: "Figure"
    caption: str

    @cached_property
    def svg(self) -> str:
        """The figure as an element of a page that holds others; it is drawn once."""
        return svg(self.figure, self.name)

    @property
    def file(self) -> str:
        """The figure as a file of its own, dark on white."""
        return self.svg.replace("<svg ", f'<svg style="background:#fff;color:{INK}" ', 1)


@contextmanager
def style() -> Iterator[None]:
    """Set the look of all figures; names of users are never read as formulas."""
    import matplotlib

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    settings: dict[Any, Any] = {
        **dict.fromkeys(inked, INK),
        **{f"boxplot.{part}props.color": INK for part in ("box", "whisker", "cap")},
        "text.parse_math": False,
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "legend.fontsize": 9,
        "grid.color": GREY,
        "image.composite_image": False,
        "svg.fonttype": "none",
    }
    with matplotlib.rc_context(settings):
        yield


def canvas(size: tuple[float, float] = SIZE) -> tuple["Figure", "Axes"]:
    """Return an empty figure with one pair of axes, without pyplot, which would keep it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes


def svg(figure: "Figure", name: str) -> str:
    """Return a figure as an `<svg>` element for a page that holds others.

    Text stays text, the background is clear, ids are unique by the name, width and height are left to the page, and
    ink takes the colour of the page's text.

    Args:
        figure: The figure.
        name: Name of letters, digits, `-` and `_`, unique in the page.
    """
    import matplotlib

    out = StringIO()
    metadata: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with style(), matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(out, format="svg", transparent=True, metadata=metadata)
    match = re.search(r"<svg\b.*</svg>", out.getvalue(), re.DOTALL)
    assert match is not None
    text = re.sub(r"<metadata>.*?</metadata>", "", match[0], flags=re.DOTALL)
    text = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace(INK, "currentColor")
