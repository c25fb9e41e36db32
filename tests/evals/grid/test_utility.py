"""Utility with several metrics and with a price: one scale, the weight that was set; and what reads another score."""

from typing import Any

import numpy as np
import pytest

from evals.grid.decision import ABSTENTION, NO_OUT_OF_SCOPE, with_utility
from evals.grid.measure import Measured
from evals.report.grid import results_by_cell
from evals.report.grid_sections import UNSCORED, decision_section
from evals.report.html import render_page
from evals.report.html.figures import figure_data
from evals.report.terminal import render
from evals.stats.abstention import FINAL, Signal
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import METRICS, SWEEP, Bench, swept_of
from tests.support.stored_reports import stored

NDCG, RECALL, TOKENS = "ranking/ndcg_at_10", "ranking/recall_at_5", "cost/context_tokens"


def made_of(world: Experiment, bench: Bench, metrics: dict[str, float], **changes: Any) -> Measured:
    own = {"metrics": [*METRICS, TOKENS], "sweep": SWEEP, "retriever__candidates": 20, "objective__metrics": metrics}
    config = settings(world, **own, **changes)
    objective = with_utility(config.objective, config.sweep.threshold, bench.golden.cases)
    return bench.grid(config.model_copy(update={"objective": objective}))


@pytest.mark.parametrize(
    ("metrics", "price"),
    [({NDCG: 1, RECALL: 1}, 0), ({NDCG: 2, RECALL: 6}, 0), ({RECALL: 1, TOKENS: -0.01}, 0.01)],
)
@pytest.mark.parametrize("weight", [0, 0.2, 1])
def test_utility_is_one_number_at_the_weight_that_was_set(
    world: Experiment, bench: Bench, metrics: dict[str, float], price: float, weight: float
) -> None:
    made = made_of(world, bench, metrics, objective__out_of_scope=weight)
    swept, results = swept_of(made), results_by_cell(made)
    decision = swept.decision
    assert decision is not None and results is not None and decision.weight == pytest.approx(weight)
    silent, tokens = (swept.grid.metrics[name].mean for name in (ABSTENTION, TOKENS))
    gains = {name: own for name, own in metrics.items() if name != TOKENS}
    found = sum(own * swept.grid.metrics[name].mean for name, own in gains.items()) / sum(gains.values())
    utility = (1 - weight) * found + weight * silent - price * tokens
    assert swept.ranking.values == pytest.approx(utility)
    # What the page shows as found is only told apart where something found has a weight.
    assert weight == 1 or np.array(results.gain, dtype=float) == pytest.approx(found)
    turn = [turn for turn in decision.by_weight if turn.weight <= weight + 1e-12][-1]
    assert weight == 1 or utility[turn.cell] == pytest.approx(utility.max())


@pytest.mark.parametrize(("other", "flags"), [("cosine", "best"), ("bm25", "best --retriever.threshold-signal bm25")])
def test_a_final_score_that_does_not_separate_is_left_by_what_the_threshold_is_held_against(
    other: str, flags: str
) -> None:
    report = stored("grid")
    assert report.grid and report.grid.decision and report.grid.choice
    signals = Signal(name=FINAL, auroc=0.6, low=0.4, high=0.7), Signal(name=other, auroc=0.8, low=0.7, high=0.9)
    grid = report.grid.model_copy(update={"signals": signals})
    first = decision_section(report, grid, report.grid.decision, report.grid.choice).lines[0].cells[0].text
    assert first.endswith(f"; set --retriever.threshold-on {flags}")


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


def test_an_objective_that_weighs_queries_out_of_scope_itself_is_left_and_told(world: Experiment, bench: Bench) -> None:
    made = made_of(world, bench, {NDCG: 1, "scope/false_answer": -0.3})
    assert swept_of(made).ranking.weights == {NDCG: 1, "scope/false_answer": -0.3}
    assert any(note.startswith("objective.out_of_scope has no part") for note in made.notes)
