"""The decision: both sides in one number, the table of levels; by loops over all cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.grid.decision import ABSTENTION, FALSE_ANSWER, NO_OUT_OF_SCOPE, Decision
from evals.grid.decision import with_utility as both_sides
from evals.grid.measure import Measured
from evals.report.grid import results_by_cell
from evals.report.grid_sections import UNSCORED
from evals.report.html import render_page
from evals.report.html.figures import figure_data
from evals.report.terminal import render
from evals.stats.intervals import wilson
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import METRICS, SWEEP, Bench, choice_of, make_world, swept_of
from tests.support.stored_reports import stored

NDCG, RECALL, TOKENS = "ranking/ndcg_at_10", "ranking/recall_at_5", "cost/context_tokens"


@pytest.fixture(scope="module")
def grid_of(world: Experiment, bench: Bench) -> Callable[..., Measured]:
    def make(**changes: Any) -> Measured:
        config = settings(world, **{"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes})
        objective = both_sides(config.objective, config.sweep.threshold, bench.golden.cases)
        return bench.grid(config.model_copy(update={"objective": objective}))

    return make


@pytest.fixture(scope="module")
def made(grid_of: Callable[..., Measured]) -> Measured:
    return grid_of()


def decision_of(made: Measured) -> Decision:
    decision = swept_of(made).decision
    assert decision is not None
    return decision


def columns(made: Measured) -> tuple[Any, Any, Any]:
    """Return nDCG, abstention and false abstention of every cell, which other tests hold against single runs."""
    found = swept_of(made).grid.metrics
    return found[NDCG].mean, 1 - found[FALSE_ANSWER].mean, found["scope/false_abstention"].mean


@pytest.mark.parametrize(
    ("metrics", "price"),
    [({NDCG: 1}, 0), ({NDCG: 1, RECALL: 1}, 0), ({NDCG: 2, RECALL: 6}, 0), ({RECALL: 1, TOKENS: -0.01}, 0.01)],
)
@pytest.mark.parametrize("weight", [0, 0.2, 1])
def test_utility_is_one_number_at_the_weight_that_was_set(
    grid_of: Callable[..., Measured], metrics: dict[str, float], price: float, weight: float
) -> None:
    made = grid_of(objective__metrics=metrics, objective__out_of_scope=weight)
    swept, results, decision = swept_of(made), results_by_cell(made), decision_of(made)
    assert results is not None and decision.weight == pytest.approx(weight)
    silent, tokens = (swept.grid.metrics[name].mean for name in (ABSTENTION, TOKENS))
    gains = {name: own for name, own in metrics.items() if name != TOKENS}
    found = sum(own * swept.grid.metrics[name].mean for name, own in gains.items()) / sum(gains.values())
    utility = (1 - weight) * found + weight * silent - price * tokens
    assert swept.ranking.values == pytest.approx(utility)
    assert choice_of(made).best.value == pytest.approx(utility.max())
    # What the page shows as found is only told apart where something found has a weight.
    assert weight == 1 or np.array(results.gain, dtype=float) == pytest.approx(found)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"objective__out_of_scope": 0.5}, {NDCG: 0.5, ABSTENTION: 0.5}),
        ({"objective__out_of_scope": 0}, {NDCG: 1.0}),
        ({"objective__out_of_scope": 1}, {NDCG: 0.0, ABSTENTION: 1.0}),
        ({"objective__metrics": {NDCG: 1, RECALL: 3}}, {NDCG: 0.2, RECALL: 0.6, ABSTENTION: 0.2}),
        ({"objective__metrics": {NDCG: 1, "scope/false_answer": -0.3}}, {NDCG: 1, "scope/false_answer": -0.3}),
        ({"sweep": {"top_k": [3, 5], "threshold": [0.1]}}, {NDCG: 1.0}),
        ({"sweep": {"threshold": [0.1, 0.2]}}, {NDCG: 0.8, ABSTENTION: 0.2}),
        ({"dataset__ids": ["in0", "in1"]}, {NDCG: 1.0}),
        ({"dataset__ids": ["soup", "france"]}, {NDCG: 1.0}),
    ],
)
def test_both_sides_count_where_a_threshold_is_chosen_and_the_data_can_tell(
    world: Experiment, bench: Bench, changes: dict[str, Any], expected: dict[str, float]
) -> None:
    config = settings(world, **{"sweep": SWEEP, **changes})
    cases = [case for case in bench.golden.cases if case.id in config.dataset.ids or not config.dataset.ids]
    objective = both_sides(config.objective, config.sweep.threshold, cases)
    assert dict(objective.metrics) == pytest.approx(expected)
    assert both_sides(objective, config.sweep.threshold, cases) == objective


def test_of_each_level_the_best_cell_within_it_is_taken(made: Measured) -> None:
    gain, silent, given_up = columns(made)
    decision, grid = decision_of(made), swept_of(made).grid
    tokens = grid.metrics[TOKENS].mean
    assert [level.limit for level in decision.levels] == [1.0, 0.5, 0.25, 0.1]
    for level in decision.levels:
        assert level.cell is not None
        within = np.flatnonzero(1 - silent <= level.limit + 1e-9)
        best = [cell for cell in within.tolist() if gain[cell] >= gain[within].max() - 1e-9]
        assert level.cell == min(best, key=lambda cell: (grid.threshold_of[cell], tokens[cell]))
        assert level.figures
        found, false_answer, false_abstention, passed = level.figures
        assert found.value == pytest.approx(gain[level.cell])
        assert false_answer.value == pytest.approx(1 - silent[level.cell])
        assert false_abstention.value == pytest.approx(given_up[level.cell])
        assert (passed.metric, passed.n) == ("queries/pass_rate", 11)
        ends = wilson(round((1 - silent[level.cell]) * 3), 3)
        assert (false_answer.ci_low, false_answer.ci_high) == pytest.approx((ends.low, ends.high))
    own = decision.recommended
    assert (own.cell, decision.weight) == (swept_of(made).chosen, 0.2)
    assert own.limit == pytest.approx(1 - silent[own.cell])
    assert [promise.rate for promise in swept_of(made).promised] == [0.5, 0.25, 0.1]


def test_criteria_that_cells_can_meet_restrict_the_choice(grid_of: Callable[..., Measured]) -> None:
    made = grid_of(criteria={FALSE_ANSWER: "<= 0", "determinism/rate": "== 1"})
    swept = swept_of(made)
    assert swept.ranking.constraints == {FALSE_ANSWER: "<= 0"}
    assert swept.grid.metrics[FALSE_ANSWER].mean[swept.chosen or 0] == 0
    never = grid_of(criteria={FALSE_ANSWER: "<= 0", RECALL: ">= 2"})
    assert swept_of(never).ranking.constraints == {}
    either = grid_of(criteria={FALSE_ANSWER: "<= 0"}, objective__constraints={"scope/abstention": "< 1"})
    assert swept_of(either).ranking.constraints == {"scope/abstention": "< 1"}
    said = f"no cell has {FALSE_ANSWER} <= 0 and scope/abstention < 1, so that the criteria had no part"
    assert any(said in note for note in either.notes)


@pytest.mark.parametrize(("ids", "is_told"), [(("in0", "in1"), True), (("soup", "france"), False)])
def test_data_of_one_kind_have_no_decision_and_say_what_they_lack(
    world: Experiment, ids: tuple[str, ...], is_told: bool
) -> None:
    config = settings(world, metrics=METRICS, sweep=SWEEP, retriever__candidates=20, dataset__ids=ids)
    made = Bench(config, {}).grid(config)
    swept = swept_of(made)
    assert (swept.decision, swept.promised, swept.signals) == (None, (), ())
    assert (NO_OUT_OF_SCOPE in made.notes) == is_told


def test_without_out_of_scope_queries_tokens_alone_recommend_no_threshold(tmp_path: Path) -> None:
    """Every cell is within a margin of 1, so that the cheapest is taken of those no stricter than the best."""
    world, ids = make_world(tmp_path, queries=12), tuple(f"in{number}" for number in range(12))
    changes = {"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, "objective__margin": 1}
    for lacks_a_kind in (True, False):
        config = settings(world, **changes, **({"dataset__ids": ids} if lacks_a_kind else {}))
        choice = choice_of(made := Bench(config, {}).grid(config))
        chosen = swept_of(made).grid.cell(choice.recommended.cell)
        assert choice.recommended.is_within(choice.margin) and (chosen.threshold == 0) == lacks_a_kind
        assert choice.recommended is not choice.best


def test_what_no_threshold_can_be_chosen_for_is_said_first() -> None:
    report = stored("grid")
    assert report.grid
    lacking = report.model_copy(update={"notes": [*report.notes, NO_OUT_OF_SCOPE]})
    assert render(lacking, width=200, color=False).lower().startswith(NO_OUT_OF_SCOPE.lower()[:100])
    grid = report.grid.model_copy(update={"axes": {"top_k": [1, 5]}})
    unscored = report.model_copy(update={"notes": [f"{UNSCORED}: no threshold"], "grid": grid})
    for shown in (render(unscored, width=200, color=False), render_page(unscored)):
        assert "gives no scores, so no threshold can be chosen" in shown and "the threshold is not swept" in shown
    assert figure_data(unscored)["grid"]["explored"]["weight"] is None


@pytest.mark.parametrize(("weight", "which"), [(0, "out-of-scope"), (1, "in-scope")])
def test_a_weight_that_leaves_a_side_out_is_said(grid_of: Callable[..., Measured], weight: int, which: str) -> None:
    made = grid_of(objective__out_of_scope=weight)
    assert f"objective.out_of_scope is {weight}: {which} queries have no part in the choice" in made.notes
    gain, *_ = columns(made)
    first = decision_of(made).levels[0]
    assert decision_of(made).weight == weight and first.cell is not None
    assert gain[first.cell] == pytest.approx(gain.max()), "what is found is shown nevertheless"


def test_the_cell_of_every_weight_is_the_best_at_that_weight(made: Measured) -> None:
    gain, silent, _ = columns(made)
    by_weight = decision_of(made).by_weight
    starts = [turn.weight for turn in by_weight]
    assert starts[0] == 0 and starts == sorted(set(starts)) and len(starts) > 1
    for weight in np.linspace(0, 1, 101):
        cell = [turn.cell for turn in by_weight if turn.weight <= weight + 1e-12][-1]
        every = (1 - weight) * gain + weight * silent
        assert every[cell] == pytest.approx(every.max())
