"""The confidence set of best cells, and how far every cell may be behind the best.

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

from evals.grid.choice.likelihood import beyond_doubt
from evals.grid.choice.pairs import Pairs, Places
from evals.grid.choice.standings import Bools, Floats

LEVEL = 0.95
LEAST = 2.0
"""With no difference seen between two cells on n queries the bound is about −(1 + c)/n of the span: rule of three."""
WORK = 250_000_000
"""Differences of resamples that a step takes at most, but for the fewest resamples."""
FEWEST_RESAMPLES = 1_000
ASKED = 32
BLOCK = 256
"""Cells and resamples at once: single-precision numbers that stay in a processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BestSet:
    """What is known of all cells together.

    Attributes:
        members: [cells], whether a cell is in the confidence set.
        lower: [cells], bound on (cell − truly best one), at most 0.
        quantiles: [cells], c_j of the members over all cells, at least `LEAST`, NaN of others.
    """

    members: Bools
    lower: Floats
    quantiles: Floats


def best_set(pairs: Pairs, deviations: NDArray[np.float32], rng: np.random.Generator) -> BestSet:
    """The set and the bounds.

    Deviations are divided by the square root of χ²/freedom, the same for all cells of a resample, as in the
    multivariate t distribution: the standard errors are estimates too.

    Args:
        pairs: Of all cells.
        deviations: [resamples, cells].
        rng: Where chance comes from.
    """
    freedom = pairs.n - pairs.strata
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


def behind_its_like(pairs: Pairs, found: BestSet) -> Floats:
    """The bounds [cells] of a cell against another that scored the same on every query; 0 outside of the set."""
    moved, error = pairs.with_losses(np.zeros(1), np.zeros(1))
    return np.where(found.members, moved - np.nan_to_num(found.quantiles) * error, 0.0)


def _step_down(pairs: Pairs, scaled: NDArray[np.float32]) -> Places:
    """The members of the set."""
    from scipy.special import stdtrit

    cells = np.argsort(-pairs.values.mean(axis=0), kind="stable")
    best = cells[:1]
    largest = stdtrit(pairs.n - pairs.strata, 1 - (1 - LEVEL) / len(cells))  # by Bonferroni no quantile is larger
    left = cells[~_beaten(pairs, best, cells, _leads(pairs, best, cells), np.full(len(cells), largest))]
    leads, variance = _leads(pairs, left, left), pairs.between(left, left)[1]
    while True:
        beaten = _beaten(pairs, left, left, leads, _quantiles(pairs.n, variance, scaled, left, left))
        if not beaten.any():
            return left
        kept = np.ix_(~beaten, ~beaten)
        left, leads, variance = left[~beaten], leads[kept], variance[kept]


def _leads(pairs: Pairs, rows: Places, columns: Places) -> Floats:
    """By how many standard errors a row is ahead of a column."""
    difference, variance = pairs.between(rows, columns)
    error = np.sqrt(variance / (pairs.n - pairs.strata))
    return np.divide(difference, error, out=np.where(difference > 0, np.inf, 0.0), where=error > 0)


def _beaten(pairs: Pairs, rows: Places, columns: Places, leads: Floats, quantiles: Floats) -> Bools:
    """The columns that some row is ahead of by more than their quantile and beyond doubt.

    Of the rows, the best first, no more than `ASKED` are looked at: with fewer, more columns stay.
    """
    beaten = np.zeros(len(columns), dtype=np.bool_)
    for place in np.flatnonzero(leads.max(axis=0) > quantiles).tolist():
        ahead = rows[leads[:, place] > quantiles[place]][:ASKED]
        differences = pairs.values[:, ahead] - pairs.values[:, [columns[place]]]
        beaten[place] = beyond_doubt(differences, pairs.typical_loss).any()
    return beaten


def _quantiles(n: int, variance: Floats, scaled: NDArray[np.float32], controls: Places, rivals: Places) -> Floats:
    """Dunnett's quantile for every control. In very large grids fewer resamples are used.

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
    """By control and resample, how far the furthest rival moved ahead of the control, in standard errors."""
    resamples, cells = rivals.shape
    largest = np.full((controls.shape[1], resamples), -np.inf, dtype=np.float32)
    for begun in range(0, resamples, BLOCK):
        drawn = slice(begun, begun + BLOCK)
        for first in range(0, cells, BLOCK):
            part = np.ascontiguousarray(rivals[drawn, first : first + BLOCK].T)
            moved = np.empty_like(part)
            weighted = weights[:, first : first + BLOCK, None]
            for own, weight, furthest in zip(controls[drawn].T, weighted, largest, strict=True):
                np.subtract(part, own, out=moved)
                np.multiply(moved, weight, out=moved)
                np.maximum(furthest[drawn], moved.max(axis=0), out=furthest[drawn])
    return largest
