"""From a grid to a choice: the best cell, those that may be as good, the one recommended. Pure."""

import numpy as np

from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.choice import Cells, Choice, ObjectiveScores, QueryScores, choose, combine
from evals.grid.objective import TOKENS, Ranking, describe, thresholds
from evals.grid.sampled_cells import comparable


def decide(grid: Grid, ranking: Ranking, objective: ObjectiveConfig, seed: int) -> Choice | None:
    """Choose a cell.

    Args:
        grid: The grid.
        ranking: Its cells by the objective; those in its order meet the constraints.
        objective: Metrics to optimise, and the largest loss against the best that a cheaper cell may have.
        seed: Of the resampling.

    Returns:
        None where cells are not ranked.
    """
    if ranking.reason:
        return None
    allowed = np.zeros(len(grid), dtype=np.bool_)
    allowed[list(ranking.order)] = True
    cells = Cells(
        labels=tuple(describe(grid, index) for index in range(len(grid))),
        cost=grid.metrics[TOKENS].summaries.mean,
        threshold=thresholds(grid),
        allowed=allowed,
        proved_worse=ranking.proved_worse,
    )
    return choose(objective_scores(grid, objective), cells, margin=objective.margin, seed=seed)


def objective_scores(grid: Grid, objective: ObjectiveConfig) -> ObjectiveScores:
    """Return the objective of every query in every cell."""
    known = {name: grid.metrics[name] for name in objective.metrics}
    return combine(
        objective.metrics,
        {
            name: QueryScores(query_ids=metric.query_ids, values=grid.matrix(name), kind=metric.interval)
            if metric.sample is None
            else QueryScores(
                query_ids=metric.query_ids,
                values=comparable(grid, name),
                kind="amount",
                judged=metric.summaries.n_common,
            )
            for name, metric in known.items()
        },
    )
