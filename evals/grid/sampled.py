"""Means of judged metrics in the cells of a grid, where the judge saw a sample of the queries. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from evals.collect.observations import SampledMean, Score, Summary, Unscored
from evals.grid.cells import CellSample, CellScores, Grid
from evals.grid.judging import CellProof
from evals.judge.verdicts import NOT_JUDGED
from evals.metrics.declaration import Context, QueryMetric, summarise
from evals.metrics.llm import can_be_judged
from evals.metrics.proxies import foretelling
from evals.metrics.results import Results, Values
from evals.sampling.corrected import corrected
from evals.sampling.order import NOT_DRAWN


def with_samples(grid: Grid, metrics: Mapping[str, QueryMetric], context: Context, proof: CellProof | None) -> Grid:
    """Correct the means of judged metrics in every cell.

    Args:
        grid: The grid. A sample of its queries was judged.
        metrics: The metrics of the grid. Those without a proxy need no correction.
        context: Inputs of the metrics, with the verdicts.
        proof: What judging in rounds proved; None if all cells were judged on the same queries.
    """
    below = context.judging.below if context.judging else None
    corrected_scores = {
        name: _corrected_scores(grid, metric, foretelling(metric, below), context, proof)
        for name, metric in metrics.items()
        if metric.proxy is not None
    }
    return replace(grid, metrics={**grid.metrics, **corrected_scores})


def _corrected_scores(
    grid: Grid, metric: QueryMetric, proxy: QueryMetric, context: Context, proof: CellProof | None
) -> CellScores:
    """Return the scores of a judged metric in every cell, with the means that the proxy corrects.

    A mean stands for all queries that a judge can score. Cells that were judged on the same queries share the weight of
    the correction, so that two cells with the same results have the same mean.
    """
    eligible = np.array([can_be_judged(metric.name, case) for case in grid.pool.cases], dtype=np.bool_)
    matrix = grid.matrix(metric, context)
    was_asked = np.broadcast_to(eligible[:, None], matrix.shape)
    if proof:
        was_asked = was_asked & proof.judged
    scores = np.where(was_asked, matrix, np.nan)[eligible]
    proxy_scores = grid.matrix(proxy, context)[eligible]

    judged, comparable = np.zeros(matrix.shape, dtype=np.bool_), np.full(matrix.shape, np.nan)
    means, low, high = np.full((3, len(grid)), np.nan)
    weight = np.zeros(len(grid))
    counts = np.zeros(len(grid), dtype=np.int64)
    dropped = 0
    # Cells of a group were judged on the same queries.
    groups = np.unique(was_asked, axis=1, return_inverse=True)[1].ravel()
    for group in np.unique(groups):
        cells = np.flatnonzero(groups == group)
        has_score = np.isfinite(scores[:, cells])
        if not has_score.all(axis=1).any():
            continue
        sample = corrected(scores[:, cells], proxy_scores[:, cells])
        places = np.ix_(eligible, cells)
        judged[places] = sample.judged[:, None]
        weight[cells] = sample.weight
        counts[cells] = sample.n
        dropped = max(dropped, int((~sample.judged & has_score.any(axis=1)).sum()))
        low[cells], high[cells] = sample.interval()
        if sample.n > 1:  # a single query compares nothing
            means[cells] = sample.values
            comparable[places] = sample.pseudo
    looks = proof.looks if proof else 1
    return replace(
        grid.metrics[metric.name],
        mean=means,
        n=counts,
        common=means,
        n_common=int(counts[counts > 1].max(initial=0)),
        n_dropped=dropped,
        sample=CellSample(
            judged=judged, weight=weight, comparable=comparable, ends=(low, high), name=proxy.name, looks=looks
        ),
    )


def figures_of(grid: Grid, metric: QueryMetric, index: int, context: Context) -> Summary:
    """Return the mean of a metric in a cell, with interval and counts, as a run of that cell reports it."""
    return cell_summary(grid, metric, index, *scores_by_query(metric, grid.results(index), context))


def scores_by_query(
    metric: QueryMetric, results: Results, context: Context
) -> tuple[dict[str, Score], dict[str, Score]]:
    """Return a metric's scores by case id, and its proxy's scores by case id (empty without a proxy)."""
    rows, _ = results.of(metric.scope, labelled=False)

    def by_case_id(scored: QueryMetric) -> dict[str, Score]:
        values = scored.values(results, context)
        return {results.lists.case(int(results.list_of[row])).id: values[row] for row in rows.tolist()}

    proxy = metric.proxy and context.judging and foretelling(metric, context.judging.below)
    return by_case_id(metric), by_case_id(proxy) if proxy else {}


def cell_summary(
    grid: Grid, metric: QueryMetric, index: int, scores: Mapping[str, Score], proxies: Mapping[str, Score]
) -> Summary:
    """Return the mean of a metric in a cell, with interval and counts, corrected where a sample was judged.

    Args:
        grid: The grid. Its metrics tell whether a sample was judged.
        metric: The metric.
        index: The cell's number.
        scores: Scores of the metric by case id.
        proxies: Scores of its proxy by case id; empty without a proxy.
    """
    values = list(scores.values())
    sample = grid.metrics[metric.name].sample if metric.name in grid.metrics else None
    if sample is None:
        return summarise(metric, values)
    in_scope = [case.in_scope for case in grid.pool.cases]
    # A cell that judging dropped may have verdicts on later queries: those on another cell with the same result.
    for query in np.flatnonzero(~sample.judged[in_scope, index]).tolist():
        if isinstance(values[query], float) or values[query] == NOT_JUDGED:
            values[query] = NOT_DRAWN
    return sampled_summary(metric, values, list(proxies.values()), sample.name, sample.weight[index], sample.looks)


def sampled_summary(
    metric: QueryMetric,
    scores: Sequence[Score],
    proxies: Sequence[Score],
    name: str,
    weight: float | None,
    looks: int = 1,
) -> Summary:
    """Average the scores of a sample of the queries, and correct the mean by the proxy's scores of all queries.

    `bound_low` and `bound_high` are the 95% bounds of the mean that judging all queries would give: the outer ones of
    two samples, in which scores that failed or are missing count as 0, and as 1.

    Args:
        metric: Metric of the scores.
        scores: One score for each query of the metric's scope; `NOT_DRAWN` for a query outside of the sample.
        proxies: Scores of the proxy for the same queries.
        name: Name of the proxy.
        weight: Weight of the correction, 0 to 1; None to estimate it from these scores.
        looks: Number of planned looks at the verdicts. Judging may have ended at any of them.
    """
    of_sample = summarise(metric, [score for score in scores if score != NOT_DRAWN])
    if of_sample.value is None:
        return of_sample
    # A query that no judge can score, as it lacks a reference answer, has no part in the mean.
    pairs = [
        (score, proxy)
        for score, proxy in zip(scores, proxies, strict=True)
        if not isinstance(score, Unscored) or score.missing or score == NOT_DRAWN
    ]
    judged, proxy = (Values.joined(column).values[:, None] for column in zip(*pairs, strict=True))
    sample = corrected(judged, proxy, weight)
    is_lost = np.array([[score != NOT_DRAWN and not isinstance(score, float | int)] for score, _ in pairs])
    lost, won = (corrected(np.where(is_lost, end, judged), proxy, weight).of_these(looks) for end in (0.0, 1.0))
    ends = np.concatenate([*sample.interval(), np.minimum(lost[0], won[0]), np.maximum(lost[1], won[1])])
    low, high, lowest, highest = (end if isfinite(end) else None for end in ends.tolist())
    return replace(
        of_sample,
        value=float(sample.values[0]),
        ci_low=low,
        ci_high=high,
        bound_low=lowest,
        bound_high=highest,
        sampled=SampledMean(queries=sample.total, proxy=name, weight=sample.weight),
    )
