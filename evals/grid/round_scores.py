"""What rounds of judging know of the cells of a grid: what they return, their scores by labels, and by verdicts."""

from collections.abc import Iterator, Mapping, Sequence
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
from evals.stats.corrected_mean import shrunk_weight
from evals.stats.joint_weights import shrunk_weights
from evals.stats.proved_choice import Rounds
from evals.stats.returned_chunks import pool

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


class RoundScores:
    """Scores [query, cell] of the objective; queries are those that a judge can score, in the order of judging.

    Args:
        metrics: Metrics of the run.
        objective: What is optimised, with at least one judged metric.
        grid: The cells, scored by the metrics of the objective that need no judge and the proxies of those that do.
        context: Inputs of the metrics, without verdicts.
        order: Ids of the queries in the order of judging.
        cheaper: Of a cascade, the verdicts of the tiers below the one that judges in rounds, on everything.

    Attributes:
        rows: Their places among all queries; `case_ids`, their ids.
        proxy: Scores by labels, 0 where a label metric does not score every query; of a cascade the weighted mean of
            these and of the cheaper judge's (`weigh`).
        returned: Chunks that each cell returns of each query.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        objective: ObjectiveConfig,
        grid: Grid,
        context: Context,
        order: Sequence[str],
        cheaper: Judging | None = None,
    ) -> None:
        self._grid, self._context, self._weights = grid, context, objective.metrics
        self._distinct = [distinct(configuration) for configuration in grid.configurations]
        chosen = ((name, metrics[name]) for name in objective.metrics)
        self._metrics = {name: m for name, m in chosen if isinstance(m, QueryMetric) and m.proxy is not None}
        cases = {o.case.id: o.case for o in grid.configurations[0].observed.observations}
        self.case_ids = [key for key in order if all(can_be_judged(name, cases[key]) for name in self._metrics)]
        row_of = {query_id: row for row, query_id in enumerate(grid.query_ids)}
        self.rows = np.array([row_of[case_id] for case_id in self.case_ids], dtype=np.int64)
        self._judged = np.full((len(self.rows), len(grid)), np.nan)
        self.proxy = self._known() + sum(weight * self._by_labels(name) for name, weight in self._of_judged())
        self._by_tier = [(tier, self._by_judge(tier)) for tier in (cheaper.tiers if cheaper else ())]
        self.returned = pool(self._ids())

    def results(self, queries: Integers, cells: Bools) -> list[Observation]:
        """Return the distinct results that some cells have for some queries."""
        return [o for _, each, places in self._places(queries, cells) for o in _at(each, np.unique(places))]

    def scored(self, queries: Integers, cells: Bools, judging: Judging) -> Floats:
        """Return the scores [queries, cells of the mask] by verdicts; NaN where one is missing."""
        context, parts = replace(self._context, judging=judging), list[Floats]()
        for columns, each, places in self._places(queries, cells):
            distinct_places, which = np.unique(places, return_inverse=True)
            observations, values = _at(each, distinct_places), np.zeros(len(distinct_places))
            for name, weight in self._of_judged():
                scores = self._metrics[name].scores(observations, context)
                values += weight * np.array([s if isinstance(s, float | int) else np.nan for s in scores])
            parts.append(self._known()[columns] + values[which.reshape(places.shape)])
        return np.concatenate(parts, axis=1)

    def add(self, queries: Integers, cells: Bools, judging: Judging) -> None:
        """Keep the scores that verdicts give queries in some cells."""
        self._judged[np.ix_(queries, np.flatnonzero(cells))] = self.scored(queries, cells, judging)

    def weigh(self, first: Integers) -> None:
        """Of a cascade, mix the proxies by how they foretell differences between cells in the first round.

        This is done once: what later rounds estimate rests on one proxy.

        Args:
            first: Queries of the first round, judged in all cells.
        """
        rows = first[~np.isnan(self._judged[first]).any(axis=1)]
        proxies = [self.proxy, *(scores for _, scores in self._by_tier)]
        if len(proxies) == 1 or not len(rows):
            return
        scores, *own = (_apart(each[rows]) for each in (self._judged, *proxies))
        weights = shrunk_weights(scores, own)
        if sum(weights) > 0:
            self.proxy = np.einsum("p,pqc->qc", np.array(weights) / sum(weights), np.stack(proxies))

    def judged(self, rounds: Rounds) -> Floats:
        """Return the judged scores; one that failed is taken as what the labels let expect of it.

        Args:
            rounds: The queries that were judged, and the cells that are compared.
        """
        drawn, cells = list(range(rounds.judged)), list(rounds.remaining)
        scores, proxy = self._judged[np.ix_(drawn, cells)], self.proxy[np.ix_(drawn, cells)]
        whole = ~np.isnan(scores).any(axis=1)
        if whole.all() or not whole.any():
            return self._judged
        weight = shrunk_weight(scores[whole], proxy[whole])
        expected = scores[whole].mean(axis=0) + weight * (proxy - proxy[whole].mean(axis=0))
        filled = self._judged.copy()
        filled[np.ix_(drawn, cells)] = np.where(np.isnan(scores), expected, scores)
        return filled

    def _ids(self) -> list[list[tuple[str, ...]]]:
        """Return the ids of the chunks of every query in every cell, in rank order."""
        ids: list[list[tuple[str, ...]]] = [[] for _ in self.rows]
        for _, each, places in self._places(np.arange(len(self.rows)), np.ones(len(self._grid), dtype=np.bool_)):
            chunks = {index: each.observations[index].ranked_ids for index in np.unique(places).tolist()}
            for query, of_cells in enumerate(places.tolist()):
                ids[query] += [chunks[index] for index in of_cells]
        return ids

    def _of_judged(self) -> list[tuple[str, float]]:
        return [(name, self._weights[name]) for name in self._metrics]

    def _known(self) -> Floats:
        """Return the part [cells] of the objective that needs no judge."""
        known = np.zeros(len(self._grid))
        for name, weight in self._weights.items():
            if name not in self._metrics:
                known += weight * self._grid.metrics[name].summaries.common
        return known

    def _by_judge(self, tier: Judging) -> Floats:
        """Return the scores of all by a cheaper judge; where it has none, those by labels."""
        scores = self.scored(np.arange(len(self.rows)), np.ones(len(self._grid), dtype=np.bool_), tier)
        return np.where(np.isnan(scores), self.proxy, scores)

    def _by_labels(self, name: str) -> Floats:
        proxy = self._metrics[name].proxy
        assert proxy is not None
        scores = self._grid.metrics[proxy.name]
        whole = np.zeros((len(self._grid.query_ids), len(self._grid)))
        whole[scores.rows] = self._grid.matrix(proxy.name)
        labelled = whole[self.rows]
        return np.zeros_like(labelled) if np.isnan(labelled).any() else labelled

    def _places(self, queries: Integers, cells: Bools) -> Iterator[tuple[Integers, Distinct, Integers]]:
        """Yield for each configuration its cells, its distinct results, and of these that of each [query, cell]."""
        first, rows = 0, self.rows[queries]
        for configuration, each in zip(self._grid.configurations, self._distinct, strict=True):
            selections = configuration.selections
            columns = first + np.flatnonzero(cells[first : first + selections.cells])
            if len(columns):
                numbers = np.stack([selections.of_cell(cell - first)[rows] for cell in columns.tolist()], axis=1)
                yield columns, each, each.which[np.searchsorted(each.numbers, numbers)]
            first += selections.cells


def _apart(scores: Floats) -> Floats:
    """Return scores [queries, cells] without what moves all cells of a query alike."""
    apart: Floats = scores - scores.mean(axis=1, keepdims=True)
    return apart


def _at(each: Distinct, places: Integers) -> list[Observation]:
    return [each.observations[index] for index in places.tolist()]
