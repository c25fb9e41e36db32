"""Cells of a grid as MLflow runs below the run of the grid, and the link to a comparison of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from evals.config.run_label import label
from evals.grid.axes import CELL_AXES, dotted
from evals.grid.cells import pareto_front
from evals.grid.objective import TOKENS
from evals.report.model import GridSection, Report
from evals.tracking.values import cell_settings, first_values
from retrievers.config.layers import flatten

if TYPE_CHECKING:
    from mlflow import MlflowClient

# Most cells with a run of their own: each costs MLflow 0.04 s of processor time.
MOST_CELLS = 8
# The retrieval of the specifications: without fusion or reranking, five chunks above a cosine of 0.3.
PLAIN = {"mode": "semantic", "rerank": "none", "top_k": 5, "threshold": 0.3, "python": None}
OBJECTIVE = "by_objective"
"""What cells are ranked by, as a metric of each; MLflow's contour plot begins with the first metric by name."""


class CellRun(NamedTuple):
    """A cell as a run: its number, settings and means, and why it is there."""

    cell: int
    name: str
    roles: Sequence[str]
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]


def cell_runs(report: Report) -> list[CellRun]:
    """Return the cells that get a run, in their order: at most `MOST_CELLS`, none where cells are not ranked.

    They are the recommended cell, the best as measured, the plain one of the specifications, and the Pareto front of
    objective and context tokens, thinned evenly but for its ends.
    """
    grid = report.grid
    if grid is None or grid.choice is None:
        return []
    base = dict(flatten(report.config.get("retriever", {})))
    # A parameter that a run lacks counts as differing: every cell has the settings of every way to retrieve.
    names = dict.fromkeys(name for configuration in grid.configurations for name in configuration.parameters)
    common = {name: base.get(dotted(name)) for name in (*names, *PLAIN)} | {"threshold": None}
    every = [common | cell_settings(grid, place) for place in range(len(grid.cells.index))]
    return [_cell_run(grid, place, every[place], names, roles) for place, roles in sorted(_roles(grid, every).items())]


def log_cells(
    client: "MlflowClient", begin: Callable[[str, int, dict[str, str]], str], cells: Sequence[CellRun], started_ms: int
) -> list[str]:
    """Write a run for each cell; return their ids.

    They start with the grid, a millisecond before one another, so that a list by time has them below it and in its
    order; the columns of MLflow's list are then those of the grid's run.

    Args:
        client: Client of MLflow.
        begin: Begins a run of a name, a start and tags; returns its id.
        cells: The cells.
        started_ms: Start of the grid's run.
    """
    from mlflow.entities import Metric, Param

    ids = []
    for number, cell in enumerate(cells, 1):
        started = started_ms - number
        run_id = begin(cell.name, started, {"cell": str(cell.cell), "role": ", ".join(cell.roles)})
        metrics = [Metric(name, value, started, 0) for name, value in first_values(cell.metrics).items()]
        client.log_batch(run_id, metrics, [Param(name, str(value)) for name, value in cell.parameters.items()])
        client.set_terminated(run_id, "FINISHED", end_time=started)
        ids.append(run_id)
    return ids


def plots_page(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the address of MLflow's plots of runs, relative to a page of the server."""
    runs, experiments = (quote(json.dumps(ids, separators=(",", ":"))) for ids in (list(run_ids), [experiment_id]))
    return f"#/compare-runs?runs={runs}&experiments={experiments}"


def _roles(grid: GridSection, settings: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return why each cell that is worth a run is, by its place."""
    assert grid.choice is not None
    place_of = {cell: place for place, cell in enumerate(grid.cells.index)}
    roles: dict[int, list[str]] = {place_of[grid.choice.recommended.cell]: ["recommended"]}
    roles.setdefault(place_of[grid.choice.best.cell], []).append("best as measured")
    plain = (place for place, one in enumerate(settings) if all(one[name] == value for name, value in PLAIN.items()))
    for place in [*plain][:1]:
        roles.setdefault(place, []).append("plain semantic")
    allowed = np.full(len(settings), np.nan)
    order = [place_of[cell] for cell in grid.ranking.order]
    allowed[order] = np.array(grid.ranking.values, dtype=float)[order]  # None becomes NaN
    front = pareto_front(allowed, np.array(grid.metrics[TOKENS].mean, dtype=float))
    thinned = np.linspace(0, len(front) - 1, min(len(front), MOST_CELLS - len(roles))).round().astype(int)
    for place in dict.fromkeys(front[each] for each in thinned.tolist()):
        roles.setdefault(place, []).append("Pareto front")
    return roles


def _cell_run(
    grid: GridSection, place: int, settings: Mapping[str, Any], names: Mapping[str, Any], roles: Sequence[str]
) -> CellRun:
    # MLflow's comparison draws the first three parameters by name that differ: the cuts come before all others.
    cuts = {f"cell.{name}": settings[name] for name in CELL_AXES if settings[name] is not None}
    others = {f"retriever.{dotted(name)}": settings[name] for name in names if name not in CELL_AXES}
    values = grid.ranking.values[place]
    means = {name: metric.mean[place] for name, metric in grid.metrics.items()}
    first = {name: means[name] for name in grid.ranking.metrics} if len(grid.ranking.metrics) == 1 else {}
    variant = grid.configurations[grid.cells.configuration[place]].name.split()
    rest = [word for word in variant if word not in (settings["mode"], settings["rerank"])]
    which, star = settings["python"] or settings["mode"], "★ " if "recommended" in roles else ""
    name = label(which, settings["rerank"], settings["top_k"], settings["threshold"])
    return CellRun(
        cell=grid.cells.index[place],
        name=" ".join((f"{star}{name}", *rest)),
        roles=roles,
        parameters=cuts | others,
        metrics={key: mean for key, mean in {**first, OBJECTIVE: values, **means}.items() if mean is not None},
    )
