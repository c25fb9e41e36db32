"""From a grid to a choice: what the statistics are given, and what comes back, by cell."""

import numpy as np
import pytest

from evals.config.sweep import ObjectiveConfig
from evals.grid.measure import Measured
from evals.grid.objective import describe, rank
from evals.grid.recommending import decide, objective_scores
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import Bench, make_world
from tests.support.grids import choice_of, swept_of
from tests.support.scored import metric_of

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def found(world: Experiment) -> Measured:
    bench = Bench(settings(world), {})
    return bench.grid(settings(world, metrics=["ranking/*", "scope/*"], sweep=SWEEP, retriever__candidates=20))


def objective(**values: object) -> ObjectiveConfig:
    return ObjectiveConfig.model_validate(values)


def test_the_scores_of_one_metric_are_its_matrix(found: Measured) -> None:
    scores = objective_scores(swept_of(found).grid, objective(metrics={"ranking/ndcg_at_10": 1.0}), found.context)
    assert np.array_equal(scores.values, swept_of(found).grid.matrix(metric_of("ranking/ndcg_at_10"), found.context))


def test_a_weighted_sum_adds_up_to_the_ranking_of_every_cell(found: Measured) -> None:
    wanted = objective(metrics={"ranking/recall_at_5": 2.0, "ranking/mrr_at_5": 1.0})
    scores = objective_scores(swept_of(found).grid, wanted, found.context)
    assert scores.values.mean(axis=0) == pytest.approx(rank(swept_of(found).grid, wanted).values, abs=1e-12)


def test_the_choice_is_of_the_ranked_cells_and_of_their_values(found: Measured) -> None:
    choice = swept_of(found).choice
    assert choice is not None
    best = swept_of(found).ranking.order[0]
    assert choice.n_cells == choice.n_allowed == len(swept_of(found).grid) == 100
    assert choice.best.cell == best
    assert choice.best.value == pytest.approx(swept_of(found).ranking.values[best], abs=1e-12)
    assert choice.best.cell in {standing.cell for standing in choice.best_set}
    assert choice.recommended.label == describe(swept_of(found).grid, choice.recommended.cell)
    tokens = swept_of(found).grid.metrics["cost/context_tokens"].mean
    assert choice.recommended.cost == tokens[choice.recommended.cell] <= tokens[best]


def test_cells_of_equal_scores_are_one_standing(found: Measured) -> None:
    assert swept_of(found).choice is not None
    matrix = swept_of(found).grid.matrix(metric_of("ranking/ndcg_at_10"), found.context)
    members = [cell for standing in choice_of(found).standings for cell in standing.members]
    assert sorted(members) == list(range(100))
    for standing in choice_of(found).standings:
        for cell in standing.members:
            assert matrix[:, cell] == pytest.approx(matrix[:, standing.cell], abs=1e-9)


def test_cells_that_break_a_constraint_are_not_chosen(found: Measured) -> None:
    wanted = objective(constraints={"scope/false_answer": "<= 0.4"})
    choice = decide(swept_of(found).grid, rank(swept_of(found).grid, wanted), wanted, found.context)
    rates = swept_of(found).grid.metrics["scope/false_answer"].mean
    assert choice is not None
    assert choice.n_allowed == int((rates <= 0.4).sum()) < 100
    assert all(rates[standing.cell] <= 0.4 for standing in choice.standings)


def test_the_same_seed_makes_the_same_choice(found: Measured) -> None:
    wanted = objective()
    once, again = (
        decide(swept_of(found).grid, rank(swept_of(found).grid, wanted), wanted, found.context) for _ in range(2)
    )
    assert once == again


def test_cells_that_are_not_ranked_are_not_chosen_from(found: Measured) -> None:
    wanted = objective()
    ranking = rank(swept_of(found).grid, wanted)
    refused = type(ranking)(**{**vars(ranking), "reason": "for the test"})
    assert decide(swept_of(found).grid, refused, wanted, found.context) is None
