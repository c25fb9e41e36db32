"""Trade-offs of a grid: quality against precision, context tokens and time."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evals.grid.cells import pareto_front
from evals.grid.measure import Swept
from evals.grid.objective import TOKENS
from evals.report.figures.canvas import BLUE, GREY, INK, LINE_WIDTH, MOST_VECTORS, ORANGE, SERIES, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Recall and precision; the first pair that a grid has is drawn.
PAIRS = (
    ("ragas/llm_context_recall", "ragas/llm_context_precision"),
    ("ragas/id_context_recall", "ragas/id_context_precision"),
    ("ragas/nonllm_context_recall", "ragas/nonllm_context_precision"),
)
LATENCY = "latency/total_p50_ms"


def precision_by_recall(result: Swept) -> "Figure | None":
    """Draw precision against recall along `top_k` at the recommended threshold, a line for each configuration."""
    grid = result.grid
    pair = next((pair for pair in PAIRS if all(name in grid.metrics for name in pair)), None)
    if pair is None or result.choice is None or len(grid.top_ks) < 2:
        return None
    recall, precision = (grid.metrics[name].mean for name in pair)
    chosen = grid.cell(result.choice.recommended.cell)
    figure, axes = canvas()
    for index, configuration in enumerate(grid.configurations):
        row = int(np.argmin(np.abs(np.asarray(configuration.thresholds) - (chosen.threshold or 0.0))))
        start = grid.start(index) + row * len(grid.top_ks)
        cells = slice(start, start + len(grid.top_ks))
        if index < len(SERIES):
            axes.plot(
                recall[cells],
                precision[cells],
                marker=".",
                color=SERIES[index],
                linewidth=LINE_WIDTH,
                label=configuration.name,
            )
            _ends(axes, recall[cells], precision[cells], grid.top_ks)
    star = recall[chosen.index], precision[chosen.index]
    axes.scatter(*star, marker="*", s=160, color=ORANGE, edgecolors=INK, zorder=4)
    threshold = "" if chosen.threshold is None else f", threshold {chosen.threshold:g}"
    axes.set(xlabel=pair[0], ylabel=pair[1], title=f"Precision and recall along top_k{threshold}")
    axes.legend(frameon=False)
    return figure


def quality_by_tokens(result: Swept) -> "Figure | None":
    """Draw the objective against context tokens in every cell that meets the constraints, with the Pareto front."""
    choice, grid = result.choice, result.grid
    if choice is None or len(result.ranking.order) < 2 or TOKENS not in grid.metrics:
        return None
    order = np.asarray(result.ranking.order)
    tokens, values = grid.metrics[TOKENS].mean, result.ranking.values
    inside = np.asarray([cell for standing in choice.best_set for cell in standing.members], dtype=np.int64)
    outside = np.setdiff1d(order, inside)
    figure, axes = canvas()
    _scatter(axes, tokens[outside], values[outside], GREY, "other cells")
    _scatter(axes, tokens[inside], values[inside], BLUE, "may be the best" if not choice.note else "cells")
    masked = np.full(len(grid), np.nan)
    masked[order] = values[order]
    front = pareto_front(masked, tokens)
    axes.step(tokens[front], values[front], where="post", color=INK, linewidth=1, label="Pareto front")
    axes.scatter(
        choice.recommended.cost, choice.recommended.value, marker="*", s=170, color=ORANGE, edgecolors=INK, zorder=4,
        label="recommended",
    )  # fmt: skip
    axes.set(xlabel="context tokens, mean per query", ylabel=choice.objective, title="Quality by context tokens")
    axes.legend(frameon=False, loc="lower right")
    return figure


def quality_by_latency(result: Swept) -> "Figure | None":
    """Draw the best allowed cell of each configuration, with its interval, against the median time of a search."""
    if result.choice is None:
        return None
    points = []
    for index, configuration in enumerate(result.grid.configurations):
        time = next((s.value for s in configuration.summaries if s.metric == LATENCY), None)
        standings = (s for s in result.choice.standings if result.grid.cell(s.cell).configuration == index)
        best = next(standings, None)
        if time is not None and best is not None:
            points.append((time, best, configuration.name))
    if len(points) < 2:
        return None
    figure, axes = canvas()
    for index, (time, best, name) in enumerate(points):
        color = SERIES[index % len(SERIES)]
        if best.interval.low is not None and best.interval.high is not None:
            axes.plot([time, time], [best.interval.low, best.interval.high], color=color, linewidth=LINE_WIDTH)
        axes.plot(time, best.value, "o", color=color, label=name)
    axes.set(
        xlabel="milliseconds, median of single searches", ylabel=result.choice.objective, title="Quality by latency"
    )
    axes.set_xlim(left=0)
    axes.legend(frameon=False, title="best cell of", title_fontsize=9)
    return figure


def _ends(axes: "Axes", x: NDArray[np.float64], y: NDArray[np.float64], top_ks: tuple[int, ...]) -> None:
    for end in (0, -1):
        if np.isfinite(x[end]) and np.isfinite(y[end]):
            at = (x[end], y[end])
            axes.annotate(str(top_ks[end]), at, xytext=(4, 4), textcoords="offset points", fontsize=8)


def _scatter(axes: "Axes", x: NDArray[np.float64], y: NDArray[np.float64], color: str, label: str) -> None:
    if len(x):
        axes.scatter(x, y, s=9, color=color, alpha=0.55, linewidths=0, label=label, rasterized=len(x) > MOST_VECTORS)
