"""From the scores of all cells to a choice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.errors import ExperimentError
from evals.grid.choice.bestset import behind_its_like, best_set
from evals.grid.choice.intervals import objective_intervals
from evals.grid.choice.merge import merge
from evals.grid.choice.pairs import pair_up
from evals.grid.choice.power import queries_needed
from evals.grid.choice.recommend import reason, recommend
from evals.grid.choice.resample import resample
from evals.grid.choice.standings import Bools, Cells, Choice, Floats, ObjectiveScores, Standing
from evals.stats.intervals import FEWEST, SAME

RESAMPLES = 10_000
Groups = Sequence[tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Compared:
    """What comparing all groups of cells gives: arrays [groups], None where not computable."""

    in_set: Bools
    win_share: Floats | None = None
    lower: Floats | None = None
    queries_needed: int | None = None
    note: str = ""


def choose(
    scores: ObjectiveScores, cells: Cells, *, margin: float = 0.02, seed: int = 0, resamples: int = RESAMPLES
) -> Choice:
    """The best cell, the confidence set of best cells, and the cheapest cell proved not worse by more than the margin.

    Args:
        scores: The objective of every query in every cell.
        cells: In the order of the columns of `scores`.
        margin: How much worse than the best a cheaper cell may be, in units of the objective.
        seed: Of the resampling.
        resamples: How many.

    Raises:
        ExperimentError: Scores or costs are not finite numbers or do not fit the cells, or no cell is allowed.
    """
    check(scores, cells, margin)
    preference = cells.preference[cells.allowed[cells.preference]]
    groups = merge(scores.values, preference)
    found = _compare(scores, groups, cells.cost, margin, seed, resamples)
    standings = _standings(scores, groups, cells, found)
    chosen, proved = recommend(standings, margin)
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
        reason=reason(standings, chosen, margin, n, found.queries_needed, found.note),
        queries_needed=found.queries_needed,
        note=found.note,
    )


def check(scores: ObjectiveScores, cells: Cells, margin: float) -> None:
    """Make sure that scores, costs and labels are of the same cells, and finite.

    Raises:
        ExperimentError: They are not, or no cell is allowed, or there is no query.
    """
    shape, wanted = scores.values.shape, (len(scores.strata), len(cells.labels))
    shapes = cells.cost.shape, cells.threshold.shape, cells.allowed.shape
    if shape != wanted or set(shapes) != {wanted[1:]}:
        raise ExperimentError(
            f"choice: expected scores of {wanted[0]} queries in {wanted[1]} cells with a cost, a threshold and a "
            f"permission each, got {shape}, {', '.join(map(str, shapes))}"
        )
    if not wanted[0] or not cells.allowed.any():
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
    n, first = len(scores.values), [group[0] for group in groups]
    if n < FEWEST:
        few = f"not computable: {n} {'query is' if n == 1 else 'queries are'} too few, {FEWEST} are needed"
        return _Compared(in_set=np.ones(len(groups), dtype=np.bool_), note=few)
    values, cost = np.ascontiguousarray(scores.values[:, first]), costs[first]
    rng = np.random.default_rng(seed)
    drawn = resample(values, scores.strata, resamples, rng)
    pairs = pair_up(scores, values)
    found = best_set(pairs, drawn.deviations, rng)
    several = np.array([len(group) > 1 for group in groups])
    lower = np.where(several, np.minimum(found.lower, behind_its_like(pairs, found)), found.lower)
    cheaper = cost < cost[_best(values)]
    proved = bool((lower[cheaper] >= -margin).any())
    return _Compared(
        in_set=found.members,
        win_share=drawn.wins,
        lower=lower,
        queries_needed=None if proved else queries_needed(pairs, found, cheaper, several, margin),
    )


def _best(values: Floats) -> int:
    """The column with the highest mean, the first among equals, which is the preferred."""
    mean = values.mean(axis=0)
    return int((mean >= mean.max() - SAME).argmax())


def _standings(scores: ObjectiveScores, groups: Groups, cells: Cells, found: _Compared) -> tuple[Standing, ...]:
    """The standings of all groups, the best first."""
    values = scores.values[:, [group[0] for group in groups]]
    intervals, mean, best = objective_intervals(scores, values), values.mean(axis=0), _best(values)
    made = [
        Standing(
            cell=group[0],
            members=group,
            label=cells.labels[group[0]],
            cost=float(cells.cost[group[0]]),
            value=float(mean[place]),
            interval=intervals[place],
            win_share=None if found.win_share is None else float(found.win_share[place]),
            in_set=bool(found.in_set[place]),
            difference=min(0.0, float(mean[place] - mean[best])),
            lower=None if found.lower is None else float(found.lower[place]),
        )
        for place, group in enumerate(groups)
    ]
    return (made[best], *sorted(made[:best] + made[best + 1 :], key=lambda s: -s.value))
