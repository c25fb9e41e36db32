"""The depth to which a retrieval decides a report."""

from types import SimpleNamespace
from typing import Any

import pytest

from evals.golden.commands.label_holes import deciding_depth

MODES = ("semantic", "hybrid", "keyword")
# Cells 0 and 1 are semantic with top_k 5 and 10, cell 2 is hybrid with 3, cell 3 is keyword with 20.
CELLS = SimpleNamespace(index=[0, 1, 2, 3], configuration=[0, 0, 1, 2], top_k=[5, 10, 3, 20])


def report(best: list[int] | None) -> Any:
    configurations = [SimpleNamespace(parameters={"mode": mode, "rerank": "none"}) for mode in MODES]
    choice = None if best is None else SimpleNamespace(best_set=[SimpleNamespace(cell=cell) for cell in best])
    grid = SimpleNamespace(cells=CELLS, configurations=configurations, choice=choice)
    return SimpleNamespace(grid=grid, config={"retriever": {"top_k": 7}})


@pytest.mark.parametrize(
    ("settings", "depth"),
    [
        ({"mode": "semantic", "rerank": "none", "top_k": 50}, 10),
        ({"mode": "hybrid", "rerank": "none"}, 3),
        ({"mode": "keyword", "rerank": "none"}, 0),
        ({"mode": "hybrid", "rerank": "mmr"}, 10),
        ({}, 10),
    ],
    ids=["two cells", "one cell", "no cell that may be best", "no cell of the grid", "unknown"],
)
def test_of_a_grid_the_largest_cut_of_its_cells_that_may_be_best(settings: dict[str, Any], depth: int) -> None:
    assert deciding_depth(report([0, 1, 2]), settings) == depth


def test_of_a_run_or_a_grid_without_a_choice_its_own_cut() -> None:
    assert deciding_depth(report(None), {}) == 7
