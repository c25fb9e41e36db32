"""Cells in the order of what the user optimises, those that meet the constraints. Pure.

Cells are compared on the queries that are scored in all of them; where over 5% of a metric's queries are scored in some
cells and not in others, they are not ranked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.config.criterion_text import CRITERION
from evals.config.sweep import ObjectiveConfig
from evals.errors import ExperimentError
from evals.grid.cells import CellScores, Grid
from evals.metrics.criteria import COMPARISONS

MOST_DROPPED = 0.05
NEAREST = 3
TOKENS = "cost/context_tokens"


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The cells of a grid from the best.

    Attributes:
        weights: The metrics that are optimised, each with its weight.
        values: The weighted sum of their means in every cell, over the queries scored in all cells; NaN without one.
        order: The cells that meet the constraints, the best first; equal ones by threshold, the least strict
            first, then by context tokens, then by number. Empty where cells cannot be ranked.
        n: On how many queries each of the metrics compares cells; `dropped`, how many it leaves out.
        constraints: Conditions on cells; `excluded` is the number of cells that do not meet them.
        reason: Why cells are not ranked; empty where they are.
    """

    weights: Mapping[str, float]
    values: NDArray[np.float64]
    order: tuple[int, ...]
    n: Mapping[str, int]
    dropped: Mapping[str, int]
    constraints: Mapping[str, str]
    excluded: int
    reason: str = ""


def needed(objective: ObjectiveConfig) -> list[str]:
    """Return the metrics that a ranking reads."""
    return [*objective.metrics, *objective.constraints, TOKENS]


def rank(
    grid: Grid, objective: ObjectiveConfig, incomplete: str = "", remaining: NDArray[np.bool_] | None = None
) -> Ranking:
    """Order the cells of a grid.

    Args:
        grid: The grid.
        objective: Metrics to optimise, and constraints.
        incomplete: Why not everything was judged; then it is no fault of the user if no cell meets the constraints.
        remaining: [cells], those that were not proved worse while they were judged; None where none was.

    Raises:
        ExperimentError: No cell meets the constraints; the nearest are named.
    """
    scores = {name: grid.metrics[name] for name in objective.metrics}
    parts = [weight * scores[name].common for name, weight in objective.metrics.items()]
    values = np.add.reduce(parts, axis=0)
    allowed, misses = _allowed(grid, objective.constraints)
    partly = [name for name in objective.constraints if name in grid.metrics] if incomplete else []
    reasons = [_unrankable(name, grid.metrics[name]) for name in dict.fromkeys((*scores, *partly))]
    if len(grid) and not allowed.any():
        if not incomplete:
            raise ExperimentError(_none_left(grid, objective.constraints, misses))
        reasons.append("no cell meets the constraints by what was judged")
    excluded = int((~allowed).sum())
    if remaining is not None:
        # Where the constraints leave none of them, a cell that was proved worse is the best of those that meet them.
        allowed = allowed & remaining if (allowed & remaining).any() else allowed
    reason = "; ".join(filter(None, reasons))
    tokens = grid.metrics[TOKENS].mean if TOKENS in grid.metrics else np.zeros(len(grid))
    order = np.lexsort((tokens, thresholds(grid), -values))
    return Ranking(
        weights=dict(objective.metrics),
        values=values,
        order=() if reason else tuple(cell for cell in order.tolist() if allowed[cell] and np.isfinite(values[cell])),
        n={name: metric.n_common for name, metric in scores.items()},
        dropped={name: metric.n_dropped for name, metric in scores.items()},
        constraints=dict(objective.constraints),
        excluded=excluded,
        reason=reason,
    )


def with_criteria(
    grid: Grid, objective: ObjectiveConfig, criteria: Mapping[str, str]
) -> tuple[ObjectiveConfig, tuple[str, ...]]:
    """Return an objective with the criteria that cells have a figure for as constraints, where some cell meets all.

    Args:
        grid: The grid.
        objective: With its own constraints.
        criteria: Metric name to condition.

    Returns:
        The objective; and where no cell meets the criteria, a note that they had no part in the choice.
    """
    of_configurations = {summary.metric for each in grid.configurations for summary in each.summaries}
    own = {name: condition for name, condition in criteria.items() if name in grid.metrics.keys() | of_configurations}
    both = {**own, **objective.constraints}
    if meeting(grid, both).any():
        return objective.model_copy(update={"constraints": both}), ()
    if not meeting(grid, objective.constraints).any():
        return objective, ()
    conditions = " and ".join(f"{metric} {condition}" for metric, condition in own.items())
    return objective, (f"no cell meets the criteria ({conditions}), so that they had no part in the choice",)


def meeting(grid: Grid, constraints: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which cells meet every constraint."""
    return _allowed(grid, constraints)[0]


def thresholds(grid: Grid) -> NDArray[np.float64]:
    """Return the threshold of every cell; 0 where none is in force."""
    cuts = len(grid.top_ks)
    return np.concatenate([np.empty(0), *(np.repeat(c.thresholds, cuts) for c in grid.configurations)])


def figures(grid: Grid, metric: str, *, symbol: str) -> NDArray[np.float64]:
    """Return the figure of every cell for a condition: the mean, or where scores failed the worse bound.

    A metric that belongs to configurations has the same figure in all their cells. NaN where there is none.

    Args:
        grid: The grid.
        metric: Its name.
        symbol: The comparison, which says which bound is the worse.
    """
    if metric in grid.metrics:
        summaries = grid.metrics[metric]
        whole = np.maximum(1, summaries.n + summaries.n_failed)
        summed = summaries.mean * summaries.n
        worse = summed / whole if symbol.startswith(">") else (summed + summaries.n_failed) / whole
        return np.where(summaries.n_failed > 0, worse, summaries.mean)
    values = [next((s.value for s in c.summaries if s.metric == metric), None) for c in grid.configurations]
    counts = [*map(grid.size, range(len(grid.configurations)))]
    return np.repeat([np.nan if value is None else value for value in values], counts)


def _allowed(grid: Grid, constraints: Mapping[str, str]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which cells meet every constraint, and by how much the others miss; a figure that does not exist meets none."""
    allowed = np.ones(len(grid), dtype=np.bool_)
    misses = np.zeros(len(grid))
    for metric, condition in constraints.items():
        symbol, limit = _read(condition)
        values = figures(grid, metric, symbol=symbol)
        met = np.asarray([bool(COMPARISONS[symbol](value, limit)) for value in values.tolist()])
        allowed &= met
        scale = max(abs(limit), float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0) or 1.0
        misses += np.where(met, 0.0, np.where(np.isfinite(values), np.abs(values - limit) / scale, np.inf))
    return allowed, misses


def _read(condition: str) -> tuple[str, float]:
    match = CRITERION.fullmatch(condition)
    if match is None:
        raise ExperimentError(f"objective.constraints: expected a condition such as '<= 0.1', got {condition!r}")
    return match[1], float(match[2])


def _none_left(grid: Grid, constraints: Mapping[str, str], misses: NDArray[np.float64]) -> str:
    conditions = " and ".join(f"{metric} {condition}" for metric, condition in constraints.items())
    lines = [f"objective.constraints: none of {len(grid)} cells has {conditions}; the nearest:"]
    for index in np.argsort(misses, kind="stable")[:NEAREST].tolist():
        shown = [_shown(grid, metric, condition, index) for metric, condition in constraints.items()]
        lines.append(f"  {describe(grid, index)}: {', '.join(shown)}")
    return "\n".join([*lines, "relax a constraint, or widen the sweep"])


def _shown(grid: Grid, metric: str, condition: str, index: int) -> str:
    value = float(figures(grid, metric, symbol=_read(condition)[0])[index])
    return f"{metric} {value:.3f}" if np.isfinite(value) else f"{metric} without a value"


def describe(grid: Grid, index: int) -> str:
    """A cell in a few words."""
    cell = grid.cell(index)
    threshold = "" if cell.threshold is None else f", threshold {cell.threshold:g}"
    return f"{grid.configurations[cell.configuration].name}, top_k {cell.top_k}{threshold}"


def _unrankable(metric: str, scores: CellScores) -> str:
    dropped, whole = scores.n_dropped, scores.n_common + scores.n_dropped
    if whole == 0:
        return f"{metric} scores no query"
    if dropped > MOST_DROPPED * whole:
        return (
            f"{metric} scores {dropped} of {whole} queries in some cells and not in all, "
            f"over {MOST_DROPPED:.0%}: means over different queries do not compare"
        )
    return ""
