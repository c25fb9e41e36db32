"""Judge against labels, or another proxy: the scores of a judged sample of the queries, a small plot a metric."""

from typing import TYPE_CHECKING

import numpy as np

from evals.grid.measure import Measured
from evals.grid.sampled import has_or_lacks_verdicts
from evals.report.figures.canvas import BLUE, GREY, LINE_WIDTH, ORANGE, SIZE, canvas
from evals.stats.intervals import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Plots side by side, on a phone still legible.
ACROSS = 2
# Scores of queries crowd at the same values: a point's area grows with their number.
AREA = 28.0


def judge_against_labels(result: Measured) -> "Figure | None":
    """Draw judged score against proxy's, a point a query, with the line of the weight.

    None where all queries were judged, or where no judged query has a proxy's score.
    """
    sampled = [
        summary
        for summary in result.summaries
        if summary.sampled
        and any(
            isinstance(score, float | int) and isinstance(result.scores[summary.metric][key], float | int)
            for key, score in result.proxies.get(summary.metric, {}).items()
        )
    ]
    if not sampled:
        return None
    rows = -(-len(sampled) // ACROSS)
    figure, first = canvas((SIZE[0], 3.3 * rows))
    first.remove()
    for number, summary in enumerate(sampled, 1):
        assert summary.sampled is not None and summary.value is not None
        axes = figure.add_subplot(rows, min(ACROSS, len(sampled)), number)
        axes.spines[["top", "right"]].set_visible(False)
        scores = result.scores[summary.metric]
        # As in the mean: without the queries that no judge can score.
        proxies = result.proxies[summary.metric].items()
        eligible = {key: proxy for key, proxy in proxies if has_or_lacks_verdicts(scores[key])}
        pairs = [(proxy, scores[key]) for key, proxy in eligible.items() if isinstance(scores[key], float | int)]
        numbers = [proxy for proxy in eligible.values() if isinstance(proxy, float | int)]
        centre = float(np.mean(numbers)), summary.value
        _plot(axes, np.array(pairs, dtype=float), centre, summary.sampled.weight)
        name = summary.metric.partition("/")[2].removeprefix("llm_").replace("_", " ")
        axes.set_title(f"{name}\n{summary.n} of {summary.sampled.queries}, weight {summary.sampled.weight:.2f}")
        axes.set(
            xlabel=f"{summary.sampled.proxy}\nof {len(eligible)} queries {centre[0]:.2f}",
            ylabel="judge" if number % ACROSS else "",
        )
    return figure


def _plot(axes: "Axes", pairs: Floats, centre: tuple[float, float], weight: float) -> None:
    points, counts = np.unique(pairs.round(6), axis=0, return_counts=True)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
    axes.scatter(points[:, 0], points[:, 1], s=AREA * counts, color=BLUE, alpha=0.6, linewidths=0, clip_on=False)
    mean = pairs.mean(axis=0)
    axes.plot([0, 1], mean[1] + weight * (np.array([0.0, 1.0]) - mean[0]), color=ORANGE, linewidth=LINE_WIDTH)
    axes.axvline(centre[0], color=GREY, linestyle="--", linewidth=1)
    axes.plot(*centre, "*", color=ORANGE, markersize=13)
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
