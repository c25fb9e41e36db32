"""The figures of a run: score distributions, recall by rank, latency by stage. Matplotlib figures out, no files."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from evals.metrics.base import within
from evals.metrics.latency import STAGES, stage_values
from evals.metrics.ranking import evidence_recall, recall
from evals.metrics.scope import top_scores
from evals.records import RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#2a6fbb", "#d9722b", "#666666"
SIZE = (7.2, 4.0)


def draw(result: RunResult) -> dict[str, "Figure"]:
    """All figures that the run has data for, by name."""
    painters: Mapping[str, Callable[[RunResult], Figure | None]] = {
        "score_distribution": score_distribution,
        "recall_by_rank": recall_by_rank,
        "latency_by_stage": latency_by_stage,
    }
    drawn = {name: paint(result) for name, paint in painters.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def score_distribution(result: RunResult) -> "Figure | None":
    """Best score of every query before the threshold, in scope against out of scope, with the threshold, if any."""
    if any(o.top_score is None for o in result.observed.observations):
        return None
    figure, axes = _canvas()
    bins = np.linspace(0, 1, 41)
    for scope, color, label in (("in_scope", BLUE, "in scope"), ("out_of_scope", ORANGE, "out of scope")):
        scores = top_scores(within(result.observed.observations, scope))  # type: ignore[arg-type]
        if scores:
            axes.hist(scores, bins=list(bins), alpha=0.6, color=color, label=f"{label} (n = {len(scores)})")
    threshold = result.config["retriever"].get("threshold")
    if threshold is not None:
        axes.axvline(threshold, color=GREY, linestyle="--", label=f"threshold {threshold:g}")
    axes.set(
        xlabel="best cosine similarity of a query",
        ylabel="queries",
        title="Best score of every query, before the threshold",
    )
    axes.set_xlim(0, 1)
    axes.legend(frameon=False)
    return figure


def recall_by_rank(result: RunResult) -> "Figure | None":
    """Mean recall of relevant chunks and of evidence items along the candidates, before the threshold, by depth.

    Recall of chunks is left out where not all relevant ones are known.
    """
    observations = within(result.observed.observations, "in_scope")
    if not observations:
        return None
    depth = min(50, result.config["retriever"]["candidates"])
    ids = [tuple(c.chunk.chunk_id for c in o.candidates.chunks) for o in observations]
    ranks = range(1, depth + 1)
    items = [
        np.mean([evidence_recall(i, o.relevance.items, k) for i, o in zip(ids, observations, strict=True)])
        for k in ranks
    ]
    figure, axes = _canvas()
    axes.plot(ranks, items, color=BLUE, label="evidence items found")
    if not any(o.relevance.incomplete for o in observations):
        pairs = list(zip(ids, observations, strict=True))
        chunks = [np.mean([recall(i, o.relevance.grades, k) for i, o in pairs]) for k in ranks]
        axes.plot(ranks, chunks, color=ORANGE, label="relevant chunks found")
    top_k = result.config["retriever"]["top_k"]
    axes.axvline(top_k, color=GREY, linestyle="--", label=f"top_k {top_k}")
    axes.set(xlabel="candidates read", ylabel="recall", title=f"Recall by rank, before the threshold (n = {len(ids)})")
    axes.set_ylim(0, 1)
    axes.set_xlim(1, max(2, depth))
    axes.legend(frameon=False, loc="lower right")
    return figure


def latency_by_stage(result: RunResult) -> "Figure | None":
    """Box plots of the stages' times at each concurrency; whiskers from p5 to p95."""
    boxes = [
        (f"{stage}\n×{timed.concurrency}", stage_values(timed, stage))
        for timed in result.observed.latency
        for stage in STAGES
        if stage_values(timed, stage)
    ]
    if not boxes:
        return None
    figure, axes = _canvas()
    axes.boxplot(
        [values for _, values in boxes],
        tick_labels=[label for label, _ in boxes],
        whis=(5, 95),
        showfliers=False,
        medianprops={"color": ORANGE},
    )
    axes.set(
        ylabel="milliseconds", title="Latency of single calls by stage and concurrency (box: quartiles; p5 to p95)"
    )
    axes.set_ylim(bottom=0)
    return figure


def _canvas() -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes
