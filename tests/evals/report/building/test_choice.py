"""The choice in the report, and its lines on a terminal."""

import json
from dataclasses import asdict, replace

import pytest

from evals.grid.choice import Choice, HeldOut, explain
from evals.grid.measure import Measured
from evals.report.building.grid import choice_section
from evals.report.grid_terminal import render_grid
from evals.stats.intervals import Interval
from tests.support.experiment import settings
from tests.support.grid_world import Bench, make_world
from tests.support.grids import with_swept
from tests.support.results import report

HELD = HeldOut(
    label="semantic, top_k 3", value=0.4, n=12, interval=Interval(low=0.25, high=0.55), chosen_on=0.5, optimism=0.1
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    world = make_world(tmp_path_factory.mktemp("world"))
    sweep = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
    config = settings(world, metrics=["ranking/ndcg_at_10"], sweep=sweep, retriever__candidates=20)
    return Bench(config, {}).grid(config)


@pytest.fixture(scope="module")
def choice(found: Measured) -> Choice:
    assert found.swept is not None and found.swept.choice is not None
    return found.swept.choice


def test_the_section_is_json_and_says_what_the_choice_says(choice: Choice) -> None:
    made = choice_section(choice, HELD).model_dump(mode="json")
    assert made["explanation"] == list(explain(choice))
    assert (made["best"], made["recommended"]) == (choice.best.cell, choice.recommended.cell)
    assert (made["cells"], made["allowed"], made["n"]) == (100, 100, 8)
    assert made["set"] == [standing.cell for standing in choice.best_set]
    assert made["held_out"] == json.loads(json.dumps(asdict(HELD)))
    assert choice_section(choice, None).held_out is None


def test_a_standing_has_its_interval_and_the_cells_that_scored_the_same(choice: Choice) -> None:
    made = choice_section(choice, None).standings
    assert [one.place for one in made] == list(range(1, len(made) + 1))
    assert [one.cell for one in made] == [standing.cell for standing in choice.standings]
    for one, standing in zip(made, choice.standings, strict=True):
        assert (one.ci_low, one.ci_high) == (standing.interval.low, standing.interval.high)
        assert one.members == list(standing.members)
    assert sum(len(one.members) for one in made) == 100


def test_standings_are_cut_at_the_end_but_never_a_member_of_the_set_or_the_recommended(
    choice: Choice,
) -> None:
    first, second, third, fourth, *rest = (replace(standing, in_set=False) for standing in choice.standings)
    standings = (first, second, replace(third, in_set=True), fourth, *rest)
    made = choice_section(replace(choice, standings=standings, recommended=fourth), None, most=1)
    assert [(one.place, one.cell) for one in made.standings] == [(1, first.cell), (3, third.cell), (4, fourth.cell)]


def test_a_terminal_shows_the_recommendation_then_the_held_out_figure(found: Measured, choice: Choice) -> None:
    text = render_grid(report(with_swept(found, held_out=HELD)), width=200, color=False)
    lines = text.splitlines()
    places = [lines.index(line) for line in explain(choice)]
    assert places == list(range(places[0], places[0] + len(places)))
    held = "Held out: 0.400 (0.250 … 0.550) on 12 queries that had no part in the choice (0.500 on those that had)"
    assert lines[places[-1] + 1] == held
    assert sum("★" in line and "recommended" not in line for line in lines[places[-1] + 1 :]) == 1
    assert "Held out" not in render_grid(report(found), width=200, color=False)
