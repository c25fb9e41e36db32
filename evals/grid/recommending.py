"""From a grid to a choice: the best cell, those that may be as good, the one recommended. Pure."""

from dataclasses import replace

import numpy as np

from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.choice import Cells, Choice, ObjectiveScores, QueryScores, choose, combine
from evals.grid.judging_rounds import CellProof
from evals.grid.objective import TOKENS, Ranking, describe, thresholds
from evals.grid.sampled_cells import comparable, guesses, sampled_intervals
from evals.metrics import metric_named
from evals.metrics.declaration import Context, QueryMetric

# What puts a cell before all others.
FIRST = 1e-6


def decide(
    grid: Grid, ranking: Ranking, objective: ObjectiveConfig, context: Context, proof: CellProof | None = None
) -> Choice | None:
    """Choose a cell.

    Args:
        grid: The grid.
        ranking: Its cells by the objective; those in its order meet the constraints.
        objective: Metrics to optimise, and the largest loss against the best that a cheaper cell may have.
        context: Inputs of the metrics, among them the verdicts; its seed is that of the resampling.
        proof: What verdicts prove of the cells, where judging ended with a proof: its cell is the best, and a cheaper
            one is recommended only if it is proved within the margin as well.

    Returns:
        None where cells are not ranked.
    """
    if ranking.reason:
        return None
    allowed = np.zeros(len(grid), dtype=np.bool_)
    allowed[list(ranking.order)] = True
    scores = objective_scores(grid, objective, context)
    if proof is not None and proof.chosen is not None and scores.guesses is not None and allowed[proof.chosen]:
        scores.guesses[proof.chosen] = scores.guesses[allowed].max() + FIRST
    cells = Cells(
        labels=tuple(describe(grid, index) for index in range(len(grid))),
        cost=grid.metrics[TOKENS].mean,
        threshold=thresholds(grid),
        allowed=allowed,
        proved_worse=ranking.proved_worse,
        near=None if proof is None else proof.within <= proof.margin,
    )
    return choose(scores, cells, margin=objective.margin, seed=context.seed)


def objective_scores(grid: Grid, objective: ObjectiveConfig, context: Context) -> ObjectiveScores:
    """Return the objective of every query in every cell."""
    scores = combine(
        objective.metrics,
        {
            name: _scores(grid, metric, context)
            for name in objective.metrics
            if isinstance(metric := metric_named(name), QueryMetric)
        },
    )
    if not scores.judged:
        return scores
    alone = next(iter(objective.metrics)) if [*objective.metrics.values()] == [1.0] else None
    ends = None if alone is None else np.stack(sampled_intervals(grid, alone))
    return replace(scores, guesses=guesses(grid, objective.metrics), ends=ends)


def _scores(grid: Grid, metric: QueryMetric, context: Context) -> QueryScores:
    scores = grid.metrics[metric.name]
    ids = tuple(
        case.id for case in grid.pool.cases if metric.scope == "all" or case.in_scope == (metric.scope == "in_scope")
    )
    if scores.sample is None:
        return QueryScores(query_ids=ids, values=grid.matrix(metric, context), kind=metric.interval)
    return QueryScores(query_ids=ids, values=comparable(grid, metric.name), kind="amount", judged=scores.n_common)
