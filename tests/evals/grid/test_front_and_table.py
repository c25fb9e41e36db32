"""The Pareto front of cells, and a grid as a table."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.grid.cells import pareto_front, table
from tests.support.grids import make_grid, swept_of

NAN = math.nan


def beaten(values: Sequence[float], cost: Sequence[float], place: int) -> bool:
    """Return True if another place is at least as good in both respects and better in one."""
    return any(
        values[other] >= values[place]
        and cost[other] <= cost[place]
        and (values[other] > values[place] or cost[other] < cost[place])
        for other in range(len(values))
    )


@pytest.mark.parametrize(
    ("values", "cost", "front"),
    [
        ([], [], []),
        ([0.5], [3.0], [0]),
        ([0.1, 0.3, 0.2], [1.0, 2.0, 3.0], [0, 1]),
        ([0.3, 0.3], [2.0, 1.0], [1]),  # as high a value, dearer
        ([0.3, 0.5], [1.0, 1.0], [1]),  # as dear, a lower value
        ([0.3, 0.3, 0.3], [1.0, 1.0, 1.0], [0]),  # the same in both: one stands for all
        ([NAN, 0.2, 0.1], [0.0, 2.0, 1.0], [2, 1]),
        ([NAN, NAN], [1.0, 2.0], []),
    ],
)
def test_the_front_by_hand(values: list[float], cost: list[float], front: list[int]) -> None:
    assert pareto_front(np.asarray(values), np.asarray(cost)) == front


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 1.0, NAN]), st.sampled_from([1.0, 2.0, 3.0])), max_size=12))
def test_the_front_is_what_nothing_beats_one_of_each_kind(points: list[tuple[float, float]]) -> None:
    values, cost = [value for value, _ in points], [price for _, price in points]
    front = pareto_front(np.asarray(values, dtype=float), np.asarray(cost, dtype=float))
    unbeaten = {
        points[place]
        for place in range(len(points))
        if not math.isnan(values[place]) and not beaten(values, cost, place)
    }
    assert {points[place] for place in front} == unbeaten
    assert len(front) == len(unbeaten)
    assert [cost[place] for place in front] == sorted(cost[place] for place in front)


def test_the_table_has_a_row_a_cell_and_a_column_a_setting_and_a_metric(tmp_path: Path) -> None:
    found = make_grid(tmp_path)
    columns = table(swept_of(found).grid)
    settings_of_cells = [
        *("mode", "rerank", "candidates", "top_k", "threshold", "threshold_on", "fusion", "semantic_weight"),
        "term_counts",
    ]
    assert set(columns) == {*settings_of_cells, *swept_of(found).grid.metrics}
    assert {len(values) for values in columns.values()} == {100}
    for cell in (0, 37, 99):
        known = swept_of(found).grid.cell(cell).parameters
        assert {name: columns[name][cell] for name in settings_of_cells} == {
            name: known.get(name) for name in settings_of_cells
        }
        assert columns["ranking/ndcg_at_10"][cell] == swept_of(found).grid.metrics["ranking/ndcg_at_10"].mean[cell]
