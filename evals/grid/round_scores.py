"""Judged scores of the cells of a grid, as they come in round by round, and how the cells compare by them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.scoring import Distinct, distinct
from evals.judge.verdicts import Judging
from evals.metrics.base import Context, Metric, QueryMetric
from evals.metrics.sampled import can_be_judged
from evals.stats.compared_with_best import ComparedWithBest, compare_with_best
from evals.stats.corrected_mean import FEWEST_REGRESSED, corrected_means

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


class RoundScores:
    """Scores [query, cell] of the objective's judged metrics, NaN where nothing was judged yet.

    Args:
        metrics: Metrics of the run.
        objective: What is optimised, with at least one judged metric.
        grid: The cells, scored by the metrics of the objective that need no judge and the proxies of those that do.
        context: Inputs of the metrics, without verdicts.
    """

    def __init__(self, metrics: Mapping[str, Metric], objective: ObjectiveConfig, grid: Grid, context: Context) -> None:
        self._grid, self._context, self._weights = grid, context, objective.metrics
        self.observations = grid.configurations[0].observed.observations
        self._distinct = [distinct(configuration) for configuration in grid.configurations]
        chosen = ((name, metrics[name]) for name in objective.metrics)
        self._judged = {name: m for name, m in chosen if isinstance(m, QueryMetric) and m.proxy is not None}
        self._scores = {name: np.full((len(self.observations), len(grid)), np.nan) for name in self._judged}
        self._proxies = {m.proxy.name: grid.matrix(m.proxy.name) for m in self._judged.values() if m.proxy is not None}
        others = [name for name in objective.metrics if name not in self._judged]
        self._known: Floats = sum(
            (objective.metrics[name] * grid.metrics[name].summaries.common for name in others),
            start=np.zeros(len(grid)),
        )
        self.eligible = np.array(
            [all(can_be_judged(name, o.case) for name in self._judged) for o in self.observations], dtype=np.bool_
        )

    def results(self, rows: Integers, cells: Bools) -> list[Observation]:
        """Return the distinct results that some cells have for some queries."""
        return [o for _, each, places in self._places(rows, cells) for o in _at(each, np.unique(places))]

    def add(self, rows: Integers, cells: Bools, judging: Judging) -> None:
        """Score the results that some cells have for some queries."""
        context = replace(self._context, judging=judging)
        for columns, each, places in self._places(rows, cells):
            distinct_places, which = np.unique(places, return_inverse=True)
            observations = _at(each, distinct_places)
            for name, metric in self._judged.items():
                scores = metric.score(observations, context)
                values = np.array([score if isinstance(score, float | int) else np.nan for score in scores])
                self._scores[name][np.ix_(rows, columns)] = values[which.reshape(places.shape)]

    def compare(
        self, cells: Bools, alpha: float, rng: np.random.Generator, further: int = 0
    ) -> ComparedWithBest | None:
        """Compare some cells with the best of them, by what all verdicts on these queries would say.

        Args:
            cells: At least one.
            alpha: Probability that a bound fails.
            rng: Random generator of the simulated deviations.
            further: Number of queries to assume judged besides those that are.

        Returns:
            None where too few queries are judged in all of these cells.
        """
        judged = self.eligible & ~np.any(
            [np.isnan(scores[:, cells]).any(axis=1) for scores in self._scores.values()], axis=0
        )
        n, total = int(judged.sum()), int(self.eligible.sum())
        if n < FEWEST_REGRESSED:
            return None
        means, residuals = self._known[cells], np.zeros((n, int(cells.sum())))
        for name, metric in self._judged.items():
            assert metric.proxy is not None
            scores, proxy = self._scores[name][self.eligible][:, cells], self._proxy(metric)[:, cells]
            own, weight = corrected_means(scores, proxy, judged[self.eligible])
            means = means + self._weights[name] * own
            residuals += self._weights[name] * (scores - weight * proxy)[judged[self.eligible]]
        known = min(total, n + further)
        covariance = (1 - known / total) / known * np.atleast_2d(np.cov(residuals, rowvar=False))
        return compare_with_best(means, covariance, n - 1, alpha, rng)

    def _proxy(self, metric: QueryMetric) -> Floats:
        assert metric.proxy is not None
        rows = self._grid.metrics[metric.proxy.name].rows
        whole = np.zeros((len(self.observations), len(self._grid)))
        whole[rows] = self._proxies[metric.proxy.name]
        return np.nan_to_num(whole[self.eligible])

    def _places(self, rows: Integers, cells: Bools) -> Iterator[tuple[Integers, Distinct, Integers]]:
        """Yield for each configuration its cells, its distinct results, and of these that of each [query, cell]."""
        first = 0
        for configuration, each in zip(self._grid.configurations, self._distinct, strict=True):
            selections = configuration.selections
            columns = first + np.flatnonzero(cells[first : first + selections.cells])
            if len(columns):
                numbers = np.stack([selections.of_cell(cell - first)[rows] for cell in columns.tolist()], axis=1)
                yield columns, each, each.which[np.searchsorted(each.numbers, numbers)]
            first += selections.cells


def _at(each: Distinct, places: Integers) -> list[Observation]:
    return [each.observations[place] for place in places.tolist()]
