"""What rounds of judging know of the cells of a grid: what they return, their scores by labels, and by verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid, score_cells
from evals.judge.verdicts import Judging
from evals.metrics.declaration import Context, Metric, QueryMetric
from evals.metrics.llm import can_be_judged
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
        grid: The cells.
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
        self._all, self._row_of = grid.laid_out()
        self._observations = list(self._all.observations())
        chosen = {name: m for name in objective.metrics if isinstance(m := metrics[name], QueryMetric)}
        self._metrics = {name: m for name, m in chosen.items() if m.proxy is not None}
        alone = score_cells(grid, {name: m for name, m in chosen.items() if m.proxy is None}, context)
        known = (self._weights[name] * scores.common for name, scores in alone.items())
        self._known = sum(known, start=np.zeros(len(grid)))
        row_of = {case.id: row for row, case in enumerate(grid.pool.cases)}
        cases = grid.pool.cases
        self.case_ids = [key for key in order if all(can_be_judged(name, cases[row_of[key]]) for name in self._metrics)]
        self.rows = np.array([row_of[case_id] for case_id in self.case_ids], dtype=np.int64)
        self._judged = np.full((len(self.rows), len(grid)), np.nan)
        self.proxy = self._known + sum(weight * self._by_labels(name) for name, weight in self._of_judged())
        self._by_tier = [(tier, self._by_judge(tier)) for tier in (cheaper.tiers if cheaper else ())]
        ids = {row: self._observations[row].ranked_ids for row in np.unique(self._row_of[:, self.rows]).tolist()}
        self.returned = pool([[ids[row] for row in of_query] for of_query in self._row_of[:, self.rows].T.tolist()])

    def results(self, queries: Integers, cells: Bools) -> list[Observation]:
        """Return the distinct results that some cells have for some queries."""
        kept = self._row_of[np.ix_(np.flatnonzero(cells), self.rows[queries])]
        return [self._observations[row] for row in np.unique(kept).tolist()]

    def scored(self, queries: Integers, cells: Bools, judging: Judging) -> Floats:
        """Return the scores [queries, cells of the mask] by verdicts; NaN where one is missing."""
        context = replace(self._context, judging=judging)
        rows, which = np.unique(self._row_of[np.ix_(np.flatnonzero(cells), self.rows[queries])].T, return_inverse=True)
        asked, values = self._all.at(rows), np.zeros(len(rows))
        for name, weight in self._of_judged():
            values += weight * self._metrics[name].values(asked, context).values
        return self._known[cells] + values[which.reshape(len(queries), -1)]

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

    def _of_judged(self) -> list[tuple[str, float]]:
        return [(name, self._weights[name]) for name in self._metrics]

    def _by_judge(self, tier: Judging) -> Floats:
        """Return the scores of all by a cheaper judge; where it has none, those by labels."""
        scores = self.scored(np.arange(len(self.rows)), np.ones(len(self._grid), dtype=np.bool_), tier)
        return np.where(np.isnan(scores), self.proxy, scores)

    def _by_labels(self, name: str) -> Floats:
        proxy = self._metrics[name].proxy
        assert proxy is not None
        labelled = proxy.values(self._all, self._context).values[self._row_of[:, self.rows]].T
        return np.zeros_like(labelled) if np.isnan(labelled).any() else labelled


def _apart(scores: Floats) -> Floats:
    """Return scores [queries, cells] without what moves all cells of a query alike."""
    apart: Floats = scores - scores.mean(axis=1, keepdims=True)
    return apart
