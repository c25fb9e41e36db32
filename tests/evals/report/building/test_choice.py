"""The choice in the report, and its lines on a terminal."""

import json
from dataclasses import asdict, replace

import pytest

from evals.grid.choice import Choice, HeldOut, explain
from evals.grid.measure import Measured
from evals.report.build import grid_section
from evals.report.terminal import render_grid
from evals.stats.intervals import Interval
from tests.support.experiment import settings
from tests.support.grid_world import Bench, make_world
from tests.support.grids import swept_of, with_swept
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


def test_the_section_is_json_and_says_what_the_choice_says(found: Measured, choice: Choice) -> None:
    section = grid_section(swept_of(with_swept(found, held_out=HELD)))
    made = section.model_dump(mode="json")
    assert made["explanation"][: len(explain(choice))] == list(explain(choice))
    assert (section.choice and section.choice.best.cell, section.chosen) == (choice.best.cell, choice.recommended.cell)
    assert (made["cells"]["count"], made["ranking"]["excluded"], made["choice"]["n"]) == (100, 0, 8)
    assert section.choice is not None
    assert [one.cell for one in section.choice.best_set] == [standing.cell for standing in choice.best_set]
    assert made["held_out"] == json.loads(json.dumps(asdict(HELD)))
    assert grid_section(swept_of(found)).held_out is None


def test_a_standing_has_its_place_and_the_cells_that_scored_the_same(found: Measured, choice: Choice) -> None:
    section = grid_section(swept_of(found))
    assert section.choice == choice
    assert section.places == list(range(1, len(choice.standings) + 1))
    assert sum(len(one.members) for one in choice.standings) == 100


def test_standings_are_cut_at_the_end_but_never_a_member_of_the_set_or_the_recommended(
    found: Measured,
    choice: Choice,
) -> None:
    first, second, third, fourth, *rest = (replace(standing, in_set=False) for standing in choice.standings)
    standings = (first, second, replace(third, in_set=True), fourth, *rest)
    swept = swept_of(with_swept(found, choice=replace(choice, standings=standings, recommended=fourth)))
    section = grid_section(swept, most_standings=1)
    made = section.choice
    assert made is not None
    assert section.places == [1, 3, 4]
    assert [one.cell for one in made.standings] == [first.cell, third.cell, fourth.cell]
    assert made.recommended == made.standings[-1]


def test_a_terminal_shows_the_recommendation_then_the_held_out_figure(found: Measured, choice: Choice) -> None:
    text = render_grid(report(with_swept(found, held_out=HELD)), width=200, color=False)
    lines = text.splitlines()
    places = [lines.index(line) for line in explain(choice)]
    assert places == list(range(places[0], places[0] + len(places)))
    held = "Held out: 0.400 (0.250 … 0.550) on 12 queries that had no part in the choice (0.500 on those that had)"
    assert lines[places[-1] + 1] == held
    assert sum("★" in line and "recommended" not in line for line in lines[places[-1] + 1 :]) == 1
    assert "Held out" not in render_grid(report(found), width=200, color=False)
