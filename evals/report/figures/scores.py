"""Scores in scope and out of scope, and what thresholds on them could do."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from evals.grid.measure import Measured
from evals.metrics.declaration import Scope, within
from evals.metrics.scope import top_scores
from evals.report.figures.canvas import BLUE, GREY, LINE_WIDTH, ORANGE, canvas
from evals.stats.abstention import Abstention, assess
from retrievers.records import Distance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST: Mapping[Distance, str] = {
    "cosine": "best cosine similarity",
    "dot": "best dot product",
}
SCOPES: tuple[Scope, ...] = ("in_scope", "out_of_scope")


def score_distribution(result: Measured) -> "Figure | None":
    """Draw the best score of every query before the threshold, in scope against out of scope, with the threshold."""
    if any(o.top_score is None for o in result.observed.observations):
        return None
    figure, axes = canvas()
    distance = result.config.retriever.used_distance
    best = {scope: [*filter(isfinite, top_scores(within(result.observed.observations, scope)))] for scope in SCOPES}
    low, high = score_limits([score for scores in best.values() for score in scores], distance)
    bins = list(np.linspace(low, high, 41))
    for scope, color in zip(SCOPES, (BLUE, ORANGE), strict=True):
        if best[scope]:
            label = f"{scope.replace('_', ' ')} (n = {len(best[scope])})"
            axes.hist(best[scope], bins=bins, alpha=0.6, color=color, label=label)
    threshold = result.config.retriever.used_threshold
    if threshold is not None:
        axes.axvline(threshold, color=GREY, linestyle="--", label=f"threshold {threshold:g}")
    axes.set(
        xlabel=f"{BEST[distance]} of a query",
        ylabel="queries",
        title="Best score of every query, before the threshold",
    )
    axes.set_xlim(low, high)
    axes.legend(frameon=False)
    return figure


def score_limits(scores: Sequence[float], distance: Distance) -> tuple[float, float]:
    """Return the ends of an axis of scores: 0 and 1 for cosines, and else what holds them all."""
    if distance == "cosine" or not scores:
        return 0.0, 1.0
    low, high = min(scores), max(scores)
    margin = 0.02 * (high - low) or 0.5
    return low - margin, high + margin


def roc(abstention: Abstention, threshold: float | None) -> "Figure | None":
    """Draw in-scope against out-of-scope queries answered, over all thresholds; the one in force is marked."""
    points = [
        (at.false_answer, 1 - at.false_abstention)
        for at in abstention.curve
        if at.false_answer is not None and at.false_abstention is not None
    ]
    if not points:
        return None
    figure, axes = canvas()
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="chance")
    area = "" if abstention.auroc is None else f" (AUROC {abstention.auroc:.3f})"
    answered, recalled = zip(*sorted([(0.0, 0.0), (1.0, 1.0), *points]), strict=True)
    axes.plot(answered, recalled, color=BLUE, linewidth=LINE_WIDTH, label=f"all thresholds{area}")
    # The laxest of the observed scores that are at least as strict has the same effect.
    strict = sorted(abstention.curve, key=lambda at: at.threshold)
    point = next((at for at in strict if threshold is not None and at.threshold >= threshold), None)
    if point and point.false_answer is not None and point.false_abstention is not None:
        axes.plot(point.false_answer, 1 - point.false_abstention, "o", color=ORANGE, label=f"threshold {threshold:g}")
    axes.set(
        xlabel=f"out-of-scope queries answered (n = {abstention.out_of_scope})",
        ylabel=f"in-scope queries answered (n = {abstention.in_scope})",
        title="Can a threshold tell them apart?",
    )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.legend(frameon=False, loc="lower right")
    return figure


def separation_of(result: Measured) -> Abstention | None:
    """Assess all thresholds on the best score of a run's vectors; None for a retriever without such scores."""
    observations = result.observed.observations
    if any(o.top_score is None for o in observations):
        return None
    inside, outside = (top_scores(within(observations, scope)) for scope in ("in_scope", "out_of_scope"))
    return assess(inside, outside, result.config.retriever.used_distance)
