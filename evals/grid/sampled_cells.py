"""The cells of a grid of which the judge saw a sample of the queries: means corrected by proxies. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Score, Summary
from evals.collect.pool import Floats
from evals.grid.cells import CellSample, Grid
from evals.judge.precision import NOT_JUDGED
from evals.judge.sampling import NOT_DRAWN
from evals.metrics.declaration import Context, QueryMetric, summarise
from evals.metrics.llm import can_be_judged
from evals.metrics.proxies import serving
from evals.metrics.sampled import in_turn, sampled_summary
from evals.stats.corrected_mean import corrected_intervals, corrected_means, pseudo_values
from evals.stats.nested_samples import JointProxy, ProxyScores, joint_proxy
from evals.stats.shrunk_means import shrunk_means

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


def with_samples(
    grid: Grid, metrics: Mapping[str, QueryMetric], context: Context, judged_on: Bools | None = None
) -> Grid:
    """Correct the means of judged metrics in every cell.

    A mean stands for all queries that a judge can score. Cells judged on the same queries share the weight of the
    correction, so that two cells which return the same have the same mean.

    Args:
        grid: The grid, of which a sample of the queries was judged.
        metrics: Its metrics; those without a proxy are passed over.
        context: With the verdicts.
        judged_on: [all queries, cells], the queries that a cell was judged on; None where they are the same for all.
    """
    cases = [case for case in grid.pool.cases if case.in_scope]
    inside = np.array([case.in_scope for case in grid.pool.cases], dtype=np.bool_)
    tiers = context.judging.tiers[:-1] if context.judging else ()
    cells = dict(grid.metrics)
    for name, metric in metrics.items():
        if metric.proxy is None:
            continue
        matrix = grid.matrix(metric, context)
        eligible = np.array([can_be_judged(name, case) for case in cases], dtype=np.bool_)
        of_cells = np.ones(matrix.shape, dtype=np.bool_) if judged_on is None else judged_on[inside]
        judged, dropped = np.zeros(matrix.shape, dtype=np.bool_), 0
        for alike in _alike(of_cells):
            asked, missing = eligible & of_cells[:, alike[0]], np.isnan(matrix[:, alike])
            judged[:, alike] = (asked & ~missing.any(axis=1))[:, None]
            dropped = max(dropped, int((asked & missing.any(axis=1) & ~missing.all(axis=1)).sum()))
        sample = CellSample(
            eligible=eligible,
            judged=judged,
            weights=np.zeros((len(grid), 1 + len(tiers))),
            scores=matrix,
            proxies=(
                grid.matrix(metric.proxy, context),
                *(grid.matrix(metric, replace(context, judging=tier)) for tier in tiers),
            ),
            name=serving(metric.proxy, cases),
            models=tuple(tier.model for tier in tiers),
        )
        correcting = _correcting(sample)
        sample = replace(sample, proxy_weights=tuple(proxy.weights for proxy in correcting[1:]))
        means, counts = np.full(len(grid), np.nan), judged.sum(axis=0)
        for alike in _of_one_sample(sample):
            if counts[alike[0]] > 1:
                own, joint = _joint(matrix[eligible], correcting, sample, alike, None)
                means[alike], _ = corrected_means(*own, weight=joint.weight)
                sample.weights[alike] = joint.weights
        # Rounding must not lead out of the range of shares.
        means = np.clip(means, 0.0, 1.0)
        cells[name] = replace(
            cells[name],
            sample=sample,
            mean=means,
            n=counts,
            n_unscored=np.full(len(grid), int((~eligible).sum())),
            common=means,
            # A single query compares nothing.
            n_common=int(counts[counts > 1].max(initial=0)),
            n_dropped=dropped,
        )
    return replace(grid, metrics=cells)


def comparable(grid: Grid, metric: str) -> Floats:
    """Return scores[query, cell] by which cells are compared; NaN where a query stands for nothing.

    Their column means are the corrected means, and their differences vary as those of the corrected means do.
    """
    scores = grid.metrics[metric]
    sample = scores.sample
    assert sample is not None
    matrix, correcting, eligible = sample.scores, _correcting(sample), sample.eligible
    values = np.full(matrix.shape, np.nan)
    for cells in _of_one_sample(sample):
        if sample.judged[:, cells[0]].sum() < 2:
            continue
        own, proxy = _joint(matrix[eligible], correcting, sample, cells, sample.weights[cells[0]])
        pseudo = pseudo_values(*own, proxy.spread, proxy.weight)
        values[np.ix_(eligible, cells)] = pseudo
    return values


def sampled_intervals(grid: Grid, metric: str) -> tuple[Floats, Floats]:
    """Return the ends [cells] of the 95% intervals of corrected means, those of `cell_summary`; NaN where none."""
    scores = grid.metrics[metric]
    sample = scores.sample
    assert sample is not None
    matrix, correcting = sample.scores, _correcting(sample)
    low, high = np.full(len(grid), np.nan), np.full(len(grid), np.nan)
    for cells in _of_one_sample(sample):
        if sample.judged[:, cells[0]].any():
            own, proxy = _joint(matrix[sample.eligible], correcting, sample, cells, sample.weights[cells[0]])
            low[cells], high[cells] = corrected_intervals(
                *own,
                shares=True,
                weight=proxy.weight,
                earlier=proxy.earlier,
                regressed=proxy.regressed,
            )
    return low, high


def guesses(grid: Grid, weights: Mapping[str, float]) -> Floats:
    """Return for every cell the best guess at its weighted sum of metrics, by which to choose the best cell.

    The corrected means of hundreds of cells owe much to chance in the few verdicts; they are shrunk towards what the
    labels say (`evals.stats.shrunk_means`).
    """
    results, row_of = grid.laid_out()
    lengths = results.lengths[row_of].mean(axis=1)
    whole = np.zeros(len(grid))
    for name, weight in weights.items():
        scores = grid.metrics[name]
        sample, means = scores.sample, scores.common.copy()
        if sample is not None:
            matrix, correcting = sample.scores[sample.eligible], _correcting(sample)
            for cells in _of_one_sample(sample):
                own, _ = _joint(matrix, correcting, sample, cells, sample.weights[cells[0]])
                if own[2].sum() > 1:
                    means[cells] = shrunk_means(*own, lengths[cells])
        whole += weight * means
    return whole


def cell_summary(
    grid: Grid,
    metric: QueryMetric,
    index: int,
    scores: Mapping[str, Score],
    proxies: Mapping[str, Score],
    tiers: Sequence[tuple[str, Mapping[str, Score]]],
) -> Summary:
    """Return the mean of a metric in a cell, with interval and counts, as a run of the cell has it."""
    sample = grid.metrics[metric.name].sample
    if sample is None:
        return summarise(metric.name, list(scores.values()), metric.interval)
    # A cell that was dropped may have verdicts on later queries, where it returns what another cell does.
    of_sample = [
        NOT_DRAWN if score == NOT_JUDGED or (isinstance(score, float | int) and not judged) else score
        for score, judged in zip(scores.values(), sample.judged[:, index].tolist(), strict=True)
    ]
    own = [(model, list(each.values())) for model, each in tiers]
    weights = *sample.proxy_weights, sample.weights[index].tolist()
    return sampled_summary(metric, of_sample, list(proxies.values()), weights, own, sample.name)


def _of_one_sample(sample: CellSample) -> list[Integers]:
    """Return groups of cells that were judged on the same queries."""
    return _alike(sample.judged)


def _alike(columns: Bools) -> list[Integers]:
    """Return groups of columns that are equal, each as places."""
    _, groups = np.unique(columns, axis=1, return_inverse=True)
    return [np.flatnonzero(groups.ravel() == group) for group in range(int(groups.max(initial=-1)) + 1)]


def _joint(
    matrix: Floats, correcting: Sequence[ProxyScores], sample: CellSample, cells: Integers, weights: Floats | None
) -> tuple[tuple[Floats, Floats, Bools], JointProxy]:
    """Return scores, proxy scores and which queries were judged, of cells judged on the same; and what the proxy is.

    Args:
        matrix: [eligible query, cell], the judge's scores.
        correcting: All that corrects them.
        sample: Which queries were judged.
        cells: The cells.
        weights: Of the proxies, where they are known.
    """
    judged, sampled = matrix[:, cells], sample.judged[sample.eligible, cells[0]]
    proxies = [replace(proxy, scores=proxy.scores[:, cells], spread=proxy.spread[:, cells]) for proxy in correcting]
    proxy = joint_proxy(judged, sampled, proxies, weights if weights is None else weights.tolist())
    return (judged, proxy.scores, sampled), proxy


def _correcting(sample: CellSample) -> tuple[ProxyScores, ...]:
    """Return all scores [eligible query, cell] that correct those of the judge, of a cascade the strongest's."""
    first, *others = (scores[sample.eligible] for scores in sample.proxies)
    return in_turn(first, others)
