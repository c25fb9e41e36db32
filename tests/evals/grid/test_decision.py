"""The decision: both sides in one number, the table of levels; and the chosen cell on held-out queries."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document

from evals import Outputs, evaluate, sweep
from evals.cases.reading import golden_set, load_golden
from evals.config.experiment import ExperimentConfig, SweepConfig
from evals.errors import DatasetError, ExperimentError
from evals.experiment.inputs import load_inputs
from evals.experiment.saved import started_from
from evals.grid.decision import ABSTENTION, FALSE_ANSWER, NO_OUT_OF_SCOPE
from evals.grid.decision import with_utility as both_sides
from evals.grid.objective import range_of
from evals.report.grid import results_by_cell
from evals.report.grid_sections import UNSCORED
from evals.report.head import next_flags
from evals.report.html import render_page
from evals.report.html.render import figure_data
from evals.report.terminal import render
from evals.stats.intervals import wilson
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import SWEEP, alone, make_world, measured, swept
from tests.support.stored_reports import stored

NDCG, RECALL, TOKENS = "ranking/ndcg_at_10", "ranking/recall_at_5", "cost/context_tokens"


@pytest.fixture(scope="module")
def grid_of(world: Experiment) -> Callable[..., Any]:
    return lambda **changes: measured(swept(world, **changes))


@pytest.fixture(scope="module")
def made(grid_of: Callable[..., Any]) -> Any:
    return grid_of()


def columns(made: Any) -> tuple[Any, Any, Any]:
    found = made.swept.grid.metrics
    return found[NDCG].mean, 1 - found[FALSE_ANSWER].mean, found["scope/false_abstention"].mean


@pytest.mark.parametrize(
    ("metrics", "price"),
    [({NDCG: 1}, 0), ({NDCG: 1, RECALL: 1}, 0), ({NDCG: 2, RECALL: 6}, 0), ({RECALL: 1, TOKENS: -0.01}, 0.01)],
)
@pytest.mark.parametrize("weight", [0, 0.2, 1])
def test_utility_is_one_number_at_its_weight(grid_of: Any, metrics: Any, price: float, weight: float) -> None:
    made = grid_of(objective__metrics=metrics, objective__out_of_scope=weight)
    swept, results, decision = made.swept, results_by_cell(made), made.swept.decision
    assert results is not None and decision.weight == pytest.approx(weight)
    silent, tokens = (swept.grid.metrics[name].mean for name in (ABSTENTION, TOKENS))
    gains = {name: own for name, own in metrics.items() if name != TOKENS}
    found = sum(own * swept.grid.metrics[name].mean for name, own in gains.items()) / sum(gains.values())
    utility = (1 - weight) * found + weight * silent - price * tokens
    assert swept.ranking.values == pytest.approx(utility)
    assert made.swept.choice.best.value == pytest.approx(utility.max())
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
def test_both_sides_count_where_the_data_can_tell(world: Experiment, changes: Any, expected: dict[str, float]) -> None:
    config = settings(world, **{"sweep": SWEEP, **changes})
    cases = load_golden(config.dataset).cases
    objective = both_sides(config.objective, config.sweep.threshold, cases)
    assert dict(objective.metrics) == pytest.approx(expected)
    assert both_sides(objective, config.sweep.threshold, cases) == objective


def test_of_each_level_the_best_cell_within_it_is_taken(made: Any) -> None:
    gain, silent, given_up = columns(made)
    decision, grid = made.swept.decision, made.swept.grid
    tokens = grid.metrics[TOKENS].mean
    assert [level.limit for level in decision.levels] == [1.0, 0.5, 0.25, 0.1]
    for level in decision.levels:
        assert level.cell is not None
        within = np.flatnonzero(1 - silent <= level.limit + 1e-9)
        best = [cell for cell in within.tolist() if gain[cell] >= gain[within].max() - 1e-9]
        wrong = 1 - silent if level.limit < 1 else 0 * silent
        assert level.cell == min(best, key=lambda cell: (wrong[cell], grid.threshold_of[cell], tokens[cell]))
        assert level.figures
        found, false_answer, false_abstention, passed = level.figures
        assert found.value == pytest.approx(gain[level.cell])
        assert false_answer.value == pytest.approx(1 - silent[level.cell])
        assert false_abstention.value == pytest.approx(given_up[level.cell])
        assert (passed.metric, passed.n) == ("queries/pass_rate", 11)
        ends = wilson(round((1 - silent[level.cell]) * 3), 3)
        assert (false_answer.ci_low, false_answer.ci_high) == pytest.approx((ends.low, ends.high))
    own = decision.recommended
    assert (own.cell, decision.weight) == (made.swept.chosen, 0.2)
    assert own.limit == pytest.approx(1 - silent[own.cell])
    assert [promise.rate for promise in made.swept.promised] == [0.5, 0.25, 0.1]


def test_a_cell_that_answers_nothing_in_scope_is_nobodys_choice(grid_of: Callable[..., Any]) -> None:
    decision = grid_of(sweep={"top_k": [3, 5], "threshold": [0.0, 1.0]}).swept.decision
    of_silent = grid_of(sweep={"top_k": [3, 5], "threshold": [0.99, 1.0]})
    said = "the recommended cell returns nothing for 100% of the queries in scope: lower the weight of out-of-scope"
    assert any(note.startswith(said) for note in of_silent.notes)
    wanted = grid_of(sweep={"top_k": [3, 5], "threshold": [0.0, 1.0]}, objective__out_of_scope=0.99)
    assert wanted.swept.decision.recommended.figures.false_abstention.value < 1
    assert [level.cell is None for level in decision.levels] == [False, True, True, True]
    assert decision.levels[1].nearest == 1.0


def test_criteria_that_cells_can_meet_restrict_the_choice(grid_of: Callable[..., Any]) -> None:
    made = grid_of(criteria={FALSE_ANSWER: "<= 0", "determinism/rate": "== 1"})
    swept = made.swept
    answers = {"scope/false_abstention": "< 1"}
    assert swept.ranking.constraints == {FALSE_ANSWER: "<= 0"} | answers
    both = grid_of(criteria={FALSE_ANSWER: "<= 0"}, objective__constraints={FALSE_ANSWER: "<= 0.5"})
    assert both.swept.ranking.constraints == swept.ranking.constraints, "of two limits the stricter one"
    stricter = {"scope/false_abstention": "<= 0.5"}
    assert grid_of(criteria=stricter).swept.ranking.constraints == stricter
    assert swept.grid.metrics[FALSE_ANSWER].mean[swept.chosen or 0] == 0
    assert grid_of(criteria={FALSE_ANSWER: "<= 0", RECALL: ">= 2"}).swept.ranking.constraints == answers
    either = grid_of(criteria={FALSE_ANSWER: "<= 0"}, objective__constraints={"scope/abstention": "< 1"})
    assert either.swept.ranking.constraints == {"scope/abstention": "< 1"} | answers
    said = f"no cell has {FALSE_ANSWER} <= 0 and scope/abstention < 1, so that the criteria had no part"
    assert any(said in note for note in either.notes)


@pytest.mark.parametrize(("ids", "is_told"), [(("in0", "in1"), True), (("soup", "france"), False)])
def test_data_of_one_kind_have_no_decision_but_a_note(world: Experiment, ids: tuple[str, ...], is_told: bool) -> None:
    made = measured(swept(world, dataset__ids=ids))
    assert (made.swept.decision, made.swept.promised, made.swept.signals) == (None, (), ())
    assert (NO_OUT_OF_SCOPE in made.notes) == is_told


def test_without_out_of_scope_queries_tokens_alone_recommend_no_threshold(tmp_path: Path) -> None:
    world, ids = make_world(tmp_path, queries=12), tuple(f"in{number}" for number in range(12))
    for lacks_a_kind in (True, False):
        made = measured(swept(world, objective__margin=1, **({"dataset__ids": ids} if lacks_a_kind else {})))
        choice = made.swept.choice
        chosen = made.swept.grid.cell(choice.recommended.cell)
        assert choice.recommended.is_within(choice.margin) and (chosen.threshold == 0) == lacks_a_kind
        assert choice.recommended is not choice.best


def test_cells_are_named_by_the_range_of_their_settings(made: Any) -> None:
    grid = made.swept.grid
    assert range_of(grid, [7]) == "semantic, top_k 3, threshold 0.1"
    assert range_of(grid, [0, 7]) == "semantic, top_k 1 … 3, threshold 0 … 0.1"
    assert range_of(grid, [0, 99]) == "2 retrievals, top_k 1 … 5, threshold 0 … 0.9"


def test_what_no_threshold_can_be_chosen_for_is_said_first() -> None:
    report = stored("grid")
    assert report.grid
    lacking = report.model_copy(update={"notes": [*report.notes, NO_OUT_OF_SCOPE]})
    assert render(lacking, width=200, color=False).lower().startswith(NO_OUT_OF_SCOPE.lower()[:100])
    grid = report.grid.model_copy(update={"axes": {"top_k": [1, 5]}})
    unscored = report.model_copy(update={"notes": [f"{UNSCORED}: no threshold"], "grid": grid})
    for shown in (render(unscored, width=200, color=False), render_page(unscored)):
        assert "retriever, so no threshold can be chosen" in shown and "the threshold is not swept" in shown
    assert figure_data(unscored)["grid"]["explored"]["weight"] is None


@pytest.mark.parametrize(("weight", "which"), [(0, "out-of-scope"), (1, "in-scope")])
def test_a_weight_that_leaves_a_side_out_is_said(grid_of: Callable[..., Any], weight: int, which: str) -> None:
    made, said = (
        grid_of(objective__out_of_scope=weight),
        f"the weight of out-of-scope queries is {weight:g}: {which} queries have",
    )
    assert f"{said} no part in the choice" in made.notes
    assert said not in "".join(grid_of(objective__out_of_scope=weight, sweep={"top_k": "1:5"}).notes), "no threshold"
    gain, *_ = columns(made)
    first = made.swept.decision.levels[0]
    assert made.swept.decision.weight == weight and first.cell is not None
    assert gain[first.cell] == pytest.approx(gain.max()), "what is found is shown nevertheless"


def test_a_sweep_that_ends_below_the_scores_names_thresholds_that_reach_them() -> None:
    golden: list[Any] = [{"query": f"in {n}", "relevant_ids": {"a": 1}} for n in range(12)]
    golden += [{"query": f"out {n}", "in_scope": False} for n in range(12)]
    high: Any = lambda query: [(Document("text", id="a"), 0.9 if query.startswith("in") else 0.75)]  # noqa: E731
    first = sweep(high, golden, threshold="0:0.6:0.1", top_k="1:2")
    reach = "--sweep.threshold 0,0.75:0.9:0.005"
    assert first.report.next_flags.endswith(reach) and f"the best scores reach further: {reach}" in str(first)
    lax = sweep(high, golden, threshold="0:0.8:0.1", experiment={"criteria": {FALSE_ANSWER: ">= 1"}})
    assert not re.search("reach further|--sweep", str(lax) + lax.report.next_flags), "the strict cells are left out"
    second = sweep(high, golden, threshold=reach.split()[1], top_k="1:2")
    assert second.recommended and second.recommended.threshold == 0.755 and "reach further" not in str(second)
    silent = sweep(high, golden, top_k="1:2", experiment={"retriever": {"threshold": 0.95}})
    assert silent.report.next_flags.endswith(
        f"--sweep.top-k 1,2 {reach}"
    ) and "as no cell that may be chosen answers a query" in str(silent)


def split_world(folder: Path, is_held_out: Callable[[int, Any], bool]) -> Experiment:
    made = make_world(folder)
    cases = [json.loads(line) for line in made.golden.read_text(encoding="utf-8").splitlines()]
    made.write_golden([{**case, "split": "test" if is_held_out(n, case) else "dev"} for n, case in enumerate(cases)])
    return made


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return split_world(tmp_path_factory.mktemp("world"), lambda place, _: place % 2 == 1)


def experiment(world: Experiment, **changes: Any) -> ExperimentConfig:
    return swept(world, **{"metrics": ["ranking/*", "scope/*"], "dataset__split": "dev", **changes})


@pytest.mark.parametrize(
    ("changes", "split"),
    [
        ({}, "test"),
        ({"dataset__split": None}, None),
        ({"dataset__split": "test"}, None),
        ({"dataset__split": "test", "objective__held_out": "dev"}, "dev"),
        ({"dataset__split": None, "dataset__limit": 4, "objective__held_out": "test"}, "test"),
        ({"dataset__ids": ("in0",), "dataset__limit": 1}, "test"),
        ({"dataset__ids": ("in1",)}, "test"),
    ],
)
def test_which_queries_are_held_out(halves: Experiment, changes: dict[str, Any], split: str | None) -> None:
    config = experiment(halves, **changes)
    rows = golden_set([json.loads(line) for line in halves.golden.read_text(encoding="utf-8").splitlines()])
    bare = config.model_copy(update={"dataset": config.dataset.model_copy(update={"path": None})})
    for inputs in (load_inputs(config), load_inputs(bare, rows)):
        found, chosen_on = inputs.held_out, {case.id for case in inputs.golden.cases}
        assert (found is None) == (split is None)
        if found is not None:
            of_split = {case.id for case in rows.cases if case.split == split}
            assert {case.id for case in found.cases} == of_split - chosen_on and len(found.cases) > 1


def test_a_split_without_queries_of_its_own_is_refused_where_it_was_named(tmp_path: Path) -> None:
    made = split_world(tmp_path, lambda *_: False)
    assert load_inputs(experiment(made)).held_out is None
    with pytest.raises(DatasetError, match=r"^objective\.held_out: the golden data has no split 'test'; it has 'dev'"):
        load_inputs(experiment(made, objective__held_out="test"))
    rows = [json.loads(line) for line in made.golden.read_text(encoding="utf-8").splitlines()]
    made.write_golden([*rows, *({**row, "id": f"{row['id']} again", "split": "test"} for row in rows)])
    assert load_inputs(experiment(made)).held_out is None, "the same questions"
    for split in (None, "dev"):
        with pytest.raises(DatasetError, match=r"held_out 'dev': .* chosen on all 1\d of that split; choose"):
            load_inputs(experiment(made, dataset__split=split, objective__held_out="dev"))


def grid_and_held_out(config: ExperimentConfig) -> tuple[Any, Any]:
    own = config.dataset.model_copy(update={"path": None, "split": None})
    return measured(config.model_copy(update={"dataset": own}), golden=load_golden(config.dataset)), measured(config)


@pytest.mark.parametrize(
    "objective",
    [
        {"objective__metrics": {"ranking/recall_at_5": 1.0}},
        {"objective__constraints": {"scope/false_answer": "<= 0"}, "sweep": {**SWEEP, "threshold": [0.0, 0.6]}},
    ],
)
def test_the_figure_is_that_of_a_run_of_the_cell_on_the_split(halves: Experiment, objective: dict[str, Any]) -> None:
    config = experiment(halves, objective__out_of_scope=0, **objective)
    grid, found = grid_and_held_out(config)
    unseen = config.model_copy(update={"dataset": config.dataset.model_copy(update={"split": "test"})})
    [metric] = config.objective.metrics
    held, decision = found.swept.held_out, found.swept.decision
    assert held is not None and decision is not None
    assert held.chosen_on == pytest.approx(grid.swept.choice.recommended.value, abs=1e-12)
    for level in (decision.recommended, *decision.levels):
        if level.cell is not None:
            run = alone(unseen, grid.swept.grid.settings(level.cell))
            of_run = {summary.metric: summary for summary in run.summaries}
            assert level.held_out == of_run[metric] and level.held_out_false_answer == of_run["scope/false_answer"]
    assert replace(decision.recommended, held_out=None, held_out_false_answer=None) == grid.swept.decision.recommended
    own = decision.recommended.held_out
    assert own is not None and (held.value, held.n) == (own.value, own.n)
    assert (held.interval.low, held.interval.high) == (own.ci_low, own.ci_high)
    following = next_flags(found, None).split(" --")
    assert following[0] == "--dataset.split test" and following[-1] == "export retriever.yaml"
    assert "--dataset.split" not in next_flags(grid, None)


def test_held_out_queries_that_have_no_score_give_no_figure_and_the_run_says_so(tmp_path: Path) -> None:
    made = split_world(tmp_path, lambda _, case: not case.get("in_scope", True))
    grid, found = grid_and_held_out(experiment(made))
    assert found.swept.held_out is None and found.summaries == grid.summaries
    assert found.notes[-1] == "there is no figure on the held-out queries: ranking/ndcg_at_10 scores no query"
    answered = split_world(tmp_path, lambda n, case: n % 2 == 1 and case.get("in_scope", True))
    grid, found = grid_and_held_out(experiment(answered))
    assert found.swept.held_out is None and found.swept.decision.recommended.held_out.value is not None


def test_a_retrieval_that_was_saved_without_the_held_out_queries_gives_no_figure(halves: Any, tmp_path: Path) -> None:
    grid, file = experiment(halves, sweep={"top_k": [1, 2]}), tmp_path / "kept"
    single = grid.model_copy(update={"sweep": SweepConfig()})
    evaluate(experiment=single, outputs=Outputs(retrieval=file))
    inputs = started_from(file, load_inputs(grid))
    assert inputs.held_out is None and inputs.sweep and inputs.sweep.notes[-1].endswith("was saved without a sweep")
    with pytest.raises(ExperimentError, match="got a new case"):
        started_from(file, load_inputs(experiment(halves, sweep={"top_k": [1, 2]}, objective__held_out="test")))
