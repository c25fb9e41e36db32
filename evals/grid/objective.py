"""The ranking of cells: those that meet the constraints, in the order of the objective. Pure.

Cells are compared on the queries that are scored in all cells. If over 5% of a metric's queries are scored in some
cells and not in others, cells are not ranked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.config.experiment import ObjectiveConfig
from evals.errors import ExperimentError
from evals.grid.cells import CellScores, Grid
from evals.metrics import NEED_A_JUDGE, declared
from evals.metrics.criteria import is_met, parsed
from evals.stats.intervals import Bools, Floats

MOST_DROPPED = 0.05
TOKENS, FALSE_ABSTENTION = "cost/context_tokens", "scope/false_abstention"


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The cells of a grid from the best.

    Attributes:
        weights: The metrics of the objective, each with its weight.
        values: [cells], the weighted sum of the metrics' means over the queries that are scored in all cells; NaN if a
            metric has no mean.
        order: The cells that meet the constraints, the best first. Equal cells are ordered by threshold (the least
            strict first), then by context tokens, then by number. Empty if cells cannot be ranked.
        n: Metric to the number of queries on which it compares cells.
        dropped: Metric to the number of queries that it leaves out.
        constraints: Conditions on cells.
        allowed: [cells], whether a cell meets the constraints.
        reason: Reason why cells are not ranked; empty if they are.
    """

    weights: Mapping[str, float]
    values: Floats
    order: tuple[int, ...]
    n: Mapping[str, int]
    dropped: Mapping[str, int]
    constraints: Mapping[str, str]
    allowed: Bools
    reason: str = ""


def needed(objective: ObjectiveConfig) -> list[str]:
    """Return the metrics that a ranking reads."""
    return [*objective.metrics, *objective.constraints, TOKENS, FALSE_ABSTENTION]


def rank(grid: Grid, objective: ObjectiveConfig, incomplete: str, remaining: Bools | None) -> Ranking:
    """Order the cells of a grid.

    Args:
        grid: The grid.
        objective: Metrics to optimise, and constraints.
        incomplete: Reason why not everything was judged; empty if everything was. With a reason, cells that miss the
            constraints are no error: they are not ranked.
        remaining: [cells], the cells that judging in rounds did not prove worse; None without such judging.

    Raises:
        ExperimentError: No cell meets the constraints. The message names the nearest cells.
    """
    values = np.sum([weight * grid.metrics[name].common for name, weight in objective.metrics.items()], axis=0)
    allowed = meeting(grid, objective.constraints)
    constrained = [n for n in objective.constraints if n in NEED_A_JUDGE & grid.metrics.keys()] if incomplete else []
    reasons = [_unrankable(name, grid.metrics[name]) for name in dict.fromkeys([*objective.metrics, *constrained])]
    if not allowed.any():
        if not incomplete:
            raise ExperimentError(_none_left(grid, objective.constraints))
        reasons.append("no cell meets the constraints by what was judged")
    reason = "; ".join(filter(None, reasons))
    # If all remaining cells miss the constraints, the others are ranked in their place.
    ranked = allowed & np.isfinite(values)
    if remaining is not None and (ranked & remaining).any():
        ranked &= remaining
    order = np.lexsort((grid.metrics[TOKENS].mean, grid.threshold_of, -values)).tolist()
    return Ranking(
        weights=dict(objective.metrics),
        values=values,
        order=() if reason else tuple(cell for cell in order if ranked[cell]),
        n={name: grid.metrics[name].n_common for name in objective.metrics},
        dropped={name: grid.metrics[name].n_dropped for name in objective.metrics},
        constraints=dict(objective.constraints),
        allowed=allowed,
        reason=reason,
    )


def with_criteria(
    grid: Grid, objective: ObjectiveConfig, criteria: Mapping[str, str]
) -> tuple[ObjectiveConfig, tuple[str, ...]]:
    """Make constraints of the criteria for which cells have a figure, if some cell meets all of them.

    Args:
        grid: The grid.
        objective: The objective with its constraints.
        criteria: Metric name to condition.

    Returns:
        The objective; and, if no cell meets all conditions, a note that the criteria had no part in the choice.
    """
    measured = grid.metrics.keys() | {summary.metric for summaries in grid.summaries for summary in summaries}
    conditions = {name: condition for name, condition in criteria.items() if name in measured}
    for name, condition in objective.constraints.items():
        (symbol, limit), (other, bound) = parsed(condition), parsed(conditions.get(name, condition))
        # Of two limits of a metric the stricter one holds.
        if symbol[0] != other[0] or (limit <= bound if symbol[0] == "<" else limit >= bound):
            conditions[name] = condition
    if meeting(grid, conditions).any():
        return objective.model_copy(update={"constraints": conditions}), ()
    return objective, (f"no cell has {written(conditions)}, so that the criteria had no part in the choice",)


def meeting(grid: Grid, constraints: Mapping[str, str]) -> Bools:
    """Return which cells meet every constraint, [cells]. A cell without a figure does not meet its constraint."""
    allowed = np.ones(len(grid), dtype=np.bool_)
    for metric, condition in constraints.items():
        symbol, limit = parsed(condition)
        allowed &= [is_met(symbol, value, limit) for value in figures(grid, metric, symbol).tolist()]
    return allowed


def figures(grid: Grid, metric: str, symbol: str) -> Floats:
    """Return the figure of every cell for a comparison, [cells]; NaN if there is none.

    The figure is the mean. If scores failed, it is the mean with each of them at the worse end of the metric's range.
    Neither end is the worse one of a comparison by ==: there is no figure. A metric that belongs to a variant has the
    same figure in all cells of the variant.
    """
    if metric not in grid.metrics:
        values = [{s.metric: s.value for s in summaries}.get(metric) for summaries in grid.summaries]
        return np.repeat([np.nan if value is None else value for value in values], grid.size)
    scores = grid.metrics[metric]
    low, high = declared(metric).range
    end = np.where(scores.n_failed > 0, {">": low, "<": high}.get(symbol[0], np.nan), 0.0)
    worse = (scores.mean * scores.n + end * np.maximum(1, scores.n_failed)) / np.maximum(1, scores.n + scores.n_failed)
    return np.where(scores.n_failed > 0, worse, scores.mean)


def range_of(grid: Grid, cells: Sequence[int]) -> str:
    """Return the settings that cells cover, such as `hybrid weighted, top_k 6 … 10, threshold 0.27 … 0.33`."""
    covered = [grid.cell(index) for index in cells]
    names = {grid.variants[cell.variant].name for cell in covered}
    thresholds = [cell.threshold for cell in covered if cell.threshold is not None]
    parts = [names.pop() if len(names) == 1 else f"{len(names)} retrievals"]
    for name, values in (("top_k", [cell.top_k for cell in covered]), ("threshold", thresholds)):
        if values:
            parts.append(f"{name} {' … '.join(dict.fromkeys((f'{min(values):g}', f'{max(values):g}')))}")
    return ", ".join(parts)


def _none_left(grid: Grid, constraints: Mapping[str, str]) -> str:
    """Return the message that no cell meets the constraints, with the cell that comes nearest to each of them."""
    nearest = []
    for metric, condition in constraints.items():
        symbol, limit = parsed(condition)
        values = figures(grid, metric, symbol)
        if np.isfinite(values).any():
            index = int(np.nanargmin(np.abs(values - limit)))
            nearest.append(f"{metric} {values[index]:.3f} in {range_of(grid, [index])}")
        elif metric in grid.metrics and (failed := int(grid.metrics[metric].n_failed.max())):
            nearest.append(f"{metric} is open, as up to {failed} scores failed")
    none = f"objective.constraints: none of {len(grid)} cells has {written(constraints)}"
    return f"{none}; the nearest: {', '.join(nearest) or 'none has a value'}; relax a constraint, or widen the sweep"


def written(conditions: Mapping[str, str]) -> str:
    """Return conditions by metric as text."""
    return " and ".join(f"{metric} {condition}" for metric, condition in conditions.items())


def _unrankable(metric: str, scores: CellScores) -> str:
    """Return the reason why a metric cannot rank cells; empty if it can."""
    dropped, whole = scores.n_dropped, scores.n_common + scores.n_dropped
    if whole == 0 or not np.isfinite(scores.mean).any():
        return f"{metric} scores no query"
    if dropped <= MOST_DROPPED * whole:
        return ""
    if failed := int(scores.n_failed.max()):
        return f"{metric} failed on up to {failed} of {whole} queries, and may lack {MOST_DROPPED:.0%} at most"
    return (
        f"{metric} scores {dropped} of {whole} queries in some cells and not in all, over {MOST_DROPPED:.0%}: means "
        "over different queries do not compare"
    )
