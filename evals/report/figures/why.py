"""A strip of all queries of a run, by the cause of their verdict."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from evals.report.causes import Cause
from evals.report.figures.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas
from evals.report.figures.scores import BEST, score_limits
from evals.report.model import QueryRow
from retrievers.records import Distance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# From the best to the worst, in scope first.
COLORS: dict[Cause, str] = {
    "right": GREEN,
    "rightly nothing": BLUE,
    "not labelled": GREY,
    "details wrong": ORANGE,
    "ranked too low": RED,
    "cut by the threshold": RED,
    "not a candidate": RED,
    "nothing returned": RED,
    "too few returned": RED,
    "wrongly answered": PURPLE,
}


def queries_strip(
    queries: Iterable[QueryRow], threshold: float | None, distance: Distance = "cosine"
) -> "Figure | None":
    """Draw every query as a tick at its best score, in the row of its reason.

    Args:
        queries: Rows of the report.
        threshold: Threshold in force, None without one.
        distance: Scale of the best scores.
    """
    ticks = [(row.cause, row.top_score) for row in queries if row.cause]
    scored = all(score is not None for _, score in ticks)
    positions: dict[Cause, list[float]] = {}
    for position, (reason, score) in enumerate(ticks, 1):
        positions.setdefault(reason, []).append(score if scored and score is not None else float(position))
    rows = [name for name in COLORS if name in positions]
    if not rows:
        return None
    figure, axes = canvas((5.6, 1.3 + 0.34 * len(rows)))
    for height, name in enumerate(reversed(rows)):
        axes.eventplot(
            positions[name], lineoffsets=height, linelengths=0.62, linewidths=1.6, colors=COLORS[name], alpha=0.85
        )
    axes.set_yticks(np.arange(len(rows)), [f"{name} · {len(positions[name])}" for name in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    if scored:
        axes.set_xlim(*score_limits([score for scores in positions.values() for score in scores], distance))
        if threshold is not None:
            axes.axvline(threshold, color=GREY, linestyle="--", linewidth=1)
    axes.set(
        xlabel=f"{BEST[distance]} of the query" if scored else "place of the query in the golden data",
        title=f"What became of {sum(map(len, positions.values()))} queries",
    )
    return figure
