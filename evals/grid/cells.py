"""What a grid is: its configurations, its cells, and for every metric the score of each query in each cell. All frozen.

Scores are known once for each distinct selection and looked up for a cell, so that a grid of any size is as large as
what was found. `MetricScores.matrix` gives them as scores[query, cell], on which statistics are computed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Failure, Observed, Score, Summary, Unscored
from evals.grid.selections import Selections
from evals.metrics.base import Kind, Scope
from retrievers.config import RetrieverConfig

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One way to retrieve, threshold and cut.

    Attributes:
        configuration: The number of the configuration.
        threshold: None where none is in force.
        parameters: All settings that tell cells apart.
    """

    index: int
    configuration: int
    top_k: int
    threshold: float | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One way to retrieve, for which the search ran once.

    Attributes:
        name: Its settings in a few words, unique in the grid.
        parameters: The settings that are swept or tell it apart, and mean something in it.
        settings: All settings, with the largest `top_k` and the least strict threshold of its cells.
        thresholds: Ascending, as they are shown; a single 0 where none is in force.
        observed: Candidates at full depth, and the selections of the widest cell; latency and repetitions.
        selections: Selections of every cell.
        summaries: The metrics that belong to the configuration, not to a cell: latency, determinism, separation.
    """

    name: str
    parameters: Mapping[str, Any]
    settings: RetrieverConfig
    thresholds: tuple[float, ...]
    observed: Observed
    selections: Selections
    summaries: tuple[Summary, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SelectionScores:
    """A metric over the possible selections of one configuration.

    Attributes:
        values: By the number of the selection; NaN where it has no score.
        issue: By the number of the selection, which of `issues` is why it has none, −1 where it has one; None where
            every selection has one.
        issues: The reasons.
    """

    values: Floats
    issue: NDArray[np.int32] | None = None
    issues: tuple[Unscored | Failure, ...] = ()


Part = Callable[[], SelectionScores]
"""Computes a metric over the selections of one configuration, or returns what was computed."""


@dataclass(frozen=True, kw_only=True)
class CellSummaries:
    """A metric over every cell; each array has one entry a cell.

    Attributes:
        mean: Over the scored queries, NaN where there is none.
        n: Number of these queries.
        n_unscored: Number of values that could not be scored; `n_failed`, of those that failed.
        common: The mean over the queries that are scored in all cells: what cells are ranked by.
        n_common: Number of these queries.
        n_dropped: Number of queries scored in some cells and not in all, or failed; those without a score in any
            cell for want of a reference are not among them.
    """

    mean: Floats
    n: Counts
    n_unscored: Counts
    n_failed: Counts
    common: Floats
    n_common: int
    n_dropped: int


@dataclass(frozen=True, kw_only=True)
class MetricScores:
    """A metric of the grid.

    Attributes:
        scope: Which queries it is over; `query_ids` are these, in their order, and `rows` their places among all.
        interval: Which kind of interval its mean has.
        parts: Its scores, by configuration.
        sample: Which queries were judged, where a sample was, and what corrects their means; else None.
    """

    metric: str
    scope: Scope
    interval: Kind
    query_ids: tuple[str, ...]
    rows: NDArray[np.int64]
    parts: tuple[Part, ...]
    summaries: CellSummaries
    sample: "CellSample | None" = None


@dataclass(frozen=True, kw_only=True)
class CellSample:
    """The judged sample of a metric's queries.

    Attributes:
        eligible: [queries], whether a judge can score it, which takes a reference answer: those the means stand for.
        judged: [queries, cells], whether it is eligible, was drawn for the cell, and has a score in every cell that it
            was drawn for.
        weights: [cells, proxies], weights of the correction; cells judged on the same queries have the same.
        proxy: Name of the metric that corrects the means; `proxy_parts`, its scores by configuration.
        tiers: Of a cascade, the cheaper judges' models with their scores by configuration, the cheapest first: further
            proxies; and `tier_weights`, the weights of the correction of each.
    """

    eligible: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    weights: Floats
    proxy: str
    proxy_parts: tuple[Part, ...]
    tiers: "tuple[tuple[str, tuple[Part, ...]], ...]" = ()
    tier_weights: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A finished grid.

    Cells are numbered by configuration, then threshold, then `top_k`, which changes fastest.

    Attributes:
        axes: Each axis that has several values, with them.
        query_ids: All queries, in their order.
        metrics: By name.
        notes: Remarks that a reader must know beside the figures.
    """

    axes: Mapping[str, Sequence[Any]]
    top_ks: tuple[int, ...]
    configurations: tuple[Configuration, ...]
    query_ids: tuple[str, ...]
    metrics: Mapping[str, MetricScores] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.configurations else 0

    @cached_property
    def _ends(self) -> Counts:
        return np.cumsum([part.selections.cells for part in self.configurations], dtype=np.int64)

    def cell(self, index: int) -> Cell:
        """Return the cell of a number.

        Raises:
            IndexError: There is none.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"expected a cell from 0 to {len(self) - 1}, got {index!r}")
        number = int(np.searchsorted(self._ends, index, side="right"))
        inner = index - (int(self._ends[number - 1]) if number else 0)
        threshold, cut = divmod(inner, len(self.top_ks))
        configuration = self.configurations[number]
        cuts: dict[str, Any] = {"top_k": self.top_ks[cut]}
        if configuration.settings.used_threshold is not None:
            cuts["threshold"] = configuration.thresholds[threshold]
        return Cell(
            index=index,
            configuration=number,
            top_k=cuts["top_k"],
            threshold=cuts.get("threshold"),
            parameters={**configuration.parameters, **cuts},
        )

    def cells(self) -> list[Cell]:
        """All of them."""
        return [self.cell(index) for index in range(len(self))]

    def settings(self, index: int) -> RetrieverConfig:
        """Return the retriever's settings of a cell, as for a run of its own."""
        cell = self.cell(index)
        cuts = {"top_k": cell.top_k, **({} if cell.threshold is None else {"threshold": cell.threshold})}
        return self.configurations[cell.configuration].settings.model_copy(update=cuts)

    def observed(self, index: int) -> Observed:
        """Return what a run of that cell alone observes: the candidates, and the cell's selection of them."""
        cell = self.cell(index)
        configuration = self.configurations[cell.configuration]
        selections = configuration.selections
        numbers = selections.of_cell(index - int(self._starts[cell.configuration]))
        indexes = [selections.places(number) for number in numbers.tolist()]
        observations = configuration.observed.observations
        return replace(
            configuration.observed,
            observations=tuple(
                replace(o, selection=o.candidates.at(places)) for o, places in zip(observations, indexes, strict=True)
            ),
        )

    def matrix(self, metric: str) -> Floats:
        """scores[query, cell] of a metric, over the queries of its scope; NaN where a query has none.

        Raises:
            KeyError: The grid has no such metric.
        """
        return self.laid_out(self.metrics[metric].parts, self.metrics[metric].rows)

    def laid_out(self, parts: Sequence[Part], rows: NDArray[np.int64]) -> Floats:
        """Lay scores of selections out as scores[query, cell], over some of the queries."""
        matrix = np.empty((len(rows), len(self)))
        for configuration, part, first in zip(self.configurations, parts, self._starts, strict=True):
            values = part().values
            for cells, numbers in configuration.selections.blocks():
                matrix[:, first + cells.start : first + cells.stop] = values[numbers[:, rows]].T
        return matrix

    def scores(self, metric: str, index: int) -> "CellScores":
        """Return the scores of a cell by query id, with the reason where there is none.

        Raises:
            KeyError: The grid has no such metric.
            IndexError: The grid has no such cell.
        """
        return self._scores_of(self.metrics[metric], self.metrics[metric].parts, index)

    def proxy_scores(self, metric: str, index: int) -> "CellScores":
        """Return the scores of the proxy that corrects a metric's means, likewise."""
        sample = self.metrics[metric].sample
        assert sample is not None
        return self._scores_of(self.metrics[metric], sample.proxy_parts, index)

    def tier_scores(self, metric: str, index: int) -> list[tuple[str, "CellScores"]]:
        """Return the scores of a cascade's cheaper judges with their models, the cheapest first, likewise."""
        sample = self.metrics[metric].sample
        assert sample is not None
        return [(model, self._scores_of(self.metrics[metric], parts, index)) for model, parts in sample.tiers]

    def _scores_of(self, metric_scores: MetricScores, parts: Sequence[Part], index: int) -> "CellScores":
        cell = self.cell(index)
        part = parts[cell.configuration]()
        inner = index - int(self._starts[cell.configuration])
        numbers = self.configurations[cell.configuration].selections.of_cell(inner)[metric_scores.rows]
        chosen = SelectionScores(
            values=part.values[numbers],
            issue=None if part.issue is None else part.issue[numbers],
            issues=part.issues,
        )
        return CellScores(self._place_of(metric_scores.scope, metric_scores.query_ids), chosen)

    def _place_of(self, scope: str, query_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the place of each query of a scope, one mapping for all of its metrics."""
        if scope not in self._places:
            self._places[scope] = {query_id: row for row, query_id in enumerate(query_ids)}
        return self._places[scope]

    @cached_property
    def _places(self) -> dict[str, Mapping[str, int]]:
        return {}

    @property
    def _starts(self) -> Counts:
        return np.concatenate([[0], self._ends[:-1]]).astype(np.int64)


class CellScores(Mapping[str, Score]):
    """The scores of one metric in one cell, by query id."""

    def __init__(self, places: Mapping[str, int], scores: SelectionScores) -> None:
        self._places, self._scores = places, scores

    def __getitem__(self, query_id: str) -> Score:
        row, scores = self._places[query_id], self._scores
        if scores.issue is not None and scores.issue[row] >= 0:
            return scores.issues[int(scores.issue[row])]
        return float(scores.values[row])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
