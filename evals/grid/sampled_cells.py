"""The cells of a grid of which the judge saw a sample of the queries: means corrected by golden labels. Pure."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evals.collect.observations import Summary
from evals.grid.cells import CellSample, CellSummaries, Floats, Grid, Part
from evals.metrics.base import QueryMetric, summarise
from evals.metrics.sampled import has_or_lacks_verdicts, sampled_summary
from evals.stats.corrected_mean import corrected_means, pseudo_values


def with_samples(grid: Grid, proxies: Mapping[str, tuple[str, tuple[Part, ...]]]) -> Grid:
    """Correct the means of judged metrics in every cell.

    A mean stands for all queries that a judge can score; it is over those judged in every cell, with one weight for all
    cells, so that two cells which return the same have the same mean.

    Args:
        grid: The grid, of which a sample of the queries was judged.
        proxies: Name of each judged metric to the name of its proxy, and the proxy's scores by configuration.
    """
    metrics = dict(grid.metrics)
    for name, (proxy, parts) in proxies.items():
        scores = metrics[name]
        eligible = np.array([has_or_lacks_verdicts(score) for score in grid.scores(name, 0).values()], dtype=np.bool_)
        judged = grid.matrix(name)
        sample = CellSample(
            eligible=eligible,
            judged=eligible & ~np.isnan(judged).any(axis=1),
            weight=0.0,
            proxy=proxy,
            proxy_parts=parts,
        )
        metrics[name] = replace(scores, sample=sample)
        if not sample.judged.any():
            continue
        means, weight = corrected_means(*_eligible(replace(grid, metrics=metrics), name))
        # Rounding must not lead out of the range of shares.
        means = np.clip(means, 0.0, 1.0)
        n = int(sample.judged.sum())
        metrics[name] = replace(
            scores,
            sample=replace(sample, weight=weight),
            summaries=CellSummaries(
                mean=means,
                n=np.full(len(grid), n),
                n_unscored=np.full(len(grid), int((~eligible).sum())),
                n_failed=scores.summaries.n_failed,
                common=means,
                n_common=n,
                n_dropped=scores.summaries.n_dropped,
            ),
        )
    return replace(grid, metrics=metrics)


def comparable(grid: Grid, metric: str) -> Floats:
    """Return scores[query, cell] by which cells are compared; NaN where a query stands for nothing.

    Their column means are the corrected means, and their differences vary as those of the corrected means do.
    """
    sample = grid.metrics[metric].sample
    assert sample is not None
    values = np.full((len(sample.eligible), len(grid)), np.nan)
    values[sample.eligible] = pseudo_values(*_eligible(grid, metric))
    return values


def cell_summary(grid: Grid, metric: QueryMetric, index: int) -> Summary:
    """Return the mean of a metric in a cell, with interval and counts, as a run of the cell has it."""
    sample, scores = grid.metrics[metric.name].sample, list(grid.scores(metric.name, index).values())
    if sample is None:
        return summarise(metric.name, scores, metric.interval)
    return sampled_summary(metric, scores, list(grid.proxy_scores(metric.name, index).values()), sample.weight)


def _eligible(grid: Grid, metric: str) -> tuple[Floats, Floats, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]:
    """Return judged scores and proxies [query, cell] of the queries that a judge can score, and which were judged."""
    scores = grid.metrics[metric]
    assert scores.sample is not None
    eligible = scores.sample.eligible
    proxy = grid.laid_out(scores.sample.proxy_parts, scores.rows[eligible])
    if np.isnan(proxy).any():
        proxy = np.zeros_like(proxy)
    return grid.matrix(metric)[eligible], proxy, scores.sample.judged[eligible]
