"""A grid: cells over one pool of candidates, the results that cells keep, and the scores of cells as lookups.

For each query, a cell keeps the first `top_k` candidates that reach the cell's threshold. Most cells keep the same
result of a query as other cells do. So distinct results are laid out once (`lay_out`), a metric scores each of them
once, and the score of a cell is the score of the result that the cell keeps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evals.collect.observations import Failure, Observed, Summary
from evals.collect.pool import Lists, Pool, repeated
from evals.grid.axes import Plan, Variant
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.results import Results, Values, every_candidate
from evals.stats.intervals import Bools, Floats, Integers, Pair
from retrievers.config import RetrieverConfig
from retrievers.search.selection import group_of

# Most thresholds × candidates that are laid out at once. A larger grid is laid out in blocks of queries.
BLOCK = 4_000_000


class GridCell(NamedTuple):
    """A variant, a threshold and a cut.

    Attributes:
        variant: Number of the variant.
        top_k: The cut.
        threshold: The threshold; None where none is in force.
    """

    variant: int
    top_k: int
    threshold: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class CellSample:
    """The judged sample of a metric's queries.

    Attributes:
        judged: [queries, cells], whether a query was judged in a cell.
        weight: [cells], weight of the correction by the proxy, 0 to 1.
        comparable: [queries, cells], pseudo-values by which cells are compared. Their column means are the corrected
            means, and their differences vary as the differences of corrected means do. NaN where a query has no part.
        ends: Lower and upper ends of the 95% intervals of corrected means, [cells] each; NaN where there are none.
        name: Name of the proxy.
        looks: Number of planned looks at the verdicts. Judging may have ended at any of them.
    """

    judged: Bools
    weight: Floats
    comparable: Floats
    ends: Pair
    name: str
    looks: int


@dataclass(frozen=True, kw_only=True)
class CellScores:
    """A metric in every cell. Each array has one entry a cell.

    Attributes:
        mean: Mean over the scored queries; NaN where there is none.
        n: Number of scored queries.
        n_failed: Number of queries whose score failed.
        common: Mean over the queries that are scored in all cells. Cells are ranked by it.
        n_common: Number of queries that are scored in all cells.
        n_dropped: Number of queries that lack a score in some cell, or failed. A query that no cell can score, as it
            lacks a reference, is not counted.
        sample: The judged sample of the queries, if a sample was judged; else None.
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
        plan: Variants, thresholds and cuts.
        pool: The candidates.
        observed: By variant, the candidates at full depth, latency and repetitions.
        summaries: By variant, the metrics that belong to the variant and not to a cell: latency, determinism, AUROC.
        metrics: The scores of every cell, by metric.
        whole: Cache of `laid_out`. Copies of the grid share it.
    """

    plan: Plan
    pool: Pool
    observed: tuple[Observed, ...] = ()
    summaries: tuple[tuple[Summary, ...], ...] = ()
    metrics: Mapping[str, CellScores] = field(default_factory=dict)
    whole: list[tuple[Results, Integers]] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.variants) * self.size

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants. The search ran once for each."""
        return self.plan.variants

    @property
    def top_ks(self) -> tuple[int, ...]:
        """The cuts: numbers of chunks to keep at most."""
        return self.plan.top_ks

    @property
    def size(self) -> int:
        """The number of cells of each variant."""
        return len(self.variants[0].thresholds) * len(self.top_ks)

    @property
    def threshold_of(self) -> Floats:
        """The threshold of each cell, [cells]; 0 where none is in force."""
        return np.repeat([variant.thresholds for variant in self.variants], len(self.top_ks)).astype(float)

    def cell(self, index: int) -> GridCell:
        """Return a cell by its number."""
        number, of_variant = divmod(index, self.size)
        row, column = divmod(of_variant, len(self.top_ks))
        variant = self.variants[number]
        threshold = None if variant.settings.threshold is None else variant.thresholds[row]
        return GridCell(number, self.top_ks[column], threshold)

    def settings(self, index: int) -> RetrieverConfig:
        """Return the retriever's settings for a run of one cell."""
        cell = self.cell(index)
        cuts = {"top_k": cell.top_k, **({} if cell.threshold is None else {"threshold": cell.threshold})}
        return self.variants[cell.variant].settings.model_copy(update=cuts)

    def results(self, index: int) -> Results:
        """Return the results of one cell, one row a query, in the order of the queries."""
        cell, settings = self.cell(index), self.settings(index)
        lists = self.pool.lists([cell.variant])
        order, reach = _select(lists, slice(None), settings, (settings.least,), cell.top_k)
        return Results(lists, np.arange(len(lists)), _cut(order[0], reach[0]))

    def laid_out(self) -> tuple[Results, Integers]:
        """Return all distinct results, and which row each cell keeps of each query, [cells, queries]."""
        if not self.whole:
            self.whole.append(self._laid_out(0, None))
        return self.whole[0]

    def _laid_out(self, start: int, end: int | None) -> tuple[Results, Integers]:
        return lay_out(self.pool.lists(range(len(self.variants)), start, end), self.variants, self.top_ks)

    def blocks(self) -> Iterator[tuple[Results, Integers]]:
        """Yield what `laid_out` returns, for consecutive blocks of queries, so that memory stays bounded."""
        depths = sum(table.codes.shape[1] for table in self.pool.tables) * len(self.variants[0].thresholds)
        count, step = len(self.pool.cases), max(1, BLOCK // max(1, depths))
        for start in range(0, count, step):
            yield self.laid_out() if step >= count else self._laid_out(start, min(start + step, count))

    def matrix(self, metric: QueryMetric, context: Context) -> Floats:
        """Return the scores of every query in every cell, [queries, cells]; NaN for none, also outside of the scope."""
        return np.concatenate([metric.values(results, context).values[row_of].T for results, row_of in self.blocks()])


def score_cells(grid: Grid, metrics: Mapping[str, QueryMetric], context: Context) -> dict[str, CellScores]:
    """Return the scores of metrics in every cell, by name.

    Args:
        grid: The cells.
        metrics: The metrics by name.
        context: Inputs of the metrics besides the results.
    """
    sums = {name: np.zeros((6, len(grid))) for name in metrics}
    for results, row_of in grid.blocks():
        for name, metric in metrics.items():
            sums[name] += _sums(metric.values(results, context), row_of)
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


def _sums(values: Values, row_of: Integers) -> Floats:
    """Return sums over a block of queries, [6, cells].

    The rows are: sum of the scores, number of scores, number of failures, sum of the scores of queries that all cells
    score, number of these queries, number of queries that only some cells score.

    Args:
        values: Scores of the results.
        row_of: [cells, queries], the result that a cell keeps of a query.
    """
    is_failure = np.asarray([*(isinstance(issue, Failure) for issue in values.issues), False])
    scores, failed = values.values[row_of], is_failure[values.issue][row_of]
    scored = ~np.isnan(scores)
    in_all, is_tried = scored.all(axis=0), (scored | failed).any(axis=0)
    of_cells = np.nansum(scores, axis=1), scored.sum(axis=1), failed.sum(axis=1), scores[:, in_all].sum(axis=1)
    return np.stack(np.broadcast_arrays(*of_cells, in_all.sum(), (is_tried & ~in_all).sum()))


def lay_out(lists: Lists, variants: Sequence[Variant], top_ks: Sequence[int]) -> tuple[Results, Integers]:
    """Lay out the distinct results that cells keep.

    Args:
        lists: Candidates of some queries under every variant.
        variants: The variants with their thresholds.
        top_ks: The cuts, each 1 or more.

    Returns:
        The results, and the row of the result that each cell keeps of each query, [cells, queries].
    """
    queries = len(lists) // len(variants)
    longest = min(max(top_ks), lists.codes.shape[1])
    list_of, places, row_of, count = [], [], [], 0
    for number, variant in enumerate(variants):
        rows = slice(number * queries, (number + 1) * queries)
        order, reach = _select(lists, rows, variant.settings, variant.thresholds, longest)
        # [thresholds, cuts, queries], the length of each cell's result, and the first threshold with the same result.
        lengths = np.minimum(np.asarray(top_ks)[None, :, None], reach[:, None, :])
        first = _first_thresholds(order)[np.arange(len(order))[:, None, None], np.arange(queries), lengths]
        # A result has one key: its first threshold, its query and its length as the digits of a number.
        keys = (first * queries + np.arange(queries)) * (longest + 1) + lengths
        is_used = np.zeros(len(order) * queries * (longest + 1), dtype=np.bool_)
        is_used[keys] = True
        distinct = np.flatnonzero(is_used)
        threshold, query = np.divmod(distinct // (longest + 1), queries)
        list_of.append(rows.start + query)
        places.append(_cut(order[threshold, query], distinct % (longest + 1)))
        row_of.append((count + np.cumsum(is_used) - 1)[keys].reshape(-1, queries))
        count += len(distinct)
    return Results(lists, np.concatenate(list_of), np.concatenate(places)), np.concatenate(row_of)


def _select(
    lists: Lists, rows: slice, settings: RetrieverConfig, thresholds: Sequence[float], longest: int
) -> tuple[Integers, Integers]:
    """Select by every threshold, as `retrievers.search.selection.select` does by one.

    Returns:
        The places of the first candidates that reach each threshold, [thresholds, lists, longest], and the number of
        these candidates, [thresholds, lists].
    """
    exists = lists.codes[rows] >= 0
    scores = np.zeros(exists.shape) if settings.threshold is None else lists.read_by_threshold(settings)[rows]
    if settings.threshold_on == "best":
        scores = np.where(exists, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    reached = exists & (scores >= np.asarray(thresholds, dtype=float)[:, None, None])
    if (field := settings.group_by) is not None:
        groups = every_candidate(lists).by_key(f"group by {field}", lambda chunk: group_of(chunk, field))[rows]
        reached &= ~repeated(np.where(reached, groups, -1))
    order = np.argsort(~reached, axis=2, kind="stable")[:, :, :longest]
    return order, np.minimum(reached.sum(axis=2), longest)


def _first_thresholds(order: Integers) -> Integers:
    """Return the first threshold that leaves the same beginning of a list; [thresholds, lists, lengths from 0].

    A stricter threshold keeps fewer candidates. So its list begins as that of the threshold before, up to the first
    candidate that the stricter threshold drops.
    """
    # All lists have the same beginning of length 0.
    new = np.pad(~np.logical_and.accumulate(order[1:] == order[:-1], axis=2), ((1, 0), (0, 0), (1, 0)))
    return np.asarray(np.maximum.accumulate(np.where(new, np.arange(len(order))[:, None, None], 0), axis=0))


def _cut(order: Integers, lengths: Integers) -> Integers:
    """Return the first places of each list, −1 beyond its length."""
    return np.where(np.arange(order.shape[1]) < lengths[:, None], order, -1)
