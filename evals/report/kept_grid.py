"""The cells of a grid out of its report, as MLflow has them. Pure."""

from typing import Any

from evals.report.model import GridSection


def kept_table(grid: GridSection) -> dict[str, list[Any]]:
    """Return the cells by columns: their settings and the mean of every metric, or None."""
    cells = grid.cells
    settings = [
        {**grid.configurations[number].parameters, "top_k": top_k}
        | ({} if threshold is None else {"threshold": threshold})
        for number, top_k, threshold in zip(cells.configuration, cells.top_k, cells.threshold, strict=True)
    ]
    names = dict.fromkeys(name for cell in settings for name in cell)
    columns: dict[str, list[Any]] = {name: [cell.get(name) for cell in settings] for name in names}
    return columns | {name: list(metric.mean) for name, metric in grid.metrics.items()}


def kept_along_top_k(grid: GridSection) -> dict[str, list[tuple[int, float]]]:
    """Return every metric along `top_k` at the chosen cell's other settings, the objective's first."""
    cells = grid.cells
    if grid.chosen not in cells.index:
        return {}
    others = list(zip(cells.configuration, cells.threshold, strict=True))
    row = [cell for cell, other in enumerate(others) if other == others[cells.index.index(grid.chosen)]]
    names = dict.fromkeys((*grid.ranking.metrics, *grid.metrics))
    means = {name: grid.metrics[name].mean for name in names if name in grid.metrics}
    return {
        name: [(cells.top_k[cell], value) for cell in row if (value := mean[cell]) is not None]
        for name, mean in means.items()
    }
