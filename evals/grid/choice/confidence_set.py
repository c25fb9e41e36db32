"""The confidence set of best cells, and the largest distance of every cell from the best.

Multiple comparisons with the best (Hsu, 1984; 1996), paired by query. Let j be the truly best cell. With 95%
probability no cell i is ahead of j by more than c_j standard errors, all i at once; c_j is Dunnett's quantile for
control j, that of the largest of the correlated deviations over all i, here by the bootstrap. So a cell leaves the set
when another is ahead of it by more, and beyond doubt even if losses were not seen. Cells that have left are no rivals
of those that stay, whose quantiles are then taken over fewer, until none leaves (step-down max-T, Romano & Wolf, 2005).

The least over the members j of (i − j) − c_j · standard error, with added losses and c_j over all cells, is cell i's
simultaneous lower bound.

Why this and not other methods: docs/choice.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice.empirical_likelihood import beyond_doubt
from evals.grid.choice.pairs import Pairs, Places
from evals.grid.choice.standings import Bools, Floats

# Simultaneous over all cells.
LEVEL = 0.95
# With no difference seen between two cells on n queries the bound is about −(1 + c)/n of the span: rule of three.
LEAST = 2.0
# Differences of resamples that a step takes at most, but for the fewest resamples.
WORK = 250_000_000
FEWEST_RESAMPLES = 1_000
# Cells ahead that the likelihood test examines for a column; it is the slowest step.
ASKED = 32
# Cells and resamples at once: single-precision numbers that stay in a processor's cache.
BLOCK = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class BestSet:
    """Confidence set of best cells with the bounds of all cells.

    Attributes:
        members: [cells], whether a cell is in the confidence set.
        lower: [cells], bound on (cell − truly best one), at most 0.
        quantiles: [cells], c_j of the members over all cells, at least `LEAST`, NaN of others.
    """

    members: Bools
    lower: Floats
    quantiles: Floats


def best_set(pairs: Pairs, deviations: NDArray[np.float32], rng: np.random.Generator) -> BestSet:
    """Find the confidence set and the bounds.

    Deviations are divided by the square root of χ²/freedom, the same for all cells of a resample, as in the
    multivariate t distribution: the standard errors are estimates too.

    Args:
        pairs: Comparison of all cells.
        deviations: [resamples, cells].
        rng: Random generator of the resampling.
    """
    freedom = pairs.freedom
    scaled = deviations * np.sqrt(freedom / rng.chisquare(freedom, size=(len(deviations), 1))).astype(np.float32)
    left = _step_down(pairs, scaled)
    quantiles = np.full(len(pairs.cells), np.nan)
    difference, variance = pairs.between(pairs.cells, left)
    quantiles[left] = np.maximum(_quantiles(pairs.n, variance, scaled, left, pairs.cells), LEAST)
    moved, error = pairs.with_losses(difference, variance)
    bounds = moved - quantiles[left] * error
    bounds[left, np.arange(len(left))] = 0.0
    members = np.isin(pairs.cells, left)
    return BestSet(members=members, lower=np.minimum(bounds.min(axis=1), 0.0), quantiles=quantiles)


def behind_its_like(pairs: Pairs, best: BestSet) -> Floats:
    """Return the bounds [cells] of a cell against another that scored the same on every query; 0 outside of the set."""
    moved, error = pairs.with_losses(np.zeros(1), np.zeros(1))
    return np.where(best.members, moved - np.nan_to_num(best.quantiles) * error, 0.0)


def _step_down(pairs: Pairs, scaled: NDArray[np.float32]) -> Places:
    """Return the members of the set."""
    from scipy.special import stdtrit

    cells = np.argsort(-pairs.values.mean(axis=0), kind="stable")
    best = cells[:1]
    # By Bonferroni no quantile is larger.
    largest = stdtrit(pairs.freedom, 1 - (1 - LEVEL) / len(cells))
    left = cells[~_beaten(pairs, best, cells, _leads(pairs, best, cells), np.full(len(cells), largest))]
    leads, variance = _leads(pairs, left, left), pairs.between(left, left)[1]
    while True:
        beaten = _beaten(pairs, left, left, leads, _quantiles(pairs.n, variance, scaled, left, left))
        if not beaten.any():
            return left
        remaining = np.ix_(~beaten, ~beaten)
        left, leads, variance = left[~beaten], leads[remaining], variance[remaining]


def _leads(pairs: Pairs, rows: Places, columns: Places) -> Floats:
    """Return the lead of each row over each column, in standard errors."""
    difference, variance = pairs.between(rows, columns)
    error = np.sqrt(variance / (pairs.n - pairs.strata))
    return np.divide(difference, error, out=np.where(difference > 0, np.inf, 0.0), where=error > 0)


def _beaten(pairs: Pairs, rows: Places, columns: Places, leads: Floats, quantiles: Floats) -> Bools:
    """Return the columns that some row is ahead of by more than their quantile and beyond doubt.

    Of the rows, the best first, no more than `ASKED` are looked at: with fewer, more columns stay.
    """
    beaten = np.zeros(len(columns), dtype=np.bool_)
    for column in np.flatnonzero(leads.max(axis=0) > quantiles).tolist():
        ahead = rows[leads[:, column] > quantiles[column]][:ASKED]
        differences = pairs.values[:, ahead] - pairs.values[:, [columns[column]]]
        beaten[column] = beyond_doubt(differences, pairs.typical_loss).any()
    return beaten


def _quantiles(n: int, variance: Floats, scaled: NDArray[np.float32], controls: Places, rivals: Places) -> Floats:
    """Return Dunnett's quantile for every control. Very large grids use fewer resamples.

    Args:
        n: Queries.
        variance: [rivals, controls], of a query's difference.
        scaled: [resamples, cells], deviations.
        controls: Some of the cells.
        rivals: Those that they are compared with.
    """
    rows = int(np.clip(WORK // (len(rivals) * len(controls)), FEWEST_RESAMPLES, len(scaled)))
    error = np.sqrt(variance / n)
    weights = np.divide(1.0, error, out=np.zeros_like(error), where=error > 0).astype(np.float32)
    largest = _largest(scaled[:rows, rivals], scaled[:rows, controls], weights.T)
    return np.asarray(np.quantile(largest, LEVEL, axis=1))


def _largest(
    rivals: NDArray[np.float32], controls: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the largest lead of a rival over each control in each resample, in standard errors."""
    resamples, cells = rivals.shape
    largest = np.full((controls.shape[1], resamples), -np.inf, dtype=np.float32)
    for start in range(0, resamples, BLOCK):
        drawn = slice(start, start + BLOCK)
        for first in range(0, cells, BLOCK):
            part = np.ascontiguousarray(rivals[drawn, first : first + BLOCK].T)
            moved = np.empty_like(part)
            weighted = weights[:, first : first + BLOCK, None]
            for own, weight, furthest in zip(controls[drawn].T, weighted, largest, strict=True):
                np.subtract(part, own, out=moved)
                np.multiply(moved, weight, out=moved)
                np.maximum(furthest[drawn], moved.max(axis=0), out=furthest[drawn])
    return largest
