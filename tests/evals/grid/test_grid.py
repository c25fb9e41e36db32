"""The grid: which configurations its axes make, its records over a small world, and the ranking of its cells."""

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import PositiveInt

from evals.config.experiment import ExperimentConfig, ObjectiveConfig, SweepConfig
from evals.grid.axes import VARIANT_AXES, Plan, effective, plan
from evals.grid.cells import Grid
from evals.grid.measure import Measured
from evals.grid.objective import Ranking, figures, rank
from retrievers.config import Fusion, Mode, RerankerName, RetrieverConfig
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import SWEEP, Bench, swept_of

METRICS = ["ranking/*", "ranking/recall_at_10", "scope/*", "metadata/*", "content/topic_match", "queries/*"]
NDCG = "ranking/ndcg_at_10"


# Configurations


def planned(sweep: dict[str, Any], **base: Any) -> Plan:
    return plan(RetrieverConfig.model_validate(base), SweepConfig.model_validate(sweep))


EVERY = {"mode": ["semantic", "keyword", "hybrid"], "fusion": ["weighted", "rrf", "dbsf"], "rerank": ["none", "mmr"]}


@pytest.mark.parametrize(
    ("sweep", "base", "expected"),
    [
        (EVERY, {}, [
            "semantic", "semantic mmr", "keyword", "keyword mmr", "hybrid weighted", "hybrid weighted mmr",
            "hybrid rrf", "hybrid rrf mmr", "hybrid dbsf", "hybrid dbsf mmr"]),
        ({"fusion": ["weighted", "rrf"]}, {}, ["semantic"]),
        ({"candidates": "100,50"}, {}, ["semantic"]),
        ({"candidates": "50,100"}, {"mode": "keyword"}, ["keyword candidates 50", "keyword candidates 100"]),
        ({"candidates": "50,100"}, {"group_by": "module"}, ["semantic candidates 50", "semantic candidates 100"]),
    ],
)  # fmt: skip
def test_combinations_that_find_the_same_are_one_and_of_depths_that_change_nothing_the_least(
    sweep: dict[str, Any], base: dict[str, Any], expected: list[str]
) -> None:
    made = planned(sweep, **base)
    assert [variant.name for variant in made.variants] == expected
    if "candidates" in sweep:
        assert made.variants[0].settings.candidates == 50


BASES = [
    {"mode": mode, "fusion": fusion, "rerank": rerank, "threshold": 0.3}
    for mode, fusion, rerank in product(get_args(Mode), get_args(Fusion), get_args(RerankerName))
]


def two_values(name: str) -> tuple[Any, Any]:
    """Two values of an axis, by its type: two of its choices, or two numbers that every such setting may have."""
    (kind,) = {kind for kind in get_args(SweepConfig.model_fields[name].annotation) if kind is not ...}
    choices: dict[Any, tuple[Any, Any]] = {PositiveInt: (50, 60)}
    choices[RerankerName] = ("none", "mmr")
    return choices.get(kind) or get_args(kind)[:2]


@pytest.mark.parametrize("name", VARIANT_AXES)
def test_every_declared_axis_changes_the_key_of_a_variant_wherever_it_applies(name: str) -> None:
    one, other = two_values(name)
    applicable = [base for base in BASES if name in effective(RetrieverConfig.model_validate(base))]
    assert applicable, "there is a way to retrieve in which it means something"
    for base in applicable:
        made = planned({name: [one, other]}, **base).variants
        assert len({tuple(effective(variant.settings).items()) for variant in made}) == 2
        assert {variant.parameters[name] for variant in made} == {one, other}
        assert len({variant.name for variant in made}) == 2


# Cells of a small world


def experiment(world: Experiment, **changes: Any) -> ExperimentConfig:
    return settings(world, **{"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes})


@pytest.fixture(scope="module")
def found(bench: Bench, world: Experiment) -> Measured:
    return bench.grid(experiment(world, criteria={NDCG: ">= 0.1"}))


@pytest.fixture
def grid(found: Measured) -> Grid:
    return swept_of(found).grid


def ranked(grid: Grid, incomplete: str = "", remaining: Any = None, **objective: Any) -> Ranking:
    return rank(grid, ObjectiveConfig.model_validate(objective), incomplete, remaining)


def test_cells_are_ranked_by_the_objective_then_by_threshold_then_by_what_they_cost(
    found: Measured, grid: Grid
) -> None:
    known, tokens = grid.metrics[NDCG].mean, grid.metrics["cost/context_tokens"].mean
    allowed = [cell for cell in range(100) if known[cell] >= 0.1]
    expected = sorted(allowed, key=lambda cell: (-known[cell], grid.cell(cell).threshold, tokens[cell], cell))
    ranking = swept_of(found).ranking
    assert [*ranking.order] == expected and swept_of(found).chosen == expected[0]
    assert (ranking.n, ranking.dropped, (~ranking.allowed).sum()) == ({NDCG: 8}, {NDCG: 0}, 100 - len(allowed))
    # Cells that were proved worse while they were judged are out, unless no other meets the constraints.
    remaining = np.arange(100) % 2 == 0
    constraints = {NDCG: ">= 0.1"}
    others = ranked(grid, remaining=remaining, constraints=constraints)
    assert [*others.order] == [cell for cell in expected if cell % 2 == 0]
    assert ranked(grid, remaining=known < 0.1, constraints=constraints).order == ranking.order


def test_cells_that_miss_a_constraint_are_not_ranked(grid: Grid) -> None:
    made = ranked(grid, constraints={"scope/false_answer": "<= 0.4", "scope/auroc": ">= 0"})
    false = grid.metrics["scope/false_answer"].mean
    assert set(made.order) == {cell for cell in range(100) if false[cell] <= 0.4}
    assert 0 < (~made.allowed).sum() == 100 - len(made.order) < 100


def test_without_a_cell_left_none_is_ranked_unless_all_was_judged(grid: Grid) -> None:
    made = ranked(grid, incomplete="spent", constraints={"scope/false_answer": "< 0"})
    assert (made.order, made.reason) == ((), "no cell meets the constraints by what was judged")


@pytest.mark.parametrize(("dropped", "is_ranked"), [(1, True), (2, False)])
def test_cells_are_ranked_where_at_most_a_twentieth_of_the_queries_is_scored_in_some_alone(
    grid: Grid, dropped: int, is_ranked: bool
) -> None:
    scores = replace(grid.metrics[NDCG], n_dropped=dropped, n_common=20 - dropped)
    made = ranked(replace(grid, metrics={**grid.metrics, NDCG: scores}), metrics={NDCG: 1.0})
    assert bool(made.order) == is_ranked


def test_where_scores_failed_a_condition_is_held_against_the_worse_bound(grid: Grid) -> None:
    known = grid.metrics[NDCG]
    failed = replace(known, n_failed=np.where(np.arange(100) == 0, 2, 0))
    grid = replace(grid, metrics={NDCG: failed})
    for symbol, lost in ((">=", 0), (">", 0), ("<=", 2), ("<", 2), ("==", 2)):
        first, second, *_ = figures(grid, NDCG, symbol=symbol)
        assert (first, second) == (pytest.approx((known.mean[0] * 8 + lost) / 10), known.mean[1])
