"""Metrics over top_k × threshold, a map for each configuration or metric."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evals.grid.measure import Swept
from evals.grid.objective import TOKENS
from evals.report.figures.canvas import GREY, Picture, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Drawn beside the objective and the constraints, where the grid has it.
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "ragas/llm_context_precision",
    "ragas/llm_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)
MOST_CONFIGURATIONS = 6
MOST_TICKS = 8


@dataclass(frozen=True, kw_only=True)
class Plane:
    """The cells of one configuration: [thresholds, top_ks], numbered from `first`."""

    result: Swept
    configuration: int

    @cached_property
    def first(self) -> int:
        """The number of the first cell."""
        return self.result.grid.start(self.configuration)

    @property
    def name(self) -> str:
        """Name of the configuration."""
        return self.result.grid.configurations[self.configuration].name

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The rows."""
        return self.result.grid.configurations[self.configuration].thresholds

    def of(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return this plane's part of an array over all cells."""
        shape = len(self.thresholds), len(self.result.grid.top_ks)
        return values[self.first : self.first + shape[0] * shape[1]].reshape(shape)

    def place(self, cell: int) -> tuple[int, int] | None:
        """Return row and column of a cell, None where it is of another configuration."""
        row, column = divmod(cell - self.first, len(self.result.grid.top_ks))
        return (row, column) if 0 <= row < len(self.thresholds) else None


def heat_maps(result: Swept) -> dict[str, Picture]:
    """Draw the objective in each configuration, on one scale; then other metrics in the chosen one.

    Empty where no configuration has several thresholds and cuts, or cells are not ranked.
    """
    choice, ranking = result.choice, result.ranking
    if choice is None:
        return {}
    chosen = result.grid.cell(choice.recommended.cell).configuration
    planes = [plane for plane in _planes(result, chosen) if len(plane.thresholds) > 1 and len(result.grid.top_ks) > 1]
    scale = _scale(plane.of(ranking.values) for plane in planes)
    drawn = [
        Picture(
            name=f"heat_map_{_slug(plane.name)}",
            figure=_heat_map(plane, ranking.values, choice.objective, scale),
            caption=f"{choice.objective} in every cell of {plane.name}: outlined the cells that may be the best, "
            "★ the recommended one, ○ the best as measured"
            + (", greyed those that do not meet the constraints." if ranking.constraints else "."),
        )
        for plane in planes
    ]
    for name in _others(result) if planes and planes[0].configuration == chosen else ():
        values = result.grid.metrics[name].mean
        picture = Picture(
            name=f"heat_map_{_slug(name)}",
            figure=_heat_map(planes[0], values, name, _scale([planes[0].of(values)])),
            caption=f"{name} in every cell of {planes[0].name}, with the same marks.",
        )
        drawn.append(picture)
    return {picture.name: picture for picture in drawn}


def edges(inside: Bools) -> list[list[tuple[float, float]]]:
    """Return the outline of a set of cells of a plane, as segments between places (column, row) of half cells."""
    padded = np.pad(inside, 1)
    segments: list[list[tuple[float, float]]] = []
    for row, column in np.argwhere(padded[1:, :] != padded[:-1, :]).tolist():
        segments.append([(column - 1.5, row - 0.5), (column - 0.5, row - 0.5)])
    for row, column in np.argwhere(padded[:, 1:] != padded[:, :-1]).tolist():
        segments.append([(column - 0.5, row - 1.5), (column - 0.5, row - 0.5)])
    return segments


def _planes(result: Swept, chosen: int) -> list[Plane]:
    """Return the planes of the chosen configuration, then of those with the highest values."""
    planes = [Plane(result=result, configuration=index) for index in range(len(result.grid.configurations))]
    highest = [np.nanmax(plane.of(result.ranking.values), initial=-np.inf) for plane in planes]
    order = sorted(range(len(planes)), key=lambda index: (index != chosen, -highest[index]))
    return [planes[index] for index in order[:MOST_CONFIGURATIONS]]


def _others(result: Swept) -> list[str]:
    """Return the metrics drawn beside the objective: its parts where it has several, the constraints, the usual."""
    weights = result.ranking.weights
    parts = tuple(weights) if len(weights) > 1 else ()
    names = dict.fromkeys((*parts, *result.ranking.constraints, *BESIDE))
    return [name for name in names if name in result.grid.metrics and (parts or name not in weights)]


def _scale(parts: Iterable[NDArray[np.generic]]) -> tuple[float, float]:
    """Return the lowest and highest value; where these are one, from it to 0, and for 0 to 1."""
    values = np.concatenate([np.zeros(0), *(np.ravel(part).astype(float) for part in parts)])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
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
        ticks = _ticks(len(values))
        axis.set_ticks(ticks, [f"{values[tick]:.4g}" for tick in ticks])
    axes.set(xlabel="top_k", ylabel="threshold", title=f"{title}\n{plane.name}")


def _ticks(count: int) -> list[int]:
    step = max(1, -(-count // MOST_TICKS))
    return list(range(0, count, step))


def _mark(axes: "Axes", plane: Plane) -> None:
    """Outline the confidence set, grey forbidden cells, mark the best and the recommended cell."""
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
    # The mark is visible on every colour of the map.
    for color, width in (("#10151a", 3.2), ("#ffffff", 1.4)):
        lines = LineCollection(outline, colors=color, linewidths=width, capstyle="round", zorder=3)
        # The outline may run along the border of the map.
        lines.set_clip_on(False)
        axes.add_collection(lines)
    choice = result.choice
    for cell, marker, size in ((choice.best.cell, "o", 60), (choice.recommended.cell, "*", 150)):
        at = plane.place(cell)
        if at is not None:
            axes.scatter(at[1], at[0], marker=marker, s=size, color="#ffffff", edgecolors="#10151a", zorder=4)


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name).strip("_")
