"""Which cells of a grid are worth a run of their own in MLflow, and what is said of each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evals.config.run_label import run_label
from evals.grid.axes import CELL_AXES, dotted, setting_of
from evals.grid.cells import Grid
from evals.grid.compared_cell import plain_cells
from evals.grid.measure import Swept
from evals.grid.objective import TOKENS

MOST_OF_THE_SET = 20
OBJECTIVE = "by_objective"
"""What cells are ranked by, as a metric of each; MLflow's contour plot begins with the first metric by name."""
LogCells = Literal["chosen", "frontier", "all", "none"]


@dataclass(frozen=True, kw_only=True)
class Child:
    """A cell as a run below the grid's: its settings, its means, and why it is there."""

    name: str
    cell: int
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]
    roles: tuple[str, ...]


def children(result: Swept, which: LogCells) -> list[Child]:
    """Return the cells that are logged, in their order.

    Args:
        result: The grid.
        which: `chosen` for the recommended cell, the best, the plain one of the specifications and the ends of the
            Pareto front of quality and context tokens; `frontier` for the whole front and up to 20 cells of the
            confidence set besides; `all`, or `none`.
    """
    if which == "none" or result.choice is None:
        return []
    roles = _roles(result, ends_alone=which == "chosen")
    cells = range(len(result.grid)) if which == "all" else sorted(roles)
    columns = _columns(result)
    return [
        Child(
            name=_name(result, index),
            cell=index,
            parameters=_parameters(result.grid, index),
            metrics={name: float(mean[index]) for name, mean in columns.items() if np.isfinite(mean[index])},
            roles=tuple(roles.get(index, ())),
        )
        for index in cells
    ]


def table(grid: Grid) -> dict[str, list[Any]]:
    """Return the whole grid by columns: one row a cell, its settings and the mean of every metric, or None."""
    cells = grid.cells()
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    columns: dict[str, list[Any]] = {name: [cell.parameters.get(name) for cell in cells] for name in names}
    for name, metric in grid.metrics.items():
        columns[name] = [value if np.isfinite(value) else None for value in metric.mean.tolist()]
    return columns


def along_top_k(result: Swept) -> dict[str, list[tuple[int, float]]]:
    """Every metric along `top_k` at the recommended cell's other settings: (top_k, mean); the objective's first."""
    if result.choice is None:
        return {}
    grid = result.grid
    chosen = grid.cell(result.choice.recommended.cell)
    row = [
        cell
        for cell in grid.cells()
        if (cell.configuration, cell.threshold) == (chosen.configuration, chosen.threshold)
    ]
    objective = {name: grid.metrics[name] for name in result.ranking.weights}
    return {
        name: [(c.top_k, float(v)) for c in row if np.isfinite(v := metric.mean[c.index])]
        for name, metric in {**objective, **grid.metrics}.items()
    }


def pareto_front(values: NDArray[np.float64], cost: NDArray[np.float64]) -> list[int]:
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


def _columns(result: Swept) -> dict[str, NDArray[np.float64]]:
    """Return each metric's value in every cell, the objective first: MLflow's parallel coordinates begin with it."""
    ranking = result.ranking
    means = {name: metric.mean for name, metric in result.grid.metrics.items()}
    first = {name: means[name] for name in ranking.weights} if len(ranking.weights) == 1 else {}
    return first | {OBJECTIVE: ranking.values} | means


def _parameters(grid: Grid, index: int) -> dict[str, Any]:
    """Return the settings that tell a cell apart: its cuts as `cell.top_k` and `cell.threshold`, the rest as in a run.

    MLflow's comparison draws the first three parameters by name that differ, so that the cuts come before all others,
    and once; one that a run lacks counts as differing, so that every cell has the settings of every way to retrieve.
    """
    cell, settings = grid.cell(index), grid.settings(index)
    names = dict.fromkeys(name for configuration in grid.configurations for name in configuration.parameters)
    settings_of_cell = {name: setting_of(settings, name) for name in names} | dict(cell.parameters)
    cuts = {f"cell.{name}": settings_of_cell.pop(name) for name in CELL_AXES if name in settings_of_cell}
    return cuts | {f"retriever.{dotted(name)}": setting for name, setting in settings_of_cell.items()}


def _name(result: Swept, index: int) -> str:
    """Return a name whose first letters tell cells apart; a star marks the recommended one."""
    settings = result.grid.settings(index)
    variant = result.grid.configurations[result.grid.cell(index).configuration].name
    rest = "".join(f" {word}" for word in variant.split() if word not in (settings.mode, settings.rerank))
    star = "★ " if result.choice and result.choice.recommended.cell == index else ""
    return f"{star}{run_label(settings)}{rest}"


def _roles(result: Swept, *, ends_alone: bool) -> dict[int, list[str]]:
    """Return why each cell that is worth a run is.

    Args:
        result: The grid.
        ends_alone: Take the ends of the Pareto front, and nothing of the confidence set.
    """
    choice, grid = result.choice, result.grid
    assert choice is not None
    roles: dict[int, list[str]] = {choice.recommended.cell: ["recommended"]}
    roles.setdefault(choice.best.cell, []).append("best as measured")
    for cell in plain_cells(grid):
        roles.setdefault(cell, []).append("plain semantic")
    allowed = np.full(len(grid), np.nan)
    order = list(result.ranking.order)
    allowed[order] = result.ranking.values[order]
    front = pareto_front(allowed, grid.metrics[TOKENS].mean)
    for standing in () if ends_alone else choice.best_set[:MOST_OF_THE_SET]:
        roles.setdefault(standing.cell, []).append("may be the best")
    for cell in dict.fromkeys((front[0], front[-1])) if ends_alone else front:
        roles.setdefault(cell, []).append("Pareto front")
    return roles
