"""What is found along the candidates of a run."""

from typing import TYPE_CHECKING

import numpy as np

from evals.metrics.base import within
from evals.metrics.ranking import evidence_recall, recall
from evals.metrics.run_result import RunResult
from evals.report.figures.canvas import BLUE, GREY, LINE_WIDTH, ORANGE, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    figure, axes = canvas()
    axes.plot(ranks, items, color=BLUE, linewidth=LINE_WIDTH, label="evidence items found")
    if not any(o.relevance.incomplete for o in observations):
        pairs = list(zip(ids, observations, strict=True))
        chunks = [np.mean([recall(i, o.relevance.grades, k) for i, o in pairs]) for k in ranks]
        axes.plot(ranks, chunks, color=ORANGE, linewidth=LINE_WIDTH, label="relevant chunks found")
    top_k = result.config["retriever"]["top_k"]
    axes.axvline(top_k, color=GREY, linestyle="--", label=f"top_k {top_k}")
    axes.set(xlabel="candidates read", ylabel="recall", title=f"Recall by rank, no threshold (n = {len(ids)})")
    axes.set_ylim(0, 1)
    axes.set_xlim(1, max(2, depth))
    axes.legend(frameon=False, loc="lower right")
    return figure
