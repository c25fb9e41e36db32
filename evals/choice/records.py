"""What a choice among the cells of a grid is made from, and what it comes to. All frozen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats import Interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricScores:
    """One metric of every cell, on the queries that are scored in all cells.

    Attributes:
        metric: Its name.
        query_ids: The queries.
        values: [queries, cells], finite.
        dropped: Queries left out because some cell has no score of theirs.
        span: Largest possible difference of two values: 1 for a metric within [0, 1], None where there is no bound.
    """

    metric: str
    query_ids: tuple[str, ...]
    values: Floats
    dropped: int = 0
    span: float | None = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveScores:
    """What is maximised: a column for every cell, whose mean is the cell's value.

    Attributes:
        objective: As text, for reports.
        values: [queries, cells], finite; more is better.
        strata: [queries]; queries of the same number are exchangeable (in scope, out of scope), resampling keeps each
            number's share.
        dropped: Queries left out because some cell has no score of theirs.
        span: Largest possible difference of two values in a column, None where there is no bound.
    """

    objective: str
    values: Floats
    strata: Integers
    dropped: int = 0
    span: float | None = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of a grid.

    Attributes:
        labels: What each is called, such as `top_k 5, threshold 0.3`.
        cost: [cells], mean context tokens; the cheapest cell is the one with the least.
        allowed: [cells], whether it meets the constraints.
    """

    labels: tuple[str, ...]
    cost: Floats
    allowed: Bools


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a cell stands; cells that scored the same on every query are one, called by the cheapest of them.

    Attributes:
        cell: Its place in the grid.
        members: The places of all cells that scored the same on every query, cheapest first; the first is `cell`.
        label: What `cell` is called.
        cost: Mean context tokens of `cell`.
        value: Mean of the objective.
        interval: 95% interval of `value`, for this cell alone.
        win_share: Share of the bootstrap resamples in which it is the best, 0 to 1.
        in_set: Whether it belongs to the 95% confidence set of best cells.
        difference: `value` minus that of the best cell, at most 0.
        lower: Simultaneous 95% lower bound on (this cell − truly best cell), at most 0; None if not computable.
        upper: Simultaneous 95% upper bound on the same, at most 0; below 0 just when the cell is not in the set.
    """

    cell: int
    members: tuple[int, ...]
    label: str
    cost: float
    value: float
    interval: Interval
    win_share: float
    in_set: bool
    difference: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which cell to use, and what is known about it.

    Attributes:
        objective: What was maximised, as text.
        margin: How much worse than the best cell the recommended one may be, in units of the objective.
        n: Queries it is over; `dropped`, how many were left out because some cell has no score of theirs.
        n_cells: Cells of the grid; `n_allowed`, how many of them meet the constraints.
        standings: One for all cells that scored the same on every query, the best value first.
        best: The standing with the highest value, the cheapest among equals.
        recommended: The cheapest standing proved not worse than the best by more than the margin, or else `best`.
        proved: Whether that was proved of `recommended`.
        reason: Why it is recommended, one sentence.
        queries_needed: How many queries it would take to prefer a cheaper cell (power 80%), were the differences as
            measured; None where it is preferred already, or where no number of queries would do.
        note: Why sets and bounds are not computable, or ''.
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

    @property
    def best_set(self) -> tuple[Standing, ...]:
        """The 95% confidence set of best cells, the best value first."""
        return tuple(standing for standing in self.standings if standing.in_set)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """The chosen cell on queries that had no part in the choice: the unbiased figure.

    Attributes:
        label: The chosen cell.
        value: Mean of the objective on the held-out queries; `n`, how many there are.
        interval: Its 95% interval.
        chosen_on: Its value on the queries it was chosen on; the difference to `value` is how much choosing flattered.
    """

    label: str
    value: float
    n: int
    interval: Interval
    chosen_on: float
