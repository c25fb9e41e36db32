"""The best cells of a grid as rows of a table, for terminal and page."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from evals.grid.choice import Choice, Standing
from evals.grid.objective import TOKENS
from evals.report.figure_text import figure
from evals.report.model import GridSection

# Metrics that are shown beside the optimised and constrained ones, where the grid has them.
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """A row of the table.

    Attributes:
        place: Place among all standings, from 1.
        same: Number of further cells that scored the same on every query.
        objective: Value that cells are ranked by, as text.
        figures: Metrics of the cell as text, in the order of `columns`.
    """

    place: int
    standing: Standing
    recommended: bool
    same: int
    configuration: str
    top_k: int
    threshold: str
    objective: str
    figures: tuple[str, ...]


def columns(grid: GridSection) -> list[str]:
    """Return the metrics that are shown of a cell: the optimised and constrained ones, and some beside them."""
    constraints = grid.ranking.constraints
    names = dict.fromkeys((*grid.ranking.metrics, *constraints, *BESIDE))
    return [name for name in names if name in grid.metrics or name in constraints]


def best_cells(grid: GridSection, choice: Choice, most: int) -> list[CellRow]:
    """Return the first standings and the recommended one.

    Args:
        grid: The grid.
        choice: The choice among its cells.
        most: Number of standings, besides the recommended one.
    """
    names = columns(grid)
    chosen = choice.recommended.cell
    return [
        _row(grid, names, standing, recommended=standing.cell == chosen)
        for standing in choice.standings
        if standing.place <= most or standing.cell == chosen
    ]


def _row(grid: GridSection, names: Sequence[str], standing: Standing, *, recommended: bool) -> CellRow:
    cell = bisect_left(grid.cells.index, standing.cell)
    threshold, objective = grid.cells.threshold[cell], grid.ranking.values[cell]
    return CellRow(
        place=standing.place,
        standing=standing,
        recommended=recommended,
        same=len(standing.members) - 1,
        configuration=grid.configurations[grid.cells.configuration[cell]].name,
        top_k=grid.cells.top_k[cell],
        threshold="–" if threshold is None else f"{threshold:.6g}",
        objective="–" if objective is None else f"{objective:.3f}",
        figures=tuple(figure(name, _value(grid, name, cell)) for name in names),
    )


def _value(grid: GridSection, name: str, cell: int) -> float | None:
    """Return a metric of a cell: its mean, or where scores failed the bound with these as 0."""
    metric = grid.metrics.get(name)
    if metric is None:
        of_configuration = grid.configurations[grid.cells.configuration[cell]].metrics.get(name)
        return of_configuration.value if of_configuration else None
    mean = metric.mean[cell]
    n, failed = (count if isinstance(count, int) else count[cell] for count in (metric.n, metric.n_failed))
    return mean * n / (n + failed) if failed and mean is not None else mean
