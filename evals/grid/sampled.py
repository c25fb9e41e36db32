"""The cells of a grid of which the judge saw a sample of the queries: means corrected by a proxy. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from evals.collect.observations import SampledMean, Score, Summary, Unscored
from evals.collect.pool import Bools
from evals.grid.cells import CellSample, Grid
from evals.judge.verdicts import NOT_JUDGED
from evals.metrics.declaration import Context, QueryMetric, summarise
from evals.metrics.llm import can_be_judged
from evals.metrics.proxies import foretelling
from evals.metrics.results import Results, Values
from evals.sampling.corrected import corrected
from evals.sampling.order import NOT_DRAWN


def with_samples(
    grid: Grid, metrics: Mapping[str, QueryMetric], context: Context, judged_on: Bools | None, looks: int
) -> Grid:
    """Correct the means of judged metrics in every cell.

    A mean stands for all queries that a judge can score. Cells judged on the same queries share the weight of the
    correction, so that two cells which return the same have the same mean.

    Args:
        grid: The grid, of which a sample of the queries was judged.
        metrics: Its metrics; those without a proxy are passed over.
        context: With the verdicts.
        judged_on: [all queries, cells], the queries that a cell was judged on; None where they are the same for all.
        looks: Number of planned looks at any of which judging may have ended.
    """
    cases = [case for case in grid.pool.cases if case.in_scope]
    inside = np.array([case.in_scope for case in grid.pool.cases], dtype=np.bool_)
    below = context.judging.below if context.judging else None
    metrics_of_grid = dict(grid.metrics)
    for name, metric in metrics.items():
        if metric.proxy is None:
            continue
        proxy, matrix = foretelling(metric, below), grid.matrix(metric, context)
        eligible = np.array([can_be_judged(name, case) for case in cases], dtype=np.bool_)
        asked = np.broadcast_to(eligible[:, None], matrix.shape)
        asked = asked if judged_on is None else asked & judged_on[inside]
        scores, foretold = np.where(asked, matrix, np.nan)[eligible], grid.matrix(proxy, context)[eligible]
        means, low, high = np.full((3, len(grid)), np.nan)
        weight = np.zeros(len(grid))
        counts = np.zeros(len(grid), dtype=np.int64)
        dropped = 0
        judged, comparable = np.zeros(matrix.shape, dtype=np.bool_), np.full(matrix.shape, np.nan)
        groups = np.unique(asked, axis=1, return_inverse=True)[1].ravel()
        for alike in (np.flatnonzero(groups == group) for group in np.unique(groups)):
            has_score, places = np.isfinite(scores[:, alike]), np.ix_(eligible, alike)
            if not has_score.all(axis=1).any():
                continue
            sample = corrected(scores[:, alike], foretold[:, alike])
            judged[places] = sample.judged[:, None]
            weight[alike] = sample.weight
            counts[alike] = sample.n
            dropped = max(dropped, int((~sample.judged & has_score.any(axis=1)).sum()))
            low[alike], high[alike] = sample.interval()
            if sample.n > 1:  # A single query compares nothing. Rounding must not lead out of the range of shares.
                means[alike] = np.clip(sample.means, 0.0, 1.0)
                comparable[places] = sample.pseudo
        metrics_of_grid[name] = replace(
            metrics_of_grid[name],
            sample=CellSample(
                judged=judged, weight=weight, comparable=comparable, ends=(low, high), name=proxy.name, looks=looks
            ),
            mean=means,
            n=counts,
            common=means,
            n_common=int(counts[counts > 1].max(initial=0)),
            n_dropped=dropped,
        )
    return replace(grid, metrics=metrics_of_grid)


def figures_of(grid: Grid, metric: QueryMetric, index: int, context: Context) -> Summary:
    """Return the mean of a metric in a cell, as a run of that cell has it."""
    return cell_summary(grid, metric, index, *scores_by_query(metric, grid.results(index), context))


def scores_by_query(
    metric: QueryMetric, results: Results, context: Context
) -> tuple[dict[str, Score], dict[str, Score]]:
    """Return a metric's scores by case id, and its proxy's scores by case id (empty without a proxy)."""
    rows, _ = results.of(metric.scope, labelled=False)

    def of(scored: QueryMetric) -> dict[str, Score]:
        values = scored.values(results, context)
        return {results.lists.case(int(results.list_of[row])).id: values[row] for row in rows.tolist()}

    foretold = metric.proxy and context.judging and foretelling(metric, context.judging.below)
    return of(metric), of(foretold) if foretold else {}


def cell_summary(
    grid: Grid, metric: QueryMetric, index: int, scores: Mapping[str, Score], proxies: Mapping[str, Score]
) -> Summary:
    """Return the mean of a metric in a cell, with interval and counts, corrected where a sample was judged.

    Args:
        grid: The grid, with its metrics where a sample was judged.
        metric: The metric.
        index: The cell's number.
        scores: By case id.
        proxies: Those of what foretells them, likewise.
    """
    own = list(scores.values())
    sample = grid.metrics[metric.name].sample if metric.name in grid.metrics else None
    if sample is None:
        return summarise(metric, own)
    # A cell that was dropped may have verdicts on later queries, where it returns what another cell does.
    for query in np.flatnonzero(~sample.judged[:, index]).tolist():
        if isinstance(own[query], float) or own[query] == NOT_JUDGED:
            own[query] = NOT_DRAWN
    return sampled_summary(metric, own, list(proxies.values()), sample.name, sample.weight[index], sample.looks)


def sampled_summary(
    metric: QueryMetric,
    scores: Sequence[Score],
    proxies: Sequence[Score],
    name: str,
    weight: float | None,
    looks: int = 1,
) -> Summary:
    """Average the scores of a sample of the queries, corrected by the proxy's scores of all.

    `bound_low` and `bound_high` are the 95% bounds of what judging all queries would give; where scores failed or are
    missing, with all of these counted 0 and 1.

    Args:
        metric: Metric of the scores.
        scores: One for each query of its scope, `NOT_DRAWN` for those that were left out.
        proxies: Scores of the proxy for the same queries.
        name: What the proxy is.
        weight: Weight of the correction, where it was estimated from more than these scores.
        looks: Number of planned looks at any of which judging may have ended.
    """
    of_sample = summarise(metric, [score for score in scores if score != NOT_DRAWN])
    if of_sample.value is None:
        return of_sample
    # Not those that no judge could score, for want of a reference answer.
    kept = [
        (score, proxy)
        for score, proxy in zip(scores, proxies, strict=True)
        if not isinstance(score, Unscored) or score.missing or score == NOT_DRAWN
    ]
    judged, proxy = (Values.joined(scores).values[:, None] for scores in zip(*kept, strict=True))
    lost = np.array([[score != NOT_DRAWN and not isinstance(score, float | int)] for score, _ in kept])
    own = corrected(judged, proxy, weight)
    worst, best = (corrected(np.where(lost, end, judged), proxy, weight).of_these(looks) for end in (0.0, 1.0))
    ends = np.concatenate([*own.interval(), worst[0], best[1]])
    low, high, lowest, highest = (end if isfinite(end) else None for end in ends.tolist())
    return replace(
        of_sample,
        value=float(np.clip(own.means[0], 0.0, 1.0)),
        ci_low=low,
        ci_high=high,
        bound_low=lowest,
        bound_high=highest,
        sampled=SampledMean(queries=own.total, proxy=name, weight=own.weight),
    )
