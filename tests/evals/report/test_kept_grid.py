"""The cells of a grid out of its report, against the grid itself."""

import pytest

from evals.grid.children import along_top_k, table
from evals.grid.measure import Measured
from evals.report.building import build_report
from evals.report.model import GridSection, Report
from evals.tracking.views import kept_along_top_k, kept_table
from tests.support.grids import make_grid, swept_of
from tests.support.results import facts


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return make_grid(tmp_path_factory.mktemp("grid"))


@pytest.fixture(scope="module")
def kept(made: Measured) -> GridSection:
    grid = Report.model_validate(build_report(made, facts()).plain()).grid
    assert grid is not None
    return grid


def test_the_table_is_that_of_the_grid(made: Measured, kept: GridSection) -> None:
    whole, read = table(swept_of(made).grid), kept_table(kept)
    assert read.keys() == whole.keys() and len(read["top_k"]) == 100
    for name, column in whole.items():
        assert read[name] == (pytest.approx(column, abs=1e-6) if "/" in name else column), name


def test_metrics_along_top_k_are_those_of_the_grid(made: Measured, kept: GridSection) -> None:
    whole, read = along_top_k(swept_of(made)), kept_along_top_k(kept)
    assert list(read) == list(whole)
    for name, row in whole.items():
        assert [top_k for top_k, _ in read[name]] == [top_k for top_k, _ in row]
        assert [value for _, value in read[name]] == pytest.approx([value for _, value in row], abs=1e-6)


def test_a_grid_without_a_chosen_cell_has_no_row(kept: GridSection) -> None:
    assert kept_along_top_k(kept.model_copy(update={"chosen": None})) == {}
