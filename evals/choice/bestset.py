"""The confidence set of best cells, and how far every cell may be behind the best.

Multiple comparisons with the best, Hsu (1984; 1996), paired by query. Let j be the truly best cell. With
95% probability no cell i is ahead of j by c_j standard errors more than it truly is, all i at once; c_j is Dunnett's
quantile for control j, that of the largest of the correlated deviations over all i, here by the bootstrap. The cells j
of which no other is so far ahead are the set; the least over these of (i − j) − c_j · standard error is cell i's
simultaneous bound. Both rest on that one event: with 95% probability the set holds the best cell and all bounds hold.

Why this and not Hansen, Lunde & Nason's model confidence set (2011): see docs/choice.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.choice.pairs import Pairs
from evals.choice.records import Bools, Floats

LEVEL = 0.95
LEAST = 2.0
"""With no difference seen between two cells on n queries the bound is about −(1 + c)/n of the span: rule of three."""
HOPELESS = 6.0
"""A cell that another is ahead of by so many standard errors is not in the set, whatever its quantile."""
WORK = 4_000_000_000
FEWEST_RESAMPLES = 1_000
CACHED = 100_000
"""Single-precision numbers that stay in a processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BestSet:
    """What is known of all cells together.

    Attributes:
        members: [cells], whether a cell is in the confidence set.
        lower: [cells], bound on (cell − truly best one), at most 0.
        quantiles: [cells], c_j of the cells that were candidates for the set, NaN of others.
    """

    members: Bools
    lower: Floats
    quantiles: Floats


def best_set(pairs: Pairs, deviations: NDArray[np.float32], strata: int, rng: np.random.Generator) -> BestSet:
    """The set and the bounds.

    Args:
        pairs: Of all cells.
        deviations: [resamples, cells].
        strata: How many there are.
        rng: Where chance comes from.
    """
    moved, error = pairs.with_losses(pairs.difference, pairs.variance)
    np.fill_diagonal(moved, 0.0)
    np.fill_diagonal(error, 0.0)
    ahead = np.divide(moved, error, out=np.zeros_like(moved), where=error > 0).max(axis=0)
    candidates = np.flatnonzero(ahead <= HOPELESS)
    quantiles = np.full(len(moved), np.nan)
    quantiles[candidates] = _quantiles(pairs, deviations, candidates, pairs.n - strata, rng)
    members = np.zeros(len(moved), dtype=np.bool_)
    members[candidates] = ahead[candidates] <= quantiles[candidates]
    bounds = moved[:, members] - quantiles[members] * error[:, members]
    return BestSet(members=members, lower=np.minimum(bounds.min(axis=1), 0.0), quantiles=quantiles)


def behind_its_like(pairs: Pairs, found: BestSet) -> Floats:
    """The bounds [cells] of a cell against another that scored the same on every query; 0 outside of the set."""
    moved, error = pairs.with_losses(np.zeros(1), np.zeros(1))
    return np.where(found.members, moved - np.nan_to_num(found.quantiles) * error, 0.0)


def _quantiles(
    pairs: Pairs, deviations: NDArray[np.float32], controls: NDArray[np.intp], freedom: int, rng: np.random.Generator
) -> Floats:
    """Dunnett's quantile for every control, at least `LEAST`.

    Deviations are divided by the square root of χ²/freedom, the same for all cells of a resample, as in the
    multivariate t distribution: the standard errors are estimates too. In very large grids fewer resamples are used.
    """
    cells = deviations.shape[1]
    rows = int(np.clip(WORK // (cells * max(1, len(controls))), FEWEST_RESAMPLES, len(deviations)))
    scale = np.sqrt(freedom / rng.chisquare(freedom, size=rows)).astype(np.float32)
    scaled = deviations[:rows] * scale[:, None]
    error = np.sqrt(pairs.variance / pairs.n)
    weights = np.divide(1.0, error, out=np.zeros_like(error), where=error > 0).astype(np.float32)
    return np.maximum(np.quantile(_largest(scaled, controls, weights.T[controls]), LEVEL, axis=1), LEAST)


def _largest(
    scaled: NDArray[np.float32], controls: NDArray[np.intp], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """By control and resample, how far the furthest cell moved ahead of the control, in standard errors."""
    resamples, cells = scaled.shape
    found = np.empty((len(controls), resamples), dtype=np.float32)
    rows = max(1, CACHED // cells)
    for begun in range(0, resamples, rows):
        part = np.ascontiguousarray(scaled[begun : begun + rows].T)
        for place, control in enumerate(controls.tolist()):
            moved = part - part[control]
            moved *= weights[place, :, None]
            moved.max(axis=0, out=found[place, begun : begun + rows])
    return found
