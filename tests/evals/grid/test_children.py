"""Which cells of a grid get a run of their own, and what is said of them, against the grid itself."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.grid.children import MOST_OF_THE_SET, OBJECTIVE, along_top_k, children, pareto_front, table
from evals.grid.measure import Measured
from evals.metrics import METRICS, VERDICT_METRIC
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import Bench, make_world
from tests.support.grids import choice_of, swept_of
from tests.support.scored import metric_of

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
NAN = math.nan


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def bench(world: Experiment) -> Bench:
    return Bench(settings(world), {})


@pytest.fixture(scope="module")
def found(bench: Bench, world: Experiment) -> Measured:
    metrics = ["ranking/ndcg_at_10", "scope/*", "metadata/completeness"]
    return bench.grid(settings(world, metrics=metrics, sweep=SWEEP, retriever__candidates=20))


@pytest.fixture(scope="module")
def unranked(bench: Bench, world: Experiment) -> Measured:
    """Metadata of an empty result is not known, so cells differ in which queries they score."""
    objective = {"metrics": {"metadata/completeness": 1.0}}
    return bench.grid(settings(world, metrics=["ranking/*"], sweep=SWEEP, objective=objective))


def beaten(values: Sequence[float], cost: Sequence[float], place: int) -> bool:
    """Return True if another place is at least as good in both respects and better in one."""
    return any(
        values[other] >= values[place]
        and cost[other] <= cost[place]
        and (values[other] > values[place] or cost[other] < cost[place])
        for other in range(len(values))
    )


# The front


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


# Which cells


def test_the_chosen_cells_are_the_recommended_the_best_the_plain_one_and_the_ends_of_the_front(
    found: Measured,
) -> None:
    choice = swept_of(found).choice
    assert choice is not None
    wide = {child.cell: child.roles for child in children(swept_of(found), "frontier")}
    front = sorted((cell for cell, said in wide.items() if "Pareto front" in said), key=_tokens(found))
    roles = {child.cell: child.roles for child in children(swept_of(found), "chosen")}
    assert len(roles) <= 8
    [plain] = [cell for cell, said in roles.items() if "plain semantic" in said]
    assert swept_of(found).grid.cell(plain).parameters["mode"] == "semantic"
    assert (swept_of(found).grid.cell(plain).top_k, swept_of(found).grid.cell(plain).threshold) == (5, 0.3)
    assert set(roles) == {choice.recommended.cell, choice.best.cell, plain, front[0], front[-1]}


def _tokens(found: Measured) -> Callable[[int], float]:
    tokens = swept_of(found).grid.metrics["cost/context_tokens"].mean
    return lambda cell: float(tokens[cell])


def test_the_frontier_is_the_set_and_the_front_besides_in_their_order(found: Measured) -> None:
    choice = swept_of(found).choice
    assert choice is not None
    roles = {child.cell: child.roles for child in children(swept_of(found), "frontier")}
    assert list(roles) == sorted(roles)
    assert [cell for cell, said in roles.items() if "recommended" in said] == [choice.recommended.cell]
    assert [cell for cell, said in roles.items() if "best as measured" in said] == [choice.best.cell]
    in_set = [standing.cell for standing in choice.best_set[:MOST_OF_THE_SET]]
    assert [cell for cell, said in roles.items() if "may be the best" in said] == sorted(in_set)
    values, cost = swept_of(found).ranking.values, swept_of(found).grid.metrics["cost/context_tokens"].mean
    front = [cell for cell, said in roles.items() if "Pareto front" in said]
    assert front
    assert not any(beaten(values.tolist(), cost.tolist(), cell) for cell in front)
    assert all(said for said in roles.values())


def test_no_more_than_twenty_of_the_confidence_set(found: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.grid.children.MOST_OF_THE_SET", 2)
    roles = [child.roles for child in children(swept_of(found), "frontier")]
    assert swept_of(found).choice is not None and len(choice_of(found).best_set) > 2
    assert sum("may be the best" in said for said in roles) == 2


def test_cells_that_do_not_meet_the_constraints_are_not_on_the_front(bench: Bench, world: Experiment) -> None:
    objective = {"constraints": {"scope/false_answer": "<= 0.4"}}
    made = bench.grid(settings(world, metrics=["ranking/ndcg_at_10"], sweep=SWEEP, objective=objective))
    rates = swept_of(made).grid.metrics["scope/false_answer"].mean
    assert swept_of(made).ranking.excluded > 0
    chosen = children(swept_of(made), "frontier")
    assert all(rates[child.cell] <= 0.4 for child in chosen if child.roles != ("plain semantic",))


def test_all_are_all_and_say_why_those_that_are_chosen_are(found: Measured) -> None:
    every = children(swept_of(found), "all")
    assert [child.cell for child in every] == list(range(100))
    chosen = children(swept_of(found), "frontier")
    assert [child for child in every if child.roles] == chosen
    assert len(chosen) < 100


def test_none_are_none(found: Measured) -> None:
    assert children(swept_of(found), "none") == []


def test_a_grid_without_a_ranking_has_no_chosen_cells_and_no_row(unranked: Measured) -> None:
    assert swept_of(unranked).choice is None
    assert children(swept_of(unranked), "chosen") == []
    assert along_top_k(swept_of(unranked)) == {}


# What is said of a cell


def test_the_recommended_cell_has_a_star(found: Measured) -> None:
    starred = [child for child in children(swept_of(found), "all") if child.name.startswith("★ ")]
    assert [child.roles[0] for child in starred] == ["recommended"]
    assert len({child.name for child in children(swept_of(found), "all")}) == 100


def test_a_child_has_its_settings_its_means_and_its_name(found: Measured) -> None:
    child = children(swept_of(found), "all")[99]
    assert child.name == "hybrid k5 t0.9 weighted"
    assert child.parameters == {
        "cell.top_k": 5, "cell.threshold": 0.9,
        "retriever.mode": "hybrid", "retriever.fusion": "weighted", "retriever.semantic_weight": 0.7,
        "retriever.keyword.term_counts": True, "retriever.rerank": "none", "retriever.candidates": 20,
    }  # fmt: skip


def test_the_first_parameters_by_name_that_differ_are_the_cuts_and_those_that_are_swept(found: Measured) -> None:
    """Check MLflow's comparison: a setting without meaning in a mode must not count as differing."""
    every = [child.parameters for child in children(swept_of(found), "all")]
    assert len({tuple(parameters) for parameters in every}) == 1
    differing = sorted(name for name in every[0] if len({str(parameters[name]) for parameters in every}) > 1)
    assert differing == ["cell.threshold", "cell.top_k", "retriever.mode"]


def test_what_is_optimised_is_the_first_metric(bench: Bench, world: Experiment) -> None:
    objective = {"metrics": {"ranking/recall_at_5": 1.0}}
    made = bench.grid(settings(world, metrics=["ranking/*"], sweep={"top_k": "1:3"}, objective=objective))
    assert {next(iter(child.metrics)) for child in children(swept_of(made), "all")} == {"ranking/recall_at_5"}


def test_a_weighted_sum_that_is_optimised_is_the_first_metric(bench: Bench, world: Experiment) -> None:
    objective = {"metrics": {"ranking/recall_at_5": 0.75, "ranking/mrr_at_10": 0.25}}
    made = bench.grid(settings(world, metrics=["ranking/*"], sweep={"top_k": "1:3"}, objective=objective))
    for child in children(swept_of(made), "all"):
        assert next(iter(child.metrics)) == OBJECTIVE
        recall, mrr = child.metrics["ranking/recall_at_5"], child.metrics["ranking/mrr_at_10"]
        assert child.metrics[OBJECTIVE] == pytest.approx(0.75 * recall + 0.25 * mrr, abs=1e-12)


def test_the_objective_comes_before_every_metric_by_name_as_the_contour_plot_wants(found: Measured) -> None:
    assert {min(child.metrics) for child in children(swept_of(found), "all")} == {OBJECTIVE}
    assert min([OBJECTIVE, *METRICS, VERDICT_METRIC]) == OBJECTIVE


def test_a_childs_metrics_are_the_objective_and_the_means_of_its_scores_and_no_others(found: Measured) -> None:
    for child in children(swept_of(found), "all"):
        expected = {OBJECTIVE: child.metrics["ranking/ndcg_at_10"]}
        for name in swept_of(found).grid.metrics:
            scores = swept_of(found).grid.matrix(metric_of(name), found.context)[:, child.cell]
            if not np.isnan(scores).all():
                expected[name] = float(np.nanmean(scores))
        assert child.metrics == pytest.approx(expected, abs=1e-12)


def test_a_metric_without_a_value_is_left_out_of_the_child_and_none_in_the_table(found: Measured) -> None:
    name = "metadata/completeness"
    empty = np.flatnonzero(np.isnan(swept_of(found).grid.metrics[name].mean))
    assert 0 < len(empty) < 100
    every, columns = children(swept_of(found), "all"), table(swept_of(found).grid)
    assert [child.cell for child in every if name not in child.metrics] == empty.tolist()
    assert [cell for cell, value in enumerate(columns[name]) if value is None] == empty.tolist()


def test_the_table_has_a_row_a_cell_and_a_column_a_setting_and_a_metric(found: Measured) -> None:
    columns = table(swept_of(found).grid)
    settings_of_cells = [
        *("mode", "rerank", "candidates", "top_k", "threshold", "fusion", "semantic_weight", "term_counts"),
    ]
    assert set(columns) == {*settings_of_cells, *swept_of(found).grid.metrics}
    assert {len(values) for values in columns.values()} == {100}
    for cell in (0, 37, 99):
        known = swept_of(found).grid.cell(cell).parameters
        assert {name: columns[name][cell] for name in settings_of_cells} == {
            name: known.get(name) for name in settings_of_cells
        }
        assert columns["ranking/ndcg_at_10"][cell] == swept_of(found).grid.metrics["ranking/ndcg_at_10"].mean[cell]


def test_the_row_along_top_k_is_of_the_recommended_configuration_and_threshold(found: Measured) -> None:
    assert swept_of(found).choice is not None
    chosen = swept_of(found).grid.cell(choice_of(found).recommended.cell)
    row = along_top_k(swept_of(found))
    assert set(row) == set(swept_of(found).grid.metrics)
    assert [top_k for top_k, _ in row["ranking/ndcg_at_10"]] == [1, 2, 3, 4, 5]
    at = dict(row["ranking/ndcg_at_10"])[chosen.top_k]
    assert at == swept_of(found).grid.metrics["ranking/ndcg_at_10"].mean[chosen.index]
    false_answers = [value for _, value in row["cost/context_tokens"]]
    assert false_answers == sorted(false_answers), "a deeper cut never holds fewer tokens"
