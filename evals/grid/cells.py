"""What a grid is: cells over one pool of candidates, the results that they keep, and their scores as lookups.

A cell keeps of each query the first `top_k` candidates that reach its threshold. Cells keep the same result of a query
more often than not, so results are laid out once (`lay_out`), a metric scores each once, and the score of a cell is
that of the result which it keeps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from evals.collect.observations import Failure, Observed, Summary
from evals.collect.pool import Bools, Floats, Integers, Lists, Pool
from evals.grid.axes import Plan, Variant
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.results import Results, Values, every_candidate
from evals.stats.intervals import Pair
from retrievers.config import RetrieverConfig
from retrievers.search.selection import group_of

# Thresholds × candidates that are laid out at once: some queries of all cells.
BLOCK = 4_000_000


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """One way to retrieve, threshold and cut.

    Attributes:
        variant: The number of the way to retrieve.
        threshold: None where none is in force.
        parameters: All settings that tell cells apart.
    """

    index: int
    variant: int
    top_k: int
    threshold: float | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class CellSample:
    """The judged sample of a metric's queries.

    Attributes:
        judged: [queries, cells], whether a query was judged in a cell.
        weight: [cells], that of what corrects the mean.
        comparable: [queries, cells], scores by which cells are compared: their column means are the corrected means,
            and their differences vary as those of the corrected means do. NaN where a query stands for nothing.
        ends: Lower and upper [cells] of the 95% intervals of corrected means, NaN where there are none.
        name: What corrects the means.
        looks: Number of planned looks at any of which judging may have ended.
    """

    judged: Bools
    weight: Floats
    comparable: Floats
    ends: Pair
    name: str
    looks: int


@dataclass(frozen=True, kw_only=True)
class CellScores:
    """A metric in every cell; each array has one entry a cell.

    Attributes:
        mean: Over the scored queries, NaN where there is none.
        n: Number of these queries.
        n_failed: Number of values that failed.
        common: The mean over the queries that are scored in all cells: what cells are ranked by.
        n_common: Number of these queries.
        n_dropped: Number of queries scored in some cells and not in all, or failed; those without a score in any
            cell for want of a reference are not among them.
        sample: Which queries were judged, where a sample was, and what corrects their means; else None.
    """

    mean: Floats
    n: Integers
    n_failed: Integers
    common: Floats
    n_common: int
    n_dropped: int
    sample: CellSample | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """The cells of a plan, numbered by variant, then threshold, then `top_k`, which changes fastest.

    Attributes:
        plan: Ways to retrieve, thresholds and cuts.
        pool: The candidates.
        observed: By variant: candidates at full depth; latency and repetitions.
        summaries: By variant, the metrics that belong to it and not to a cell: latency, determinism, separation.
        metrics: What every cell scored, by metric.
        notes: Remarks that a reader must know beside the figures.
        whole: What `laid_out` returned, once it did; grids that are made of this one share it.
    """

    plan: Plan
    pool: Pool
    observed: tuple[Observed, ...] = ()
    summaries: tuple[tuple[Summary, ...], ...] = ()
    metrics: Mapping[str, CellScores] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    whole: list[tuple[Results, Integers]] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.variants) * self.size

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The ways to retrieve, for each of which the search ran once."""
        return self.plan.variants

    @property
    def top_ks(self) -> tuple[int, ...]:
        """The cuts."""
        return self.plan.top_ks

    @property
    def size(self) -> int:
        """The number of cells of each variant."""
        return len(self.variants[0].thresholds) * len(self.top_ks)

    @property
    def threshold_of(self) -> Floats:
        """[cells], the threshold of each; 0 where none is in force."""
        return np.repeat([variant.thresholds for variant in self.variants], len(self.top_ks)).astype(float)

    def cell(self, index: int) -> GridCell:
        """Return the cell of a number."""
        number, (threshold, cut) = index // self.size, divmod(index % self.size, len(self.top_ks))
        variant, cuts = self.variants[number], dict[str, Any](top_k=self.top_ks[cut])
        if variant.settings.threshold is not None:
            cuts["threshold"] = variant.thresholds[threshold]
        parameters = {**variant.parameters, **cuts}
        return GridCell(index=index, variant=number, parameters=parameters, **{"threshold": None, **cuts})

    def settings(self, index: int) -> RetrieverConfig:
        """Return the retriever's settings of a cell, as for a run of its own."""
        cell = self.cell(index)
        cuts = {"top_k": cell.top_k, **({} if cell.threshold is None else {"threshold": cell.threshold})}
        return self.variants[cell.variant].settings.model_copy(update=cuts)

    def results(self, index: int) -> Results:
        """Return the results of one cell, one a query in their order."""
        cell, settings = self.cell(index), self.settings(index)
        lists = self.pool.lists([cell.variant])
        order, reach = _select(lists, slice(None), settings, (settings.least,), cell.top_k)
        return Results(lists, np.arange(len(lists)), _cut(order[0], reach[0]))

    def laid_out(self) -> tuple[Results, Integers]:
        """Return all distinct results, and the row of the result of each cell and query: shape (cells, queries)."""
        if not self.whole:
            self.whole.append(self._laid_out(0, None))
        return self.whole[0]

    def _laid_out(self, start: int, end: int | None) -> tuple[Results, Integers]:
        return lay_out(self.pool.lists(range(len(self.variants)), start, end), self.variants, self.top_ks)

    def blocks(self) -> Iterator[tuple[Results, Integers]]:
        """Yield `laid_out` for consecutive blocks of queries, so that memory stays bounded."""
        depths = sum(table.codes.shape[1] for table in self.pool.tables) * len(self.variants[0].thresholds)
        count, step = len(self.pool.cases), max(1, BLOCK // max(1, depths))
        for start in range(0, count, step):
            yield self.laid_out() if step >= count else self._laid_out(start, min(start + step, count))

    def matrix(self, metric: QueryMetric, context: Context) -> Floats:
        """Return a metric of every query of its scope in every cell, NaN for no score; [queries, cells]."""
        parts = []
        for results, row_of in self.blocks():
            inside = np.isin(row_of[0], results.of(metric.scope, labelled=False)[0])
            parts.append(metric.values(results, context).values[row_of[:, inside]].T)
        return np.concatenate(parts)


def score_cells(grid: Grid, metrics: Mapping[str, QueryMetric], context: Context) -> dict[str, CellScores]:
    """Score metrics in every cell.

    Args:
        grid: The cells.
        metrics: By name.
        context: Inputs of the metrics besides the results.
    """
    # 50 ms that a run without a grid spares.
    from scipy.sparse import csr_array

    sums = {name: np.zeros((6, len(grid))) for name in metrics}
    for results, row_of in grid.blocks():
        # Ones where a cell keeps a result: sums over queries are products.
        starts = np.arange(0, row_of.size + 1, row_of.shape[1])
        keeps = csr_array((np.ones(row_of.size), row_of.ravel(), starts), shape=(len(grid), len(results)))
        for name, metric in metrics.items():
            inside = np.isin(np.arange(len(results)), results.of(metric.scope, labelled=False)[0])
            sums[name] += _sums(metric.values(results, context), inside, results.query, keeps)
    return {
        name: CellScores(
            mean=total / np.where(n > 0, n, np.nan),
            n=n.astype(np.int64),
            n_failed=failed.astype(np.int64),
            common=common / np.where(in_all > 0, in_all, np.nan),
            n_common=int(in_all[0]),
            n_dropped=int(dropped[0]),
        )
        for name, (total, n, failed, common, in_all, dropped) in sums.items()
    }


def _sums(values: Values, inside: Bools, query: Integers, keeps: Any) -> Floats:
    """Return sums over some queries, [6, cells].

    Sum and number of scores, failures, sum and number of the scores of queries that all cells score, and queries that
    only some do.

    Args:
        values: By result.
        inside: Whether the query of a result is in the scope of the metric.
        query: The query of each result.
        keeps: [cells, results], 1 where a cell keeps a result. Each is kept by some cell.
    """
    scored, failing = inside & (values.issue < 0), np.asarray([*(isinstance(i, Failure) for i in values.issues), False])
    failed = inside & failing[values.issue]
    lacking, known = (np.bincount(query, rows) > 0 for rows in (inside & ~scored, scored | failed))
    in_all = scored & ~lacking[query]
    columns = [np.where(scored, values.values, 0.0), scored, failed, np.where(in_all, values.values, 0.0)]
    counts = len(np.unique(query[in_all])), (lacking & known).sum()
    return np.stack(np.broadcast_arrays(*(keeps @ np.column_stack(columns)).T, *counts))


def lay_out(lists: Lists, variants: Sequence[Variant], top_ks: Sequence[int]) -> tuple[Results, Integers]:
    """Lay out the distinct results that cells keep.

    Args:
        lists: Candidates of some queries under every variant.
        variants: With their thresholds.
        top_ks: The cuts, each 1 or more.

    Returns:
        The results; and which of them each cell keeps of each query, shape (cells, queries).
    """
    queries = len(lists) // len(variants)
    longest = min(max(top_ks), lists.codes.shape[1])
    list_of, places, row_of, count = [], [], [], 0
    for number, variant in enumerate(variants):
        rows = slice(number * queries, (number + 1) * queries)
        order, reach = _select(lists, rows, variant.settings, variant.thresholds, longest)
        lengths = np.minimum(np.asarray(top_ks)[None, :, None], reach[:, None, :])
        first = _first_lists(order)
        begun = first[np.arange(len(order))[:, None, None], np.arange(queries), lengths]
        # A result is a list, by the threshold that leaves it, its query, and a length.
        numbers = (begun * queries + np.arange(queries)) * (longest + 1) + lengths
        used = np.zeros(len(order) * queries * (longest + 1), dtype=np.bool_)
        used[numbers] = True
        kept = np.flatnonzero(used)
        of_list, length = kept // (longest + 1), kept % (longest + 1)
        list_of.append(rows.start + of_list % queries)
        places.append(_cut(order[of_list // queries, of_list % queries], length))
        row_of.append((count + np.cumsum(used) - 1)[numbers].reshape(-1, queries))
        count += len(kept)
    return Results(lists, np.concatenate(list_of), np.concatenate(places)), np.concatenate(row_of)


def _select(
    lists: Lists, rows: slice, settings: RetrieverConfig, thresholds: Sequence[float], longest: int
) -> tuple[Integers, Integers]:
    """Select by every threshold, as `retrievers.search.selection.select` does it for one.

    Returns:
        The places of the first candidates that reach each threshold, [thresholds, lists, longest], and how many there
        are, [thresholds, lists].
    """
    exists = lists.codes[rows] >= 0
    read = np.zeros(exists.shape) if settings.threshold is None else lists.read_by_threshold(settings)[rows]
    if settings.threshold_on == "best":
        read = np.where(exists, read, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) * np.ones(exists.shape)
    reached = exists & (read >= np.asarray(thresholds, dtype=float)[:, None, None])
    if (field := settings.group_by) is not None:
        groups = every_candidate(lists).by_key(f"group by {field}", lambda chunk: group_of(chunk, field))[rows]
        for of_threshold in reached:
            _keep_first(of_threshold, groups)
    order = np.argsort(~reached, axis=2, kind="stable")[:, :, :longest]
    return order, np.minimum(reached.sum(axis=2), longest)


def _keep_first(reached: Bools, groups: Integers) -> None:
    """Keep of those that reach a threshold the first of each group; in place."""
    keys = np.where(reached, groups, -1)
    order = np.argsort(keys, axis=1, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=1)
    repeated = np.zeros(reached.shape, dtype=np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    reached &= ~repeated


def _first_lists(order: Integers) -> Integers:
    """Return by which threshold each beginning of a list was left first; [thresholds, lists, lengths from 0].

    A stricter threshold keeps fewer candidates, so that what it leaves begins as the list before it, up to the first
    candidate that it drops.
    """
    # The beginning of length 0 is that of any list.
    new = np.pad(~np.logical_and.accumulate(order[1:] == order[:-1], axis=2), ((1, 0), (0, 0), (1, 0)))
    return np.asarray(np.maximum.accumulate(np.where(new, np.arange(len(order))[:, None, None], 0), axis=0))


def _cut(order: Integers, lengths: Integers) -> Integers:
    """Return the first places of each list, −1 beyond."""
    return np.where(np.arange(order.shape[1]) < lengths[:, None], order, -1)


def table(grid: Grid) -> dict[str, list[Any]]:
    """Return the whole grid by columns: one row a cell, its settings and the mean of every metric, or None."""
    cells = [grid.cell(index).parameters for index in range(len(grid))]
    settings = {name: [cell.get(name) for cell in cells] for name in dict.fromkeys(name for c in cells for name in c)}
    means = {name: [x if isfinite(x) else None for x in m.mean.tolist()] for name, m in grid.metrics.items()}
    return settings | means
