"""Recall along the candidates of a run."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evals.grid.measure import Measured
from evals.metrics.declaration import within
from evals.report.figures.canvas import BLUE, GREY, LINE_WIDTH, ORANGE, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def recall_by_rank(result: Measured) -> "Figure | None":
    """Draw mean recall of relevant chunks and of evidence items by depth of the candidates, before the threshold.

    Recall of chunks is left out where not all relevant ones are known.
    """
    observations = [o for o in within(result.observed.observations, "in_scope") if o.case.is_labelled]
    if not observations:
        return None
    depth = min(50, result.config.retriever.candidates)
    ranks = range(1, depth + 1)
    ids = [o.candidates.chunk_ids[:depth] for o in observations]
    figure, axes = canvas()
    items = [_first_ranks(ranked, o.relevance.items) for ranked, o in zip(ids, observations, strict=True)]
    axes.plot(ranks, _recall(items, depth), color=BLUE, linewidth=LINE_WIDTH, label="evidence items found")
    if not any(o.relevance.incomplete for o in observations):
        alone = [[frozenset([key]) for key in o.relevance.grades] for o in observations]
        chunks = [_first_ranks(ranked, each) for ranked, each in zip(ids, alone, strict=True)]
        axes.plot(ranks, _recall(chunks, depth), color=ORANGE, linewidth=LINE_WIDTH, label="relevant chunks found")
    top_k = result.config.retriever.top_k
    axes.axvline(top_k, color=GREY, linestyle="--", label=f"top_k {top_k}")
    axes.set(xlabel="candidates read", ylabel="recall", title=f"Recall by rank, no threshold (n = {len(ids)})")
    axes.set_ylim(0, 1)
    axes.set_xlim(1, max(2, depth))
    axes.legend(frameon=False, loc="lower right")
    return figure


def _first_ranks(ids: Sequence[str], items: Sequence[frozenset[str]]) -> list[float]:
    """Return the rank at which each item is found first, infinite where it is not."""
    ranks: dict[str, int] = {}
    for rank, chunk_id in enumerate(ids, 1):
        ranks.setdefault(chunk_id, rank)
    return [min((ranks[key] for key in item if key in ranks), default=inf) for item in items]


def _recall(first_ranks: Sequence[Sequence[float]], depth: int) -> NDArray[np.float64]:
    """Return the mean over queries of the share of items that are found by each rank from 1 to `depth`."""
    recalls = np.zeros(depth)
    for ranks in first_ranks:
        for rank in ranks:
            if rank <= depth:
                recalls[int(rank) - 1] += 1 / len(ranks)
    return np.cumsum(recalls) / len(first_ranks)
