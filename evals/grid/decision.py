"""The decision: which cell to take for the share of wrong answers that a user accepts. Pure.

The *utility* of a cell makes one number of the objective in scope and of the abstention out of scope. With the weight w
of out-of-scope queries (`objective.out_of_scope`) it is (1 − w) · the weighted mean of the objective's metrics over
in-scope queries, plus w · the share of out-of-scope queries for which nothing was returned. A metric over all queries,
such as a price for tokens, is added as it is. The decision shows the best cell for each accepted share of
wrong answers, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import VERDICT_METRIC, Summary
from evals.config.experiment import ObjectiveConfig
from evals.grid.cells import Grid, score_cells
from evals.grid.choice import Choice
from evals.grid.objective import FALSE_ABSTENTION, TOKENS, range_of
from evals.grid.sampled import figures_of
from evals.metrics import metric_named
from evals.metrics.declaration import Context, QueryMetric, Scope
from evals.stats.intervals import SAME, Bools, Floats, Integers

ABSTENTION, FALSE_ANSWER = "scope/abstention", "scope/false_answer"
ANY = 1.0
NO_OUT_OF_SCOPE = (
    "no golden query of this run is out of scope, so no threshold can be chosen: what it costs is seen, what it is "
    "good for is not; where --limit has not left them out, "
    "python -m evals.golden synthesize --out-of-scope 30 writes some (docs/golden.md)"
)


class Figures(NamedTuple):
    """Figures of a cell in scope and out of scope, each with its 95% interval.

    Attributes:
        found: Mean of the first metric of the objective that is over in-scope queries.
        false_answer: Share of the out-of-scope queries that are answered.
        false_abstention: Share of the in-scope queries that are not answered.
        passed: Pass rate.
    """

    found: Summary
    false_answer: Summary
    false_abstention: Summary
    passed: Summary


@dataclass(frozen=True, kw_only=True)
class Level:
    """The cell to take if at most a share of the out-of-scope queries may be answered.

    Attributes:
        limit: The share; 1 for any.
        cell: The best cell within the limit by the objective in scope; None if no cell is within it.
        figures: Figures of that cell; empty if there is none.
        nearest: The least share of out-of-scope queries that any cell answers.
        held_out: `found` of the cell on queries that had no part in the choice; None without such queries.
        held_out_false_answer: `false_answer` of the cell on such queries; None without any out of scope.
    """

    limit: float
    cell: int | None
    figures: Figures | tuple[()] = ()
    nearest: float
    held_out: Summary | None = None
    held_out_false_answer: Summary | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The cell to take for each share of wrong answers that a user accepts.

    Attributes:
        weight: The weight of out-of-scope queries in the objective, 0 to 1.
        levels: A cell for each accepted share of wrong answers, from any share to the smallest.
        recommended: The cell that was chosen. Its limit is the share of wrong answers that it gives.
        may_be_best: Settings that the confidence set of best cells covers, as text.
        promise: The rates of wrong answers that thresholds promise for questions like these; empty without a promise.
    """

    weight: float
    levels: tuple[Level, ...]
    recommended: Level
    may_be_best: str
    promise: str = ""


def with_utility(objective: ObjectiveConfig, thresholds: Sequence[float], cases: Sequence[Case]) -> ObjectiveConfig:
    """Return the objective as utility: (1 − w) · the mean of its metrics + w · `scope/abstention`.

    The objective stays as it is if fewer than two thresholds are swept, if the golden data lacks in-scope or
    out-of-scope queries, or if the objective weighs out-of-scope queries itself.

    Args:
        objective: The objective. Its `out_of_scope` is w.
        thresholds: The thresholds of the sweep.
        cases: The golden queries.
    """
    gains, weight = over_scope(objective, "in_scope"), objective.out_of_scope
    both_kinds = {case.in_scope for case in cases} == {True, False}
    if len(thresholds) < 2 or not any(gains.values()) or over_scope(objective, "out_of_scope") or not both_kinds:
        return objective
    total = sum(map(abs, gains.values()))
    # Metrics over all queries keep their rate against those in scope.
    weights = {name: rate / total * ((1 - weight) if name in gains else 1) for name, rate in objective.metrics.items()}
    return objective.model_copy(update={"metrics": weights | ({ABSTENTION: weight} if weight else {})})


def decision(
    grid: Grid, objective: ObjectiveConfig, allowed: Bools, choice: Choice, context: Context
) -> Decision | None:
    """Return the best cell within each accepted share of wrong answers.

    Args:
        grid: The cells, with their scores.
        objective: The objective, as utility if that was possible (`with_utility`).
        allowed: [cells], whether a cell meets the constraints.
        choice: The cell that was chosen, and the cells that may be as good.
        context: Inputs of the metrics.

    Returns:
        The decision; None if the golden data lacks in-scope or out-of-scope queries, if the objective has no in-scope
        metric, or if no cell that meets the constraints has a value.
    """
    gains, losses = over_scope(objective, "in_scope"), over_scope(objective, "out_of_scope")
    if not gains or {case.in_scope for case in grid.pool.cases} != {True, False}:
        return None
    in_scope = sum(map(abs, gains.values()))
    total = in_scope + sum(map(abs, losses.values()))
    if not total:
        return None
    weight = round(1 - in_scope / total, 12)
    if weight == 1:  # what is found has no part in the choice, and is shown nevertheless
        gains, in_scope = dict.fromkeys(gains, 1.0), len(gains)
    names = (next(iter(gains)), FALSE_ANSWER, FALSE_ABSTENTION, VERDICT_METRIC)
    metrics = [metric for name in names if isinstance(metric := metric_named(name), QueryMetric)]
    scores = score_cells(grid, {metric.name: metric for metric in metrics[1:3]}, context)
    false_answer, false_abstention = scores[FALSE_ANSWER].mean, scores[FALSE_ABSTENTION].mean
    # By cell: the objective in scope, with the metrics over all queries.
    shares = {name: value / in_scope for name, value in gains.items()}
    shares |= {name: value / total for name, value in objective.metrics.items() if name not in gains | losses}
    gain: Floats = sum((share * grid.metrics[name].common for name, share in shares.items()), np.zeros(len(grid)))
    # As everywhere, of equal cells the least strict is preferred, then the cheapest.
    preference = np.lexsort((grid.metrics[TOKENS].mean, grid.threshold_of))
    preference = preference[(allowed & np.isfinite(gain))[preference]]
    if not len(preference):
        return None
    # A cell that answers nothing at all is nobody's choice, however few wrong answers it gives.
    answering = preference[false_abstention[preference] < 1 - SAME]
    nearest = float(false_answer[answering].min(initial=ANY))

    def level(limit: float, index: int | None) -> Level:
        figures = () if index is None else Figures(*(figures_of(grid, metric, index, context) for metric in metrics))
        return Level(limit=limit, cell=index, figures=figures, nearest=nearest)

    chosen = choice.recommended.cell
    limits = (ANY, *sorted({limit for limit in objective.wrong_answers if limit < ANY}, reverse=True))
    return Decision(
        weight=weight,
        levels=tuple(level(limit, _best_within(gain, false_answer, limit, answering)) for limit in limits),
        recommended=level(float(false_answer[chosen]), chosen),
        may_be_best=range_of(grid, choice.may_be_best),
    )


def over_scope(objective: ObjectiveConfig, scope: Scope) -> dict[str, float]:
    """Return the metrics of an objective that are over queries of one scope, with their weights."""
    metrics = ((metric_named(name), weight) for name, weight in objective.metrics.items())
    return {m.name: weight for m, weight in metrics if isinstance(m, QueryMetric) and m.scope == scope}


def _best_within(gain: Floats, false_answer: Floats, limit: float, preference: Integers) -> int | None:
    """Return the cell with the highest gain among those within a share of wrong answers; None if there is none.

    Of equal ones it is the one with the fewest wrong answers, where these are limited.
    """
    within = preference[false_answer[preference] <= limit + SAME]
    best = within[gain[within] >= gain[within].max(initial=-np.inf) - SAME]
    return int(best[false_answer[best].argmin() if limit < ANY else 0]) if len(best) else None
