"""95% intervals of the means of all cells at once, equal to those of `evals.stats.intervals` for each."""

import numpy as np

from evals.grid.choice.standings import Floats, Integers, ObjectiveScores
from evals.metrics.declaration import Kind
from evals.stats import intervals as stats
from evals.stats import score_intervals
from evals.stats.intervals import Interval

BLOCK = 64
"""Columns that are looked at at once."""


def column_intervals(values: Floats, kind: Kind) -> tuple[Floats, Floats]:
    """Return the intervals of every column's mean over its scored queries, as a run of that cell alone has them.

    Args:
        values: [queries, cells]; NaN where a query has no score.
        kind: Kind of the metric.

    Returns:
        Lower and upper ends [cells]; NaN where not computable.
    """
    low, high = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    whole = ~np.isnan(values).any(axis=0)
    low[whole], high[whole] = _intervals(values[:, whole], kind)
    for column in np.flatnonzero(~whole).tolist():
        scored = values[~np.isnan(values[:, column]), column]
        low[column : column + 1], high[column : column + 1] = _intervals(scored[:, None], kind)
    return low, high


def objective_intervals(scores: ObjectiveScores, values: Floats) -> list[Interval]:
    """Return the interval of every column of `values`, which are some of the columns of `scores`, or all."""
    if scores.ends is not None and values is scores.values:
        low, high = scores.ends
    elif len(np.unique(scores.strata)) > 1:
        low, high = _stratified(values, scores.strata)
    elif scores.kind == "amount":
        low, high = _intervals(values, "amount")
    else:
        width = scores.ceiling - scores.floor
        # Columns some at a time: of many queries, shares of all and their squares would be gigabytes.
        blocks = np.array_split(values, -(-values.shape[1] // BLOCK) or 1, axis=1)
        shares = (np.clip((block - scores.floor) / width, 0.0, 1.0) for block in blocks)
        ends = np.concatenate([_intervals(block, scores.kind) for block in shares], axis=1)
        low, high = scores.floor + width * ends
    note = "not computable: all values are equal"
    if len(values) < stats.FEWEST:
        few = f"{len(values)} {'value is' if len(values) == 1 else 'values are'} too few"
        note = f"not computable: {few}, {stats.FEWEST} are needed"
    return [
        Interval(low=lower, high=other) if np.isfinite(lower) else Interval(note=note)
        for lower, other in zip(low.tolist(), high.tolist(), strict=True)
    ]


def _intervals(values: Floats, kind: Kind) -> tuple[Floats, Floats]:
    if kind == "proportion" and len(values):
        return score_intervals.proportion_intervals(values.mean(axis=0), np.asarray(float(len(values))))
    return stats.mean_intervals(values, shares=kind == "mean")


def _stratified(values: Floats, strata: Integers) -> tuple[Floats, Floats]:
    """Return Student's interval of the mean of means over strata, their sizes being given."""
    n, mean, square = len(values), values.mean(axis=0), np.zeros(values.shape[1])
    for stratum in np.unique(strata):
        rows = values[strata == stratum]
        square += len(rows) * rows.var(axis=0, ddof=1) / n
    square = np.where(square > stats.SAME**2, square, np.nan)
    if n < stats.FEWEST:
        square[:] = np.nan
    return score_intervals.amount_intervals(mean, square, np.zeros_like(mean), np.asarray(float(n)))
