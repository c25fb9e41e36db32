"""Unjudged chunks in a grid: what keyword search finds is judged less than what semantic search found."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from evals.grid.evaluation import GridResult
from evals.grid.unjudged import Unjudged, unjudged
from evals.metrics.ranking import ndcg
from evals.report.building import build_report
from evals.report.grid_terminal import recommendation, render_grid
from evals.report.model import Facts
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import Bench, make_world
from tests.support.reports import facts

FACTS = Facts.model_validate(facts())
HIT = {"ranking/hit_rate_at_3": 1.0}
SWEEP = {"mode": ["semantic", "keyword"], "top_k": [3], "threshold": [0]}


def searched(world: Experiment, weights: Mapping[str, float], margin: float = 0.02) -> GridResult:
    changed = settings(world, metrics=["ranking/*"], sweep=SWEEP, retriever__candidates=20)
    objective = changed.objective.model_copy(update={"metrics": dict(weights), "margin": margin})
    return Bench(changed, {}).grid(changed.model_copy(update={"objective": objective}))


def judge_what_semantic_search_finds(world: Experiment) -> None:
    """Name its first three chunks relevant or not, of queries whose evidence it finds; the other queries go."""
    found = searched(world, HIT)
    cases = [json.loads(line) for line in world.golden.read_text().splitlines()]
    rows = []
    for observation in found.grid.observed(0).observations:
        relevance, [case] = observation.relevance, [case for case in cases if case["id"] == observation.case.id]
        seen = {key: relevance.grades.get(key, 0) for key in observation.ranked_ids}
        if observation.case.in_scope and any(seen.values()):
            rows.append({"id": case["id"], "query": case["query"], "relevant_ids": seen})
    world.write_golden(rows)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_world(tmp_path_factory.mktemp("world"))
    judge_what_semantic_search_finds(made)
    return made


@pytest.fixture(scope="module")
def found(world: Experiment) -> GridResult:
    return searched(world, HIT)


def holes_of(found: GridResult) -> Unjudged:
    assert found.choice is not None
    holes = unjudged(found.grid, found.choice, found.config.objective.metrics)
    assert holes is not None
    return holes


def test_the_share_that_is_judged_and_the_best_case_by_cell(found: GridResult) -> None:
    assert found.choice is not None
    holes = holes_of(found)
    standings = {cell: standing.value for standing in found.choice.standings for cell in standing.members}
    assert holes.judged[0] == 1.0 and holes.best_case[0] == standings[0] == 1.0
    keyword = found.grid.observed(1).observations
    known = [{*o.relevance.grades, *o.relevance.irrelevant} for o in keyword]
    pairs = list(zip(keyword, known, strict=True))
    shares = [sum(i in k for i in o.ranked_ids) / len(o.ranked_ids) if o.ranked_ids else 1 for o, k in pairs]
    assert holes.judged[1] == pytest.approx(sum(shares) / len(shares)) and holes.judged[1] < 0.9
    hits = [any(i in o.relevance.grades or i not in k for i in o.ranked_ids[:3]) for o, k in pairs]
    assert holes.best_case[1] == pytest.approx(sum(hits) / len(hits))
    assert standings[1] <= holes.best_case[1]


def test_a_choice_that_unjudged_chunks_cannot_change(found: GridResult) -> None:
    """Semantic search has every hit already."""
    assert holes_of(found).statement.startswith("Unjudged chunks do not change this")


def test_a_choice_that_unjudged_chunks_could_change(world: Experiment) -> None:
    holes = holes_of(searched(world, {"ranking/precision_at_3": 1.0}))
    assert holes.best_case[1] > holes.best_case[0] + 0.02
    assert "Unjudged chunks could change this: " in holes.statement
    assert "of what keyword" in holes.statement and f"would reach {holes.best_case[1]:.3f}" in holes.statement


def test_the_report_says_it_and_marks_the_cell(world: Experiment) -> None:
    found = searched(world, {"ranking/precision_at_3": 1.0})
    report = build_report(found, FACTS)
    assert report.grid and report.grid.choice
    entries = {standing.cell: standing for standing in report.grid.choice.standings}
    assert entries[0].judged == 1.0 and entries[1].best_case == holes_of(found).best_case[1]
    assert report.grid.choice.unjudged in recommendation(report.grid, report.grid.choice)
    lines = render_grid(report, width=120, color=False).splitlines()
    marked = [line for line in lines if "keyword" in line and "?" in line.split("·")[0]]
    assert entries[1].sparsely_judged == bool(marked) == (entries[1].judged is not None and entries[1].judged < 0.8)


def test_without_grade_0_nothing_is_said(tmp_path: Path) -> None:
    found = searched(make_world(tmp_path), HIT)
    assert found.choice is not None
    assert unjudged(found.grid, found.choice, found.config.objective.metrics) is None
    report = build_report(found, FACTS)
    assert report.grid and report.grid.choice
    assert report.grid.choice.unjudged == ""
    assert all(standing.judged is None for standing in report.grid.choice.standings)


def test_in_the_best_case_unjudged_chunks_have_the_highest_grade_of_the_query(world: Experiment) -> None:
    found = searched(world, {"ranking/ndcg_at_3": 1.0})
    observations = found.grid.observed(1).observations
    values = []
    for o in observations:
        known = {*o.relevance.grades, *o.relevance.irrelevant}
        best = {key: max(o.relevance.grades.values()) for key in o.ranked_ids if key not in known}
        as_measured = ndcg(o.ranked_ids, o.relevance.grades, 3)
        values.append(max(as_measured, ndcg(o.ranked_ids, {**o.relevance.grades, **best}, 3)))
    assert holes_of(found).best_case[1] == pytest.approx(sum(values) / len(values))
