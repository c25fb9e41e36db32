"""Cells of a saved grid query by query, beside brute force, and one of them as a run of its own."""

from math import isnan

import pytest

from evals.errors import ReportError
from evals.grid.measure import Measured
from evals.metrics import PASS_RATE, metric_named
from evals.metrics.declaration import QueryMetric
from evals.report.grid import distinct
from evals.report.model import GridSection, ResultsByCell
from evals.report.parsing import cell_report
from tests.support.grid_world import swept_of
from tests.support.results import report


def section_of(made: Measured) -> tuple[GridSection, ResultsByCell]:
    """Return what the report of a grid has of its cells, and of their results."""
    section = report(made).grid
    assert section is not None and section.results is not None
    return section, section.results


def test_every_cell_returns_what_it_would_alone(grid: Measured) -> None:
    """Oracle: the results of each cell by itself, and its metrics on them."""
    (_, found), cells = section_of(grid), swept_of(grid).grid
    ids, [name] = list(found.chunks), found.metrics
    metric = metric_named(name)
    assert isinstance(metric, QueryMetric)
    for number in range(len(cells)):
        cell, results = cells.cell(number), cells.results(number)
        threshold = number % cells.size // len(cells.top_ks)
        gains, passes = (each.values(results, grid.context).values for each in (metric, PASS_RATE))
        for query, observation in enumerate(results.observations()):
            which = found.list_of[cell.variant][threshold][query]
            length = min(cell.top_k, len(found.lists[which]))
            assert tuple(ids[code] for code in found.lists[which][:length]) == observation.ranked_ids
            score = found.found[which][length]
            assert (None if score < 0 else found.scores[score]) == (gains[query] if observation.case.in_scope else None)
            passed = found.passes[which][length]
            assert passed == passes[query] if passed >= 0 else passes[query] != passes[query]


def test_a_cell_of_a_saved_grid_is_a_run_of_its_own(grid: Measured) -> None:
    made, (section, _), cells = report(grid), section_of(grid), swept_of(grid).grid
    names = section.addresses
    assert len({*names}) == len(names) == len(section.cells)
    for name, scores in cells.metrics.items():
        assert section.metrics[name].mean == [None if isnan(mean) else mean for mean in scores.mean.tolist()]
    for number in (0, 7, len(cells) - 1):
        alone, results = cell_report(made, names[number]), cells.results(number)
        passes = PASS_RATE.values(results, grid.context).values
        for row, observation, passed in zip(alone.queries, results.observations(), passes, strict=True):
            assert tuple(hit.chunk_id for hit in row.retrieved) == observation.ranked_ids
            assert all(hit.source for hit in row.retrieved)
            assert (row.outcome == "SUCCESS") == (passed == 1)
        for name, metric in alone.metrics.items():
            assert metric.value == pytest.approx(section.metrics[name].mean[number], abs=1e-12)
        cell, settings = cells.cell(number), alone.config["retriever"]
        assert (settings["top_k"], settings["threshold"]) == (cell.top_k, cell.threshold)


@pytest.mark.parametrize("name", ["", "k99-t0.3", "semantic"])
def test_a_cell_that_is_not_there_is_refused_with_one_that_is(grid: Measured, name: str) -> None:
    with pytest.raises(ReportError, match="expected one such as"):
        cell_report(report(grid), name)
    with pytest.raises(ReportError, match="no results by cell"):
        cell_report(report(), name)


def test_bands_hold_the_figures_and_open_with_fewer_queries(grid: Measured) -> None:
    section, found = section_of(grid)
    shown = {"found": found.gain} | {
        name: section.metrics[name].mean for name in ("scope/false_answer", "scope/false_abstention")
    }
    assert found.bands.keys() == shown.keys()
    for name, (low, high) in found.bands.items():
        for least, figure, most in zip(low, shown[name], high, strict=True):
            assert figure is not None and 0 <= least <= figure + 1e-12 and figure - 1e-12 <= most <= 1
            assert most - least > 0.2  # eleven queries say little of all cells at once


def test_weights_at_which_the_choice_turns_are_told_apart() -> None:
    assert distinct([0.0, 0.3]) == ["0.00", "0.30"]
    assert distinct([0.0, 0.105, 0.319, 0.323]) == ["0.000", "0.105", "0.319", "0.323"]
