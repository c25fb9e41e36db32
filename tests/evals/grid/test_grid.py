"""The grid of a small world: its records, its ranking, what it says of abstention, and the cell it comes down to."""

from collections.abc import Mapping
from typing import Any

import pytest

from evals.config.experiment import ExperimentConfig
from evals.config.sweep import ObjectiveConfig
from evals.errors import ExperimentError
from evals.grid.cells import table
from evals.grid.measure import Measured, grid_metrics
from evals.grid.objective import Ranking, figures, rank
from evals.metrics.criteria import judge as judge_gates
from evals.report.terminal import render_grid
from retrievers.config import dump
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import Bench
from tests.support.grids import swept_of
from tests.support.results import report

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
METRICS = ["ranking/*", "ranking/recall_at_10", "scope/*", "metadata/*", "content/topic_match", "queries/*"]


def experiment(world: Experiment, **changes: Any) -> ExperimentConfig:
    return settings(world, **{"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes})


@pytest.fixture(scope="module")
def found(bench: Bench, world: Experiment) -> Measured:
    return bench.grid(experiment(world, criteria={"ranking/ndcg_at_10": ">= 0.1"}))


def test_cells_are_numbered_by_configuration_then_threshold_then_cut(found: Measured) -> None:
    grid = swept_of(found).grid
    assert len(grid) == 2 * 10 * 5
    assert [(c.configuration, c.threshold, c.top_k) for c in map(grid.cell, range(6))] == [
        (0, 0.0, 1), (0, 0.0, 2), (0, 0.0, 3), (0, 0.0, 4), (0, 0.0, 5), (0, 0.1, 1),
    ]  # fmt: skip
    last = grid.cell(99)
    assert (last.configuration, last.threshold, last.top_k) == (1, 0.9, 5)
    assert last.parameters == {
        "mode": "hybrid", "fusion": "weighted", "rerank": "none", "candidates": 20, "top_k": 5, "threshold": 0.9,
        "threshold_on": "each",
    }  # fmt: skip
    assert (grid.settings(99).mode, grid.settings(99).top_k, grid.settings(99).threshold) == ("hybrid", 5, 0.9)


def test_the_table_has_a_row_a_cell_and_a_column_a_setting_and_a_metric(found: Measured) -> None:
    grid = swept_of(found).grid
    columns = table(grid)
    assert {len(values) for values in columns.values()} == {100}
    for cell in (0, 37, 99):
        known = grid.cell(cell).parameters
        settings_of_cell = {name: values[cell] for name, values in columns.items() if name not in grid.metrics}
        assert {name: value for name, value in settings_of_cell.items() if value is not None} == known
        assert columns["ranking/ndcg_at_5"][cell] == grid.metrics["ranking/ndcg_at_5"].mean[cell]


def test_what_is_optimised_is_computed_though_nobody_asked(world: Experiment) -> None:
    config = experiment(world, metrics=["scope/abstention"], objective__metrics={"ranking/mrr_at_5": 1.0})
    assert set(grid_metrics(config)) == {"scope/abstention", "ranking/mrr_at_5", "cost/context_tokens"}


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({"metrics": {"ranking/ndgc_at_10": 1}}, "objective: no metric 'ranking/ndgc_at_10'; did you mean"),
        ({"constraints": {"scope/fals": "<= 1"}}, "objective: no metric 'scope/fals'"),
        ({"metrics": {"scope/auroc": 1}}, "objective: 'scope/auroc' has no score for each query"),
        ({"metrics": {"ragas/llm_context_recall": 1}}, "needs a judge"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(world: Experiment, objective: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ExperimentError) as raised:
        grid_metrics(experiment(world, objective=objective))
    assert said in str(raised.value)


def ranked(found: Measured, **objective: Any) -> Ranking:
    return rank(swept_of(found).grid, ObjectiveConfig.model_validate(objective))


def test_cells_are_ranked_by_the_objective_then_by_threshold_then_by_what_they_cost(found: Measured) -> None:
    known = swept_of(found).grid.metrics["ranking/ndcg_at_10"].mean
    tokens = swept_of(found).grid.metrics["cost/context_tokens"].mean
    allowed = [cell for cell in range(100) if known[cell] >= 0.1]
    assert list(swept_of(found).ranking.order) == sorted(
        allowed, key=lambda cell: (-known[cell], swept_of(found).grid.cell(cell).threshold, tokens[cell], cell)
    )
    assert swept_of(found).chosen == swept_of(found).ranking.order[0]
    assert (swept_of(found).ranking.n, swept_of(found).ranking.dropped, (~swept_of(found).ranking.allowed).sum()) == (
        {"ranking/ndcg_at_10": 8}, {"ranking/ndcg_at_10": 0}, 100 - len(allowed),
    )  # fmt: skip


def test_cells_that_miss_a_constraint_are_not_ranked(found: Measured) -> None:
    made = ranked(found, constraints={"scope/false_answer": "<= 0.4", "scope/auroc": ">= 0"})
    false = swept_of(found).grid.metrics["scope/false_answer"].mean
    assert set(made.order) == {cell for cell in range(100) if false[cell] <= 0.4}
    assert 0 < (~made.allowed).sum() == 100 - len(made.order) < 100


def test_without_a_cell_left_the_nearest_are_named(found: Measured) -> None:
    with pytest.raises(ExperimentError) as raised:
        ranked(found, constraints={"scope/false_answer": "< 0", "ranking/recall_at_10": ">= 0.2"})
    said = str(raised.value)
    assert said.startswith("objective.constraints: none of 100 cells has scope/false_answer < 0 and")
    assert "; the nearest: scope/false_answer 0.000 in " in said and said.endswith("or widen the sweep")


def test_a_metric_that_some_cells_cannot_score_does_not_rank_them(found: Measured) -> None:
    """Metadata of nothing has no score, and high thresholds return nothing."""
    made = ranked(found, metrics="metadata/completeness")
    assert made.order == ()
    assert made.reason == (
        "metadata/completeness scores 11 of 11 queries in some cells and not in all, over 5%: means over different "
        "queries do not compare"
    )


def test_a_grid_that_is_not_ranked_says_so_and_shows_its_first_cell(bench: Bench, world: Experiment) -> None:
    made = bench.grid(experiment(world, objective__metrics={"metadata/completeness": 1.0}))
    assert swept_of(made).chosen is None
    first = swept_of(made).grid.settings(0)
    # The report names the fields that were required, where the settings leave them to the collection.
    assert made.config.retriever == first.model_copy(update={"metadata": made.config.retriever.metadata})
    assert any("the cells are not ranked (metadata/completeness" in note for note in made.notes)
    assert "The cells are not ranked: metadata/completeness scores" in render_grid(report(made), width=200, color=False)


def test_where_scores_failed_a_condition_is_held_against_the_worse_bound(found: Measured) -> None:
    grid = swept_of(found).grid
    known = grid.metrics["ranking/ndcg_at_10"]
    known.n_failed[0], before = 2, known.n_failed[0]
    try:
        mean = known.mean[0]
        assert figures(grid, "ranking/ndcg_at_10", symbol=">=")[0] == pytest.approx(mean * 8 / 10)
        assert figures(grid, "ranking/ndcg_at_10", symbol="<=")[0] == pytest.approx((mean * 8 + 2) / 10)
        assert figures(grid, "ranking/ndcg_at_10", symbol="<=")[1] == known.mean[1]
    finally:
        known.n_failed[0] = before


def test_the_chosen_cell_is_a_run_of_its_own(found: Measured, bench: Bench, world: Experiment) -> None:
    config = experiment(world, criteria={"ranking/ndcg_at_10": ">= 0.1"})
    alone = bench.run(config, found.config.retriever)
    own = {summary.metric: summary for summary in alone.summaries}
    assert [s for s in found.summaries if s != own.get(s.metric, s)] == []
    assert found.gates == judge_gates(config.criteria, found.summaries)
    assert found.validation.pass_rate == alone.validation.pass_rate
    assert dump(found.config.retriever) == dump(alone.config.retriever)
    returned, expected = (
        [[(hit.rank, hit.chunk.chunk_id) for hit in o.selection] for o in run.observed.observations]
        for run in (found, alone)
    )
    assert returned == expected
    assert "chosen out of 100 cells on these queries, so its figures are optimistic" in found.notes[-1]
