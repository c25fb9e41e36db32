"""What a grid is: cells over one pool of candidates, the results that they keep, and their scores as lookups.

A cell keeps of each query the first `top_k` candidates that reach its threshold. Cells keep the same result of a query
more often than not, so results are laid out once (`lay_out`), a metric scores each once, and the score of a cell is
that of the result which it keeps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from evals.collect.observations import Failure, Observed, Summary
from evals.collect.pool import Bools, Floats, Integers, Lists, Pool
from evals.metrics.declaration import Context, QueryMetric, Scope
from evals.metrics.results import Results
from retrievers.config import RetrieverConfig
from retrievers.search.selection import group_of

# Thresholds × candidates that are laid out at once: some queries of all cells.
BLOCK = 4_000_000


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
        observed: Candidates at full depth; latency and repetitions.
        summaries: The metrics that belong to the configuration, not to a cell: latency, determinism, separation.
    """

    name: str
    parameters: Mapping[str, Any]
    settings: RetrieverConfig
    thresholds: tuple[float, ...]
    observed: Observed
    summaries: tuple[Summary, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class CellSample:
    """The judged sample of a metric's queries.

    Attributes:
        eligible: [queries], whether a judge can score it, which takes a reference answer: those the means stand for.
        asked: [queries, cells], whether it is eligible and was drawn for the cell.
        scores: [eligible queries, cells], the judge's; NaN where it was not asked, or failed.
        proxy: [eligible queries, cells], what corrects the means.
        name: What it is.
        looks: Number of planned looks at any of which judging may have ended.
    """

    eligible: Bools
    asked: Bools
    scores: Floats
    proxy: Floats
    name: str
    looks: int = 1


@dataclass(frozen=True, kw_only=True)
class CellScores:
    """A metric in every cell; each array has one entry a cell.

    Attributes:
        scope: Which queries it is over.
        mean: Over the scored queries, NaN where there is none.
        n: Number of these queries.
        n_unscored: Number of values that could not be scored; `n_failed`, of those that failed.
        common: The mean over the queries that are scored in all cells: what cells are ranked by.
        n_common: Number of these queries.
        n_dropped: Number of queries scored in some cells and not in all, or failed; those without a score in any
            cell for want of a reference are not among them.
        sample: Which queries were judged, where a sample was, and what corrects their means; else None.
    """

    scope: Scope
    mean: Floats
    n: Integers
    n_unscored: Integers
    n_failed: Integers
    common: Floats
    n_common: int
    n_dropped: int
    sample: CellSample | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """The cells of a sweep, numbered by configuration, then threshold, then `top_k`, which changes fastest.

    Attributes:
        axes: Each axis that has several values, with them.
        pool: The candidates; the variant of a configuration has its number.
        metrics: What every cell scored, by metric.
        notes: Remarks that a reader must know beside the figures.
    """

    axes: Mapping[str, Sequence[Any]]
    top_ks: tuple[int, ...]
    configurations: tuple[Configuration, ...]
    pool: Pool
    metrics: Mapping[str, CellScores] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(map(self.size, range(len(self.configurations))))

    def size(self, configuration: int) -> int:
        """Return the number of cells of a configuration."""
        return len(self.configurations[configuration].thresholds) * len(self.top_ks)

    def start(self, configuration: int) -> int:
        """Return the first cell of a configuration."""
        return sum(map(self.size, range(configuration)))

    def cell(self, index: int) -> Cell:
        """Return the cell of a number.

        Raises:
            IndexError: There is none.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"expected a cell from 0 to {len(self) - 1}, got {index!r}")
        number = next(n for n in reversed(range(len(self.configurations))) if self.start(n) <= index)
        threshold, cut = divmod(index - self.start(number), len(self.top_ks))
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

    def results(self, index: int) -> Results:
        """Return the results of one cell, one a query in their order."""
        cell = self.cell(index)
        threshold = self.configurations[cell.configuration].settings.least if cell.threshold is None else cell.threshold
        lists = self.pool.lists([cell.configuration])
        order, reach = _select(lists, slice(None), self.settings(index), (threshold,), cell.top_k)
        lengths = np.minimum(reach[0], cell.top_k)
        return Results(lists, np.arange(len(lists)), _cut(order[0], lengths))

    def laid_out(self) -> tuple[Results, Integers]:
        """Return the distinct results of all cells, and which of them a cell keeps of a query; [cells, queries]."""
        return self._lay_out(0, len(self.pool.cases))

    def blocks(self) -> Iterator[tuple[Results, Integers]]:
        """Yield the same for some queries at a time, in their order."""
        if self._whole:
            yield self._all
            return
        for start in range(0, len(self.pool.cases), self._step):
            yield self._lay_out(start, min(start + self._step, len(self.pool.cases)))

    @cached_property
    def _step(self) -> int:
        pairs = zip(self.pool.tables, self.configurations, strict=True)
        depths = (table.depth * len(configuration.thresholds) for table, configuration in pairs)
        return max(1, BLOCK // max(1, sum(depths)))

    @property
    def _whole(self) -> bool:
        return self._step >= len(self.pool.cases)

    @cached_property
    def _all(self) -> tuple[Results, Integers]:
        return self.laid_out()

    def _lay_out(self, start: int, end: int) -> tuple[Results, Integers]:
        return lay_out(self.pool.lists(range(len(self.configurations)), start, end), self.configurations, self.top_ks)

    def matrix(self, metric: QueryMetric, context: Context) -> Floats:
        """Score a metric in every cell.

        Args:
            metric: The metric.
            context: Inputs of metrics besides the results.

        Returns:
            [queries of its scope, cells]; NaN where a query has no score.
        """
        parts = []
        for results, row_of in self.blocks():
            chosen = _inside(results, row_of, metric.scope)
            parts.append(metric.values(results, context).values[row_of[:, chosen]].T)
        return np.concatenate(parts)


def score_cells(grid: Grid, metrics: Mapping[str, QueryMetric], context: Context) -> dict[str, CellScores]:
    """Score metrics in every cell.

    Args:
        grid: The cells.
        metrics: By name.
        context: Inputs of the metrics besides the results.
    """
    sums = {name: _Sums(len(grid)) for name in metrics}
    for results, row_of in grid.blocks():
        numbers: dict[Scope, Integers] = {}
        for name, metric in metrics.items():
            if metric.scope not in numbers:
                numbers[metric.scope] = np.ascontiguousarray(row_of[:, _inside(results, row_of, metric.scope)])
            values = metric.values(results, context)
            failing = np.asarray([isinstance(issue, Failure) for issue in (*values.issues, None)])
            sums[name].add(values.values, values.issue, failing, numbers[metric.scope])
    return {name: sums[name].scores(metric.scope) for name, metric in metrics.items()}


class _Sums:
    """Sums of one metric in every cell, over blocks of queries."""

    def __init__(self, cells: int) -> None:
        self._sum, self._common = np.zeros(cells), np.zeros(cells)
        self._n, self._failed = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
        self._queries = self._in_all = self._dropped = 0

    def add(self, values: Floats, issue: Integers | None, failing: Bools, numbers: Integers) -> None:
        """Add some queries.

        Args:
            values: By result; `issue` likewise, as in `Values`.
            issue: Which reason there is for no value.
            failing: Which reasons are failures.
            numbers: The result that a cell keeps of a query; [cells, queries].
        """
        taken = np.take(values, numbers)
        self._queries += numbers.shape[1]
        if issue is None:
            self._n += numbers.shape[1]
            self._in_all += numbers.shape[1]
            self._sum += taken.sum(axis=1)
            self._common += taken.sum(axis=1)
            return
        why = np.take(issue, numbers)
        scored, failed = why < 0, failing[why]
        in_all = scored.all(axis=0)
        self._n += scored.sum(axis=1)
        self._failed += failed.sum(axis=1)
        self._in_all += int(in_all.sum())
        self._dropped += int((~in_all & (scored | failed).any(axis=0)).sum())
        self._sum += np.where(scored, taken, 0.0).sum(axis=1)
        self._common += taken[:, in_all].sum(axis=1)

    def scores(self, scope: Scope) -> CellScores:
        """Return the means and counts."""
        with np.errstate(invalid="ignore"):
            return CellScores(
                scope=scope,
                mean=self._sum / np.where(self._n > 0, self._n, np.nan),
                n=self._n,
                n_unscored=self._queries - self._n - self._failed,
                n_failed=self._failed,
                common=self._common / (self._in_all or np.nan),
                n_common=self._in_all,
                n_dropped=self._dropped,
            )


def lay_out(lists: Lists, configurations: Sequence[Configuration], top_ks: Sequence[int]) -> tuple[Results, Integers]:
    """Lay out the distinct results that cells keep.

    Args:
        lists: Candidates of some queries under the variant of every configuration.
        configurations: With their thresholds.
        top_ks: The cuts, each 1 or more.

    Returns:
        The results; and which of them each cell keeps of each query, shape (cells, queries).
    """
    queries = len(lists) // len(configurations)
    longest = min(max(top_ks), lists.codes.shape[1])
    list_of, places, row_of, count = [], [], [], 0
    for number, configuration in enumerate(configurations):
        rows = slice(number * queries, (number + 1) * queries)
        order, reach = _select(lists, rows, configuration.settings, configuration.thresholds, longest)
        first = _first_lists(order, reach)
        lengths = np.minimum(np.asarray(top_ks)[None, :, None], reach[:, None, :])
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
    found = lists.codes[rows] >= 0
    if settings.used_threshold is None:
        read = np.zeros(found.shape)
    else:
        read = lists.column("score" if settings.threshold_on == "final" else "semantic")[rows]
    if settings.threshold_on == "best":
        read = np.where(found, read, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) * np.ones(found.shape)
    reached = found & (read >= np.asarray(thresholds, dtype=float)[:, None, None])
    if settings.group_by is not None:
        groups = _groups(lists, rows, settings.group_by)
        for of_threshold in reached:
            _keep_first(of_threshold, groups)
    order = np.argsort(~reached, axis=2, kind="stable")[:, :, :longest]
    return order, np.minimum(reached.sum(axis=2), longest)


def _groups(lists: Lists, rows: slice, field: str) -> Integers:
    """Number the group of each candidate; a chunk without the field is alone."""
    codes = lists.codes[rows]
    told = lists.pool.tell(
        f"group by {field}", lambda chunk: group_of(chunk, field), np.unique(codes[codes >= 0]).tolist()
    )
    numbers: dict[Any, int] = {}
    by_code = np.zeros(int(codes.max(initial=-1)) + 2, dtype=np.int64)
    for code, group in told.items():
        if code < len(by_code) - 1:
            by_code[code] = numbers.setdefault(group, len(numbers))
    return by_code[codes]


def _keep_first(reached: Bools, groups: Integers) -> None:
    """Keep of those that reach a threshold the first of each group; in place."""
    keys = np.where(reached, groups, -1)
    order = np.argsort(keys, axis=1, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=1)
    repeated = np.zeros(reached.shape, dtype=np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    reached &= ~repeated


def _first_lists(order: Integers, reach: Integers) -> Integers:
    """Return by which threshold each beginning of a list was left first; [thresholds, lists, lengths from 0].

    A stricter threshold keeps fewer candidates, so that what it leaves begins as the list before it, up to the first
    candidate that it drops.
    """
    thresholds, lists, longest = order.shape
    ranks, first = np.arange(longest), np.zeros((thresholds, lists, longest + 1), dtype=np.int64)
    for number in range(1, thresholds):
        same = (order[number] == order[number - 1]) & (ranks < np.minimum(reach[number], reach[number - 1])[:, None])
        alike = np.cumprod(same, axis=1).sum(axis=1)
        lengths = np.arange(longest + 1)
        first[number] = np.where(lengths <= alike[:, None], first[number - 1], number)
    return first


def _cut(order: Integers, lengths: Integers) -> Integers:
    """Return the first places of each list, −1 beyond."""
    return np.where(np.arange(order.shape[1]) < lengths[:, None], order, -1)


def _inside(results: Results, row_of: Integers, scope: Scope) -> Integers:
    """Return which queries are in a scope."""
    rows = row_of[0]
    inside = results.at(rows).by_case(lambda case: scope == "all" or case.in_scope == (scope == "in_scope"))
    return np.flatnonzero(inside)


def table(grid: Grid) -> dict[str, list[Any]]:
    """Return the whole grid by columns: one row a cell, its settings and the mean of every metric, or None."""
    cells = grid.cells()
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    columns: dict[str, list[Any]] = {name: [cell.parameters.get(name) for cell in cells] for name in names}
    for name, metric in grid.metrics.items():
        columns[name] = [value if np.isfinite(value) else None for value in metric.mean.tolist()]
    return columns


def pareto_front(values: Floats, cost: Floats) -> list[int]:
    """Places that no other beats: none costs as little with a higher value, or less with as high a one.

    Args:
        values: [cells], more is better; NaN is left out.
        cost: [cells], less is better.
    """
    front, highest = [], -np.inf
    for cell in np.lexsort((-values, cost)).tolist():
        if np.isfinite(values[cell]) and values[cell] > highest:
            front.append(cell)
            highest = values[cell]
    return front
