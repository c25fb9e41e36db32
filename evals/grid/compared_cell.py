"""The cell of a grid that the recommended one is set beside, query by query. Pure."""

from evals.grid.cells import Grid
from evals.grid.choice import Choice

# The retrieval of the specifications: without fusion or reranking, five chunks above a cosine of 0.3.
PLAIN = {"mode": "semantic", "rerank": "none", "top_k": 5, "threshold": 0.3, "python": None}


def compared_cell(grid: Grid, choice: Choice | None) -> int | None:
    """Return the best cell as measured, or the plain one where the best is recommended.

    Args:
        grid: The grid.
        choice: Its recommendation.

    Returns:
        None where the grid has neither besides the recommended one, or recommends none.
    """
    if choice is None:
        return None
    candidates = (choice.best.cell, *plain_cells(grid))
    return next((cell for cell in candidates if cell != choice.recommended.cell), None)


def plain_cells(grid: Grid) -> list[int]:
    """Return the cells that retrieve as the specifications do; several where an axis makes no difference to it."""
    return [
        cell
        for cell in range(len(grid))
        if all(getattr(settings, name) == value for settings in (grid.settings(cell),) for name, value in PLAIN.items())
    ]
