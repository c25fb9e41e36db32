"""Metrics over top_k × threshold, a map for each configuration or metric."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evals.grid.evaluation import GridResult
from evals.grid.objective import TOKENS
from evals.report.figures.canvas import GREY, Picture, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "ragas/llm_context_precision",
    "ragas/llm_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)
"""Drawn beside the objective and the constraints, where the grid has it."""
MOST_CONFIGURATIONS = 6
MOST_TICKS = 8


@dataclass(frozen=True, kw_only=True)
class Plane:
    """The cells of one configuration: [thresholds, top_ks], numbered from `first`."""

    result: GridResult
    configuration: int

    @cached_property
    def first(self) -> int:
        """The number of the first cell."""
        return sum(one.selections.cells for one in self.result.grid.configurations[: self.configuration])

    @property
    def name(self) -> str:
        """What the configuration is called."""
        return self.result.grid.configurations[self.configuration].name

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The rows."""
        return self.result.grid.configurations[self.configuration].thresholds

    def of(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """That part of an array over all cells."""
        shape = len(self.thresholds), len(self.result.grid.top_ks)
        return values[self.first : self.first + shape[0] * shape[1]].reshape(shape)

    def place(self, cell: int) -> tuple[int, int] | None:
        """Row and column of a cell, None where it is of another configuration."""
        row, column = divmod(cell - self.first, len(self.result.grid.top_ks))
        return (row, column) if 0 <= row < len(self.thresholds) else None


def heat_maps(result: GridResult) -> dict[str, Picture]:
    """The objective in each configuration, on one scale; then other metrics in the one that was chosen.

    Empty where no configuration has several thresholds and cuts, or cells are not ranked.
    """
    choice, ranking = result.choice, result.ranking
    if choice is None:
        return {}
    chosen = result.grid.cell(choice.recommended.cell).configuration
    planes = [plane for plane in _planes(result, chosen) if len(plane.thresholds) > 1 and len(result.grid.top_ks) > 1]
    scale = _scale(plane.of(ranking.values) for plane in planes)
    drawn = {
        f"heat_map_{_slug(plane.name)}": Picture(
            figure=_heat_map(plane, ranking.values, choice.objective, scale),
            caption=f"{choice.objective} in every cell of {plane.name}: outlined the cells that may be the best (95%), "
            "★ the recommended one, ○ the best as measured"
            + (", greyed those that do not meet the constraints." if ranking.constraints else "."),
        )
        for plane in planes
    }
    for name in _others(result) if planes and planes[0].configuration == chosen else ():
        values = result.grid.metrics[name].summaries.mean
        drawn[f"heat_map_{_slug(name)}"] = Picture(
            figure=_heat_map(planes[0], values, name, _scale([planes[0].of(values)])),
            caption=f"{name} in every cell of {planes[0].name}, with the same marks.",
        )
    return drawn


def edges(inside: Bools) -> list[list[tuple[float, float]]]:
    """The outline of a set of cells of a plane, as segments between places (column, row) of half cells."""
    padded = np.pad(inside, 1)
    found: list[list[tuple[float, float]]] = []
    for row, column in np.argwhere(padded[1:, :] != padded[:-1, :]).tolist():
        found.append([(column - 1.5, row - 0.5), (column - 0.5, row - 0.5)])
    for row, column in np.argwhere(padded[:, 1:] != padded[:, :-1]).tolist():
        found.append([(column - 0.5, row - 1.5), (column - 0.5, row - 0.5)])
    return found


def _planes(result: GridResult, chosen: int) -> list[Plane]:
    """The chosen configuration, then those with the highest values."""
    planes = [Plane(result=result, configuration=place) for place in range(len(result.grid.configurations))]
    highest = [np.nanmax(plane.of(result.ranking.values), initial=-np.inf) for plane in planes]
    order = sorted(range(len(planes)), key=lambda place: (place != chosen, -highest[place]))
    return [planes[place] for place in order[:MOST_CONFIGURATIONS]]


def _others(result: GridResult) -> list[str]:
    """What is drawn beside the objective: its parts where it has several, the constraints, the usual."""
    weights = result.ranking.weights
    parts = tuple(weights) if len(weights) > 1 else ()
    wanted = dict.fromkeys((*parts, *result.ranking.constraints, *BESIDE))
    return [name for name in wanted if name in result.grid.metrics and (parts or name not in weights)]


def _scale(parts: Iterable[NDArray[np.generic]]) -> tuple[float, float]:
    """Lowest and highest value; where they are one, from it to 0, and for 0 to 1."""
    known = np.concatenate([np.zeros(0), *(np.ravel(part).astype(float) for part in parts)])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return (low, high) if low < high else (min(low, 0.0), max(low, 0.0) or float(not low))


def _heat_map(plane: Plane, values: Floats, title: str, scale: tuple[float, float]) -> "Figure":
    figure, axes = canvas()
    shown = np.ma.masked_invalid(plane.of(values).astype(float))
    image = axes.imshow(
        shown, origin="lower", aspect="auto", interpolation="none", cmap="viridis", vmin=scale[0], vmax=scale[1]
    )
    bar = figure.colorbar(image, ax=axes, pad=0.02)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    _label(axes, plane, title)
    _mark(axes, plane)
    return figure


def _label(axes: "Axes", plane: Plane, title: str) -> None:
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for axis, values in ((axes.xaxis, plane.result.grid.top_ks), (axes.yaxis, plane.thresholds)):
        places = _ticks(len(values))
        axis.set_ticks(places, [f"{values[place]:.4g}" for place in places])
    axes.set(xlabel="top_k", ylabel="threshold", title=f"{title}\n{plane.name}")


def _ticks(count: int) -> list[int]:
    step = max(1, -(-count // MOST_TICKS))
    return list(range(0, count, step))


def _mark(axes: "Axes", plane: Plane) -> None:
    """The confidence set outlined, forbidden cells greyed, the best and the recommended cell marked."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap

    result = plane.result
    assert result.choice is not None
    allowed = np.zeros(len(result.grid), dtype=np.bool_)
    allowed[list(result.ranking.order)] = True
    if not allowed.all():
        veil = np.ma.masked_equal(plane.of(~allowed).astype(float), 0.0)
        axes.imshow(veil, origin="lower", aspect="auto", interpolation="none", cmap=ListedColormap([GREY]), alpha=0.7)
    inside = np.zeros(len(result.grid), dtype=np.bool_)
    inside[[cell for standing in result.choice.best_set for cell in standing.members]] = True
    outline = edges(plane.of(inside).astype(np.bool_))
    for color, width in (("#10151a", 3.2), ("#ffffff", 1.4)):  # seen on every colour of the map
        lines = LineCollection(outline, colors=color, linewidths=width, capstyle="round", zorder=3)
        lines.set_clip_on(False)  # it may run along the border of the map
        axes.add_collection(lines)
    choice = result.choice
    for cell, marker, size in ((choice.best.cell, "o", 60), (choice.recommended.cell, "*", 150)):
        at = plane.place(cell)
        if at is not None:
            axes.scatter(at[1], at[0], marker=marker, s=size, color="#ffffff", edgecolors="#10151a", zorder=4)


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name).strip("_")
