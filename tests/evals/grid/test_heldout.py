"""The chosen cell on held-out queries, against a single run of that cell over that split."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evals.cases.reading import GoldenSet, golden_set, load_golden
from evals.collect.pool import ground
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError
from evals.experiment.inputs import load_inputs
from evals.grid.axes import plan
from evals.grid.heldout import load_held_out, with_held_out
from evals.grid.measure import Measured, measure_pool, retrieve
from evals.metrics.collaborators import Collaborators
from tests.support.experiment import Experiment, settings, silent
from tests.support.grid_world import Bench, choice_of, make_world, swept_of

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:4", "threshold": "0:0.9:0.1"}


def split_world(folder: Path, is_held_out: Callable[[int, Any], bool]) -> Experiment:
    made = make_world(folder)
    cases = [json.loads(line) for line in made.golden.read_text(encoding="utf-8").splitlines()]
    made.write_golden([{**case, "split": "test" if is_held_out(n, case) else "dev"} for n, case in enumerate(cases)])
    return made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The small world, every other query in scope and one out of scope held out."""
    return split_world(tmp_path_factory.mktemp("world"), lambda place, _: place % 2 == 1)


def experiment(world: Experiment, **changes: Any) -> ExperimentConfig:
    known = {"metrics": ["ranking/*", "scope/*"], "sweep": SWEEP, "retriever__candidates": 20, "dataset__split": "dev"}
    return settings(world, **{**known, **changes})


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
def test_which_queries_are_held_out(world: Experiment, changes: dict[str, Any], split: str | None) -> None:
    """Of the file and of the same rows in memory; those on which the cell is chosen are never among them."""
    config = experiment(world, **changes)
    rows = golden_set([json.loads(line) for line in world.golden.read_text(encoding="utf-8").splitlines()])
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
    for split in (None, "dev"):
        with pytest.raises(DatasetError, match=r"held_out 'dev': .* chosen on all 1\d of that split; choose"):
            load_inputs(experiment(made, dataset__split=split, objective__held_out="dev"))


def grid_and_held_out(config: ExperimentConfig) -> tuple[Bench, Measured, GoldenSet, Measured]:
    """The bench, a grid without its held-out figure, the held-out queries, and the grid with it."""
    bench = Bench(config, {})
    unseen = load_held_out(config, bench.golden, load=load_golden)
    assert unseen is not None
    planned = plan(config.retriever, config.sweep)
    with bench.opened([variant.settings for variant in planned.variants]) as (retrievers, grounds):
        collaborators = Collaborators(retrievers=retrievers, progress=silent)
        pool = retrieve(planned, bench.golden, grounds, collaborators)
        grid = measure_pool(config, pool, collaborators, planned)
        find = partial(retrieve, planned, unseen, ground(unseen, retrievers[0]), collaborators)
        return bench, grid, unseen, with_held_out(config, grid, find, collaborators)


@pytest.mark.parametrize(
    "objective",
    [
        {"objective__metrics": {"ranking/recall_at_5": 1.0}},
        {"objective__constraints": {"scope/false_answer": "<= 0"}, "sweep": {**SWEEP, "threshold": [0.0, 0.6]}},
    ],
)
def test_the_figure_is_that_of_a_single_run_of_the_cell_on_the_split(
    world: Experiment, objective: dict[str, Any]
) -> None:
    config = experiment(world, **objective)
    bench, grid, unseen, found = grid_and_held_out(config)
    bench.golden = unseen
    [metric] = config.objective.metrics
    held, decision = swept_of(found).held_out, swept_of(found).decision
    assert held is not None and decision is not None
    assert held.chosen_on == pytest.approx(choice_of(grid).recommended.value, abs=1e-12)
    for level in (decision.recommended, *decision.levels):
        if level.cell is not None:
            alone = bench.run(config, swept_of(grid).grid.settings(level.cell))
            assert level.held_out == next(summary for summary in alone.summaries if summary.metric == metric)
    assert replace(decision.recommended, held_out=None) == swept_of(grid).decision.recommended  # type: ignore[union-attr]
    own = decision.recommended.held_out
    assert own is not None and (held.value, held.n) == (own.value, own.n)
    assert (held.interval.low, held.interval.high) == (own.ci_low, own.ci_high)


def test_held_out_queries_that_have_no_score_give_no_figure_and_the_run_says_so(tmp_path: Path) -> None:
    made = split_world(tmp_path, lambda _, case: not case.get("in_scope", True))
    _, grid, _, found = grid_and_held_out(experiment(made))
    assert swept_of(found).held_out is None and found.summaries == grid.summaries
    assert found.notes[-1] == "there is no figure on the held-out queries: ranking/ndcg_at_10 scores no query"
