"""The choice among the cells of a grid, as a part of the report."""

from pydantic import Field

from evals.report.model.base import IntervalEntry, MetricEntry, Section


class StandingEntry(Section):
    """Standing of a cell. Cells that scored the same on every query are one."""

    place: int | None = Field(None, ge=1, description="place among all standings, the best first, from 1")
    cell: int = Field(ge=0, description="number of the cell, of its members the least strict, then the cheapest")
    members: list[int] = Field(description="numbers of all cells that scored the same on every query, `cell` first")
    label: str = Field(description="the cell in words")
    cost: float = Field(description="mean context tokens of the cell")
    value: float = Field(description="mean of the objective")
    ci_low: float | None = Field(description="lower end of the value's 95% interval; null: not computable")
    ci_high: float | None = Field(description="upper end of the value's 95% interval; null: not computable")
    in_set: bool = Field(description="true if it is in the confidence set of best cells: see set")
    difference: float = Field(description="value minus that of the best cell as measured")
    lower: float | None = Field(
        description="simultaneous 95% lower bound on its difference from the truly best; null: not computable"
    )


class HeldOutEntry(Section):
    """The recommended cell on queries that had no part in the choice."""

    label: str = Field(description="the cell in words")
    value: float = Field(description="mean of the objective on the held-out queries")
    n: int = Field(ge=0, description="number of these queries")
    interval: IntervalEntry = Field(description="95% interval of the value")
    chosen_on: float = Field(description="value on the queries that it was chosen on")
    optimism: float = Field(description="chosen_on minus value")


class ChoiceSection(Section):
    """The recommended cell, and the evidence for it."""

    explanation: list[str] = Field(description="the choice in three sentences")
    objective: str = Field(description="metric or weighted metrics that were maximised")
    margin: float = Field(ge=0, description="largest tolerated loss of the recommended cell against the best")
    n: int = Field(ge=0, description="number of queries of the choice")
    dropped: int = Field(ge=0, description="queries left out because some cells score them and others do not")
    cells: int = Field(ge=0, description="cells of the grid")
    allowed: int = Field(ge=0, description="of them, those that meet the constraints")
    best: int = Field(ge=0, description="number of the best cell as measured")
    recommended: int = Field(ge=0, description="number of the recommended cell")
    proved: bool = Field(description="true if it is proved not worse than the truly best by more than the margin")
    reason: str = Field(description="reason for the recommendation")
    queries_needed: int | None = Field(
        description="queries it would take to prefer a cheaper cell; null where one is, or no number would do"
    )
    note: str = Field(description="reason why set and bounds are not computable; empty when they are")
    set: list[int] = Field(description="95% confidence set of best cells, of all that users may ask")
    standings: list[StandingEntry] = Field(description="all of the set, and of the others the first 200, best first")
    held_out: HeldOutEntry | None = Field(description="the unbiased figure; null without held-out queries")


class LevelEntry(Section):
    """The cell to take if at most a share of the out-of-scope queries may be answered."""

    limit: float = Field(ge=0, le=1, description="that share; 1: any")
    cell: int | None = Field(description="number of the best cell within it; null where no cell is")
    retrieval: str = Field(description="name of its configuration; empty where no cell is within the limit")
    top_k: int | None = Field(description="its top_k")
    threshold: float | None = Field(description="its threshold")
    metrics: dict[str, MetricEntry] = Field(
        description="its figures: what is found in scope, false answers, false abstentions, pass rate"
    )
    tokens: float | None = Field(description="its mean context tokens")
    nearest: float = Field(ge=0, le=1, description="least share of the out-of-scope queries that any cell answers")


class WeightEntry(Section):
    """The best cell from a weight of out-of-scope queries on."""

    weight: float = Field(ge=0, le=1, description="the weight")
    cell: int = Field(ge=0, description="number of the cell")
    top_k: int = Field(ge=1, description="its top_k")
    threshold: float | None = Field(description="its threshold")


class DecisionSection(Section):
    """Which threshold and top_k to take, for what one can bear."""

    metric: str = Field(description="what is found in scope, of the levels")
    weight: float = Field(ge=0, le=1, description="weight of out-of-scope queries in the objective")
    in_scope: int = Field(ge=1, description="in-scope queries")
    out_of_scope: int = Field(ge=1, description="out-of-scope queries")
    levels: list[LevelEntry] = Field(description="from any share of wrong answers to the fewest")
    recommended: LevelEntry = Field(description="the recommended cell in the same columns; limit: its own share")
    by_weight: list[WeightEntry] = Field(description="the best cell of every weight, ascending from 0")
    may_be_best: str = Field(description="settings that the confidence set of best cells covers")
