"""Inputs and result of a choice among the cells of a grid. All frozen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.metrics.declaration import Kind
from evals.stats.intervals import Interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryScores:
    """One metric of every query in every cell.

    Attributes:
        query_ids: The queries of the metric's scope.
        values: [queries, cells]; NaN where a query has no score.
        kind: Kind of the metric: proportions and means lie within 0 and 1, amounts anywhere.
        judged: Number of queries that a judge saw, where it saw a sample and the values are pseudo-values; else None.
    """

    query_ids: tuple[str, ...]
    values: Floats
    kind: Kind = "mean"
    judged: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveScores:
    """Score to maximise: a column for every cell, whose mean is the cell's value.

    Attributes:
        objective: As text.
        values: [queries, cells], finite; more is better.
        strata: [queries]; queries of one number are exchangeable, resampling keeps how many there are of each.
        kind: `proportion` and `mean` where values lie between `floor` and `ceiling`.
        floor: The lowest value possible on any query, `ceiling` the highest; not so of amounts.
        span: The largest difference possible between two cells on one query, None where there is no bound.
        dropped: Queries left out because some cells score them and others do not.
        judged: Number of queries that a judge saw, where it saw a sample of them; else None.
        guesses: [cells], by which the best cell is chosen in place of the means, which owe much to chance where a judge
            saw few queries; None for the means.
        ends: [2, cells], the intervals that runs of the cells have, where the objective is a single metric of which a
            sample was judged; else None, and intervals are those of the values' means.
    """

    objective: str
    values: Floats
    strata: Integers
    kind: Kind = "mean"
    floor: float = 0.0
    ceiling: float = 1.0
    span: float | None = 1.0
    dropped: int = 0
    judged: int | None = None
    guesses: Floats | None = None
    ends: Floats | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of a grid.

    Attributes:
        labels: Label of each cell, such as `top_k 5, threshold 0.3`.
        cost: [cells], mean context tokens.
        threshold: [cells], below which a chunk is left out; 0 where none is in force.
        allowed: [cells], whether it meets the constraints and was not proved worse before.
        proved_worse: Number of cells that were proved worse before, by the verdicts on some of the queries.
        near: [cells], whether verdicts prove a cell near enough to the best to be recommended; None for all.
    """

    labels: tuple[str, ...]
    cost: Floats
    threshold: Floats
    allowed: Bools
    proved_worse: int = 0
    near: Bools | None = None

    @property
    def preference(self) -> NDArray[np.intp]:
        """The cells in the order in which equal ones are preferred: the least strict first, then the cheapest.

        A threshold that cost nothing so far saves little and leaves out more among other queries.
        """
        return np.lexsort((self.cost, self.threshold))


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Rank and bounds of a cell. Cells that scored the same on every query are one, labelled by the preferred of them.

    Attributes:
        cell: Its place in the grid.
        members: The places of all cells that scored the same on every query, the preferred first, which is `cell`.
        label: Label of `cell`.
        cost: Mean context tokens of `cell`.
        value: Mean of the objective.
        interval: 95% interval of `value`, for this cell alone.
        in_set: True if it belongs to the 95% confidence set of best cells.
        difference: `value` minus that of the best cell, at most 0.
        lower: Simultaneous 95% lower bound on (this cell − the truly best one), at most 0; None if not computable.
    """

    cell: int
    members: tuple[int, ...]
    label: str
    cost: float
    value: float
    interval: Interval
    in_set: bool
    difference: float
    lower: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Recommended cell, with the evidence for it.

    Attributes:
        objective: Objective, as text.
        margin: Largest loss against the best cell that the recommended one may have, in units of the objective.
        n: Queries it is over; `dropped`, how many were left out because some cells score them and others do not;
            `judged`, how many of them the judge saw, None where it saw all or there is none.
        n_cells: Cells of the grid; `n_allowed`, how many of them meet the constraints and were not proved worse before,
            as `n_proved_worse` were.
        standings: The highest value first, the preferred first among equals.
        best: The first of them.
        recommended: The cheapest standing proved not worse than the truly best by more than the margin, where it is
            cheaper than `best`; or else `best`.
        proved: True if that is proved of `recommended`.
        reason: Reason for the recommendation, a sentence.
        queries_needed: Number of queries needed to prefer a cheaper cell (with power 80%), were the differences
            as measured; None where one is preferred already, or where no number of queries would do.
        note: Reason why the set and the bounds are not computable, or empty.
    """

    objective: str
    margin: float
    n: int
    dropped: int
    n_cells: int
    n_allowed: int
    standings: tuple[Standing, ...]
    best: Standing
    recommended: Standing
    proved: bool
    reason: str
    queries_needed: int | None
    note: str = ""
    judged: int | None = None
    n_proved_worse: int = 0

    @property
    def best_set(self) -> tuple[Standing, ...]:
        """The 95% confidence set of best cells, the highest value first; all where it is not computable."""
        return tuple(standing for standing in self.standings if standing.in_set)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """The recommended cell on queries that had no part in the choice: the unbiased figure.

    Attributes:
        label: The cell.
        value: Mean of the objective on the held-out queries; `n`, how many there are.
        interval: Its 95% interval.
        chosen_on: Its value on the queries it was chosen on.
        optimism: `chosen_on` − `value`: how much choosing flattered, and chance.
    """

    label: str
    value: float
    n: int
    interval: Interval
    chosen_on: float
    optimism: float
