"""What is in a figure, as plain numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import Collection
from matplotlib.lines import Line2D


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """Return the x and y of a line."""
    return np.asarray(line.get_xdata(), dtype=float).tolist(), np.asarray(line.get_ydata(), dtype=float).tolist()


def places(collection: Collection) -> list[list[float]]:
    """Return the [x, y] of every point of a scatter plot."""
    found: list[list[float]] = np.asarray(collection.get_offsets(), dtype=float).tolist()
    return found


def draw_by(patch: pytest.MonkeyPatch, draw: Callable[..., Any]) -> None:
    """Let a run have its figures drawn by a function of the test."""
    patch.setattr("evals.experiment.report_files.draw", draw)
