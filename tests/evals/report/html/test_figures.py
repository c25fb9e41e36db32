"""What the figures show, as columns out of the report."""

from dataclasses import replace

import pytest

from evals.grid.measure import Measured
from evals.report.html.figures import best_scores, cells, figure_data, first_ranks
from evals.stats.intervals import Interval
from tests.support.grids import choice_of, swept_of, with_swept
from tests.support.results import UNLISTED, config, report, result, without_scores

METRIC = "ranking/ndcg_at_5"


def test_every_cell_has_its_place_and_the_means_of_the_grid(grid: Measured) -> None:
    section, swept = report(grid).grid, swept_of(grid)
    assert section is not None
    found = cells(section)
    assert found is not None
    for name, values in ((one["name"], one["values"]) for one in found["metrics"][1:]):
        assert values == pytest.approx([float(mean) for mean in swept.grid.metrics[name].mean], rel=1e-12)
    for number in range(100):
        cell = swept.grid.cell(number)
        settings = found["configuration"][number], found["top_k"][number], found["threshold"][number]
        assert settings == (cell.configuration, cell.top_k, cell.threshold)
    assert found["metrics"][0]["name"] == ("utility" if section.decision else section.ranking.objective)
    assert found["recommended"] == choice_of(grid).recommended.cell


def test_cells_that_scored_the_same_have_the_interval_of_their_standing(grid: Measured) -> None:
    first, *rest = choice_of(grid).standings
    known = replace(first, interval=Interval(low=0.25, high=0.1234567))
    section = report(with_swept(grid, choice=replace(choice_of(grid), standings=(known, *rest)))).grid
    assert section is not None
    found = (cells(section) or {})["intervals"]
    assert {tuple(found[cell]) for cell in first.members} == {(0.25, 0.1234567)}


def test_cells_that_break_a_constraint_are_not_allowed(grid: Measured) -> None:
    ranking = swept_of(grid).ranking
    section = report(with_swept(grid, ranking=replace(ranking, order=ranking.order[:7]))).grid
    assert section is not None
    assert (cells(section) or {})["allowed"] == sorted(ranking.order[:7])


def test_cells_may_be_the_best_only_where_that_can_be_computed(grid: Measured) -> None:
    for note, wanted in (("too few", []), ("", sorted(c for one in choice_of(grid).best_set for c in one.members))):
        section = report(with_swept(grid, choice=replace(choice_of(grid), note=note))).grid
        assert section is not None
        assert (cells(section) or {})["may_be_best"] == wanted


def test_cells_that_are_not_ranked_are_not_drawn(grid: Measured) -> None:
    assert figure_data(report(with_swept(grid, choice=None)))["grid"] is None


def test_best_scores_are_those_before_the_threshold() -> None:
    found = best_scores(report())
    assert found == {
        "scale": "cosine similarity", "threshold": 0.3, "in_scope": [0.9, 0.29], "out_of_scope": [0.8],
    }  # fmt: skip
    assert best_scores(report(without_scores(), UNLISTED)) is None
    found_nothing = [row.model_copy(update={"top_score": None, "retrieved": []}) for row in report().queries]
    assert best_scores(report().model_copy(update={"queries": found_nothing})) is None


def test_a_threshold_on_another_scale_is_no_line_among_best_scores() -> None:
    made = config(mode="hybrid", fusion="weighted", threshold=0.3, threshold_on="final")
    found = best_scores(report(result(config=made)))
    assert found is not None and found["threshold"] is None


def test_first_ranks_are_of_labelled_queries_in_scope() -> None:
    assert first_ranks(report()) == {"ranks": [1, 5], "top_k": 3, "depth": 5}
    without = [row.model_copy(update={"relevant": {}}) for row in report().queries]
    assert first_ranks(report().model_copy(update={"queries": without})) is None
