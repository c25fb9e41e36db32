"""Which queries a run answers as it should, and why it does not answer the others."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from evals.collect.observations import Observation, QueryVerdict
from evals.metrics.run_result import RunResult
from evals.report.figures.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Why = Literal[
    "right",
    "rightly nothing",
    "details wrong",
    "ranked too low",
    "not a candidate",
    "nothing returned",
    "too few returned",
    "wrongly answered",
]
COLORS: dict[Why, str] = {
    "right": GREEN,
    "rightly nothing": BLUE,
    "details wrong": ORANGE,
    "ranked too low": RED,
    "not a candidate": RED,
    "nothing returned": RED,
    "too few returned": RED,
    "wrongly answered": PURPLE,
}
"""From the best to the worst, in scope first."""


def why(observation: Observation, verdict: QueryVerdict) -> Why:
    """What became of a query, in two words."""
    if verdict.outcome == "SUCCESS":
        return "right" if observation.case.in_scope else "rightly nothing"
    if verdict.outcome == "PARTIAL_SUCCESS":
        return "details wrong"
    if not observation.case.in_scope:
        return "wrongly answered"
    if not observation.selection:
        return "nothing returned"
    relevant = observation.relevance.grades.keys()
    if any(found.chunk.chunk_id in relevant for found in observation.selection[:5]):
        return "too few returned"
    known = any(found.chunk.chunk_id in relevant for found in observation.candidates.chunks)
    return "ranked too low" if known else "not a candidate"


def queries_strip(result: RunResult) -> "Figure | None":
    """Every query as a tick at its best score, in the row of what became of it."""
    verdicts = {verdict.query_id: verdict for verdict in result.validation.verdicts}
    found: dict[Why, list[float]] = {}
    scored = all(o.top_score is not None for o in result.observed.observations)
    for place, o in enumerate(result.observed.observations, 1):
        at = o.top_score if scored and o.top_score is not None else float(place)
        if o.case.id in verdicts:
            found.setdefault(why(o, verdicts[o.case.id]), []).append(at)
    rows = [name for name in COLORS if name in found]
    if not rows:
        return None
    figure, axes = canvas((5.6, 1.3 + 0.34 * len(rows)))
    for row, name in enumerate(reversed(rows)):
        axes.eventplot(found[name], lineoffsets=row, linelengths=0.62, linewidths=1.6, colors=COLORS[name], alpha=0.85)
    axes.set_yticks(np.arange(len(rows)), [f"{name} · {len(found[name])}" for name in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    threshold = result.config["retriever"].get("threshold")
    if scored:
        axes.set_xlim(0, 1)
        if threshold is not None:
            axes.axvline(threshold, color=GREY, linestyle="--", linewidth=1)
    axes.set(
        xlabel="best cosine similarity of the query" if scored else "place of the query in the golden data",
        title=f"What became of {sum(map(len, found.values()))} queries",
    )
    return figure
