"""The cell that is set beside the recommended one, and its queries against a run of its own."""

from dataclasses import replace
from typing import Any

import pytest

from evals.collect.observations import Score
from evals.grid.compared_cell import compared_cell, plain_cells
from evals.grid.measure import Measured
from evals.report.building import build_report
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import Bench, make_world
from tests.support.grids import swept_of
from tests.support.results import report

TRACKED: dict[str, Any] = {"tracking__enabled": True}
SWEEP = {"mode": ["semantic", "hybrid"], "top_k": [3, 5], "threshold": [0.0, 0.3]}
METRICS = ["ranking/*", "scope/*"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def bench(world: Experiment) -> Bench:
    return Bench(settings(world), {})


@pytest.fixture(scope="module")
def found(bench: Bench, world: Experiment) -> Measured:
    return bench.grid(settings(world, metrics=METRICS, sweep=SWEEP, retriever__candidates=20, **TRACKED))


def test_the_plain_cell_is_semantic_with_five_chunks_above_0_3(found: Measured) -> None:
    [plain] = plain_cells(swept_of(found).grid)
    kept = swept_of(found).grid.settings(plain)
    assert (kept.mode, kept.rerank, kept.top_k, kept.threshold) == ("semantic", "none", 5, 0.3)


def test_it_is_the_best_one_or_else_the_plain_one_and_never_the_recommended(found: Measured) -> None:
    choice, [plain] = swept_of(found).choice, plain_cells(swept_of(found).grid)
    assert choice is not None
    first, other, *_ = standings = tuple(standing for standing in choice.standings if standing.cell != plain)
    grid, choice = swept_of(found).grid, replace(choice, standings=standings)
    assert compared_cell(grid, replace(choice, recommended=other)) == first.cell
    assert compared_cell(grid, replace(choice, recommended=first)) == plain
    itself = replace(first, cell=plain)
    assert compared_cell(grid, replace(choice, standings=(itself,), recommended=itself)) is None
    assert compared_cell(grid, None) is None


def test_a_grid_that_has_no_other_to_compare_has_none(bench: Bench, world: Experiment) -> None:
    alone = bench.grid(settings(world, metrics=METRICS, sweep={"top_k": [3]}, retriever__mode="hybrid", **TRACKED))
    assert swept_of(alone).choice is not None and swept_of(alone).compared is None


def test_a_grid_whose_queries_are_not_logged_has_none(bench: Bench, world: Experiment) -> None:
    for off in ({"tracking__enabled": False}, {"tracking__traces": 0}):
        made = bench.grid(settings(world, metrics=METRICS, sweep=SWEEP, **(TRACKED | off)))
        assert swept_of(made).compared is None


def test_its_queries_are_those_of_a_run_of_its_own(found: Measured, bench: Bench, world: Experiment) -> None:
    made, index = swept_of(found).compared, compared_cell(swept_of(found).grid, swept_of(found).choice)
    assert made is not None and index is not None
    alone = bench.run(settings(world, metrics=METRICS), swept_of(found).grid.settings(index))
    facts = report().facts
    queries = [
        [row.model_dump(exclude={"time_ms"}) for row in build_report(run, facts).queries] for run in (made, alone)
    ]
    for row in (row for rows in queries for row in rows):
        row["scores"] = {name: score for name, score in row["scores"].items() if name in shared(made, alone)}
    assert queries[0] == queries[1]


def shared(made: Measured, alone: Measured) -> set[str]:
    """Names of the metrics that score queries in both."""
    scores: list[dict[str, dict[str, Score]]] = [{n: dict(s) for n, s in run.scores.items()} for run in (made, alone)]
    assert len(scores[0].keys() & scores[1].keys()) > 10
    return set(scores[0]) & set(scores[1])
