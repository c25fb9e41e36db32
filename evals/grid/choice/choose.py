"""From the scores of all cells to a choice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.errors import ExperimentError
from evals.grid.choice.column_intervals import objective_intervals
from evals.grid.choice.confidence_set import behind_its_like, best_set
from evals.grid.choice.equal_cells import merge
from evals.grid.choice.pairs import pair_up
from evals.grid.choice.queries_needed import queries_needed
from evals.grid.choice.recommend import reason, recommend
from evals.grid.choice.resample import resample
from evals.grid.choice.standings import Bools, Cells, Choice, Floats, ObjectiveScores, Standing
from evals.stats.intervals import FEWEST, SAME

RESAMPLES = 10_000
Groups = Sequence[tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Compared:
    """Comparison of all groups of cells: arrays [groups], None where not computable."""

    in_set: Bools
    lower: Floats | None = None
    queries_needed: int | None = None
    note: str = ""


def choose(
    scores: ObjectiveScores, cells: Cells, *, margin: float = 0.02, seed: int = 0, resamples: int = RESAMPLES
) -> Choice:
    """Choose the best cell, the confidence set of best cells, and the cheapest cell proved to be within the margin.

    Args:
        scores: The objective of every query in every cell.
        cells: Cells in the order of the columns of `scores`.
        margin: Largest loss against the best that a cheaper cell may have, in units of the objective.
        seed: Seed of the resampling.
        resamples: Number of resamples.

    Raises:
        ExperimentError: Scores or costs are not finite numbers or do not fit the cells, or no cell is allowed.
    """
    check(scores, cells, margin)
    # Cells that miss a constraint are no rivals either: they would only widen the set.
    preference = cells.preference[cells.allowed[cells.preference]]
    groups = merge(scores.values, preference)
    # From here on only one column a group is read: of many queries a further copy of all cells would be gigabytes.
    first = [group[0] for group in groups]
    guesses = None if scores.guesses is None else np.array([scores.guesses[list(group)].max() for group in groups])
    ends = None if scores.ends is None else scores.ends[:, first]
    scores = replace(scores, values=np.take(scores.values, first, axis=1), guesses=guesses, ends=ends)
    compared = _compare(scores, groups, cells.cost, margin, seed, resamples)
    standings = _standings(scores, groups, cells, compared)
    chosen, proved = recommend(standings, margin, cells.near)
    n = len(scores.values)
    return Choice(
        objective=scores.objective,
        margin=margin,
        n=n,
        dropped=scores.dropped,
        n_cells=len(cells.labels),
        n_allowed=len(preference),
        standings=standings,
        best=standings[0],
        recommended=chosen,
        proved=proved,
        reason=reason(
            standings, chosen, margin, n, compared.queries_needed, compared.note, sampled=scores.judged is not None
        ),
        queries_needed=compared.queries_needed,
        note=compared.note,
        judged=scores.judged,
        n_proved_worse=cells.proved_worse,
    )


def check(scores: ObjectiveScores, cells: Cells, margin: float) -> None:
    """Make sure that scores, costs and labels are of the same cells, and finite.

    Raises:
        ExperimentError: They are not, or no cell is allowed, or there is no query.
    """
    shape, expected = scores.values.shape, (len(scores.strata), len(cells.labels))
    shapes = cells.cost.shape, cells.threshold.shape, cells.allowed.shape
    if shape != expected or set(shapes) != {expected[1:]}:
        raise ExperimentError(
            f"choice: expected scores of {expected[0]} queries in {expected[1]} cells with a cost, a threshold and a "
            f"permission each, got {shape}, {', '.join(map(str, shapes))}"
        )
    if not expected[0] or not cells.allowed.any():
        raise ExperimentError("choice: expected at least one query and one allowed cell, got none")
    if not np.isfinite(scores.values).all():
        row, column = np.argwhere(~np.isfinite(scores.values))[0].tolist()
        raise ExperimentError(
            f"choice: expected a finite score of every query in every cell, got {scores.values[row, column]} for query "
            f"{row} in cell {cells.labels[column]!r}; leave out queries that are not scored in all cells"
        )
    if not np.isfinite(cells.cost).all():
        raise ExperimentError(f"choice: expected finite costs, got {cells.cost[~np.isfinite(cells.cost)][0]}")
    if not (np.isfinite(margin) and margin >= 0):
        raise ExperimentError(f"objective.margin: expected 0 or more, got {margin!r}")


def _compare(
    scores: ObjectiveScores, groups: Groups, costs: Floats, margin: float, seed: int, resamples: int
) -> _Compared:
    n = scores.judged or len(scores.values)
    if n < FEWEST:
        judged = "" if scores.judged is None else "judged "
        few = f"not computable: {n} {judged}{'query is' if n == 1 else 'queries are'} too few, {FEWEST} are needed"
        return _Compared(in_set=np.ones(len(groups), dtype=np.bool_), note=few)
    values, cost = np.ascontiguousarray(scores.values), costs[[group[0] for group in groups]]
    # One generator in a fixed order of draws, so that a seed gives the same choice on every machine.
    rng = np.random.default_rng(seed)
    deviations = resample(values, scores.strata, resamples, rng)
    pairs = pair_up(scores, values)
    best = best_set(pairs, deviations, rng)
    is_tied = np.array([len(group) > 1 for group in groups])
    # Cells with equal scores here may differ on other queries, so their bound is not 0.
    lower = np.where(is_tied, np.minimum(best.lower, behind_its_like(pairs, best)), best.lower)
    cheaper = cost < cost[_best(scores)]
    proved = bool((lower[cheaper] >= -margin).any())
    return _Compared(
        in_set=best.members,
        lower=lower,
        queries_needed=None if proved else queries_needed(pairs, best, cheaper, is_tied, margin),
    )


def _best(scores: ObjectiveScores) -> int:
    """Return the column with the highest mean or guess; of equal ones the first, which is the preferred."""
    mean = scores.values.mean(axis=0) if scores.guesses is None else scores.guesses
    # Within SAME means are equal: rounding must not override the preference.
    return int((mean >= mean.max() - SAME).argmax())


def _standings(scores: ObjectiveScores, groups: Groups, cells: Cells, compared: _Compared) -> tuple[Standing, ...]:
    """Return the standings of all groups, the best first."""
    values = scores.values
    intervals, mean, best = objective_intervals(scores, values), values.mean(axis=0), _best(scores)
    standings = [
        Standing(
            cell=group[0],
            members=group,
            label=cells.labels[group[0]],
            cost=float(cells.cost[group[0]]),
            value=float(mean[index]),
            interval=intervals[index],
            in_set=bool(compared.in_set[index]),
            difference=min(0.0, float(mean[index] - mean[best])),
            lower=None if compared.lower is None else float(compared.lower[index]),
        )
        for index, group in enumerate(groups)
    ]
    # The best by preference stands first, even if another mean is larger by rounding.
    return (standings[best], *sorted(standings[:best] + standings[best + 1 :], key=lambda s: -s.value))
