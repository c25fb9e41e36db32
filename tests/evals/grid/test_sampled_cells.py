"""Grids of which a sample of the queries is judged: corrected means, what compares cells, and the guess at the best."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from evals.grid.measure import Measured
from evals.grid.sampled_cells import cell_summary, comparable, guesses
from evals.judge.sampling import judging_order
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric
from evals.report.building.run import slices
from evals.stats.corrected_mean import corrected_mean
from tests.support.chat_server import CohereChatServer
from tests.support.judged_rounds import PRECISION, QUERIES, JudgedRounds
from tests.support.judging import Flaws, Oracle

DRAWN = 24


@pytest.fixture(scope="module")
def world(judged_world: JudgedRounds) -> JudgedRounds:
    return judged_world


@pytest.fixture(scope="module")
def results(world: JudgedRounds) -> Iterator[tuple[Measured, Measured]]:
    """A grid of which a sample is judged, and one of which all is."""
    with world.server() as server:
        yield world.grid(server, sample=DRAWN), world.grid(server)


def test_every_cell_is_judged_on_the_beginning_of_the_judging_order(
    world: JudgedRounds, results: tuple[Measured, Measured]
) -> None:
    sampled, _ = results
    drawn = set(judging_order(world.bench.golden.cases, world.config.seed)[:DRAWN])
    for cell in range(len(sampled.grid)):
        scores = sampled.grid.scores(PRECISION, cell)
        assert {key for key, score in scores.items() if isinstance(score, float)} == drawn
    assert sampled.judging is not None and sampled.judging.drawn == frozenset(drawn)


def test_means_are_those_of_the_estimator_with_one_weight_for_all_cells(results: tuple[Measured, Measured]) -> None:
    grid = results[0].grid
    metric, judged = grid.metrics[PRECISION], grid.matrix(PRECISION)
    assert metric.sample is not None and set(metric.summaries.n.tolist()) == {DRAWN}
    proxy = grid.laid_out(metric.sample.proxy_parts, metric.rows)
    [weight] = set(metric.sample.weights[:, 0].tolist())
    assert 0.3 < weight <= 1
    for cell in (0, 7, 29):
        one = corrected_mean(judged[:, cell], proxy[:, cell], ~np.isnan(judged[:, cell]), weight=weight)
        assert metric.summaries.mean[cell] == pytest.approx(one.value)


def test_a_run_of_the_recommended_cell_has_its_mean(results: tuple[Measured, Measured]) -> None:
    sampled, _ = results
    assert sampled.chosen is not None
    summary = next(summary for summary in sampled.summaries if summary.metric == PRECISION)
    assert summary.value == pytest.approx(sampled.grid.metrics[PRECISION].summaries.mean[sampled.chosen])
    assert summary.sampled is not None and (summary.n, summary.sampled.queries) == (DRAWN, QUERIES)


def test_corrected_means_come_nearer_to_those_of_all_verdicts(results: tuple[Measured, Measured]) -> None:
    sampled, whole = (result.grid.metrics[PRECISION].summaries.mean for result in results)
    alone = np.nanmean(results[0].grid.matrix(PRECISION), axis=0)
    assert np.abs(sampled - whole).mean() < 0.8 * np.abs(alone - whole).mean()


def test_what_compares_cells_has_their_means_and_equal_columns_where_they_return_the_same(
    results: tuple[Measured, Measured],
) -> None:
    grid = results[0].grid
    values = comparable(grid, PRECISION)
    assert values.shape == (QUERIES, len(grid)) and np.isfinite(values).all()
    assert values.mean(axis=0) == pytest.approx(grid.metrics[PRECISION].summaries.mean)
    matrix, proxies = grid.matrix(PRECISION), grid.metrics[PRECISION].sample
    assert proxies is not None
    labelled = grid.laid_out(proxies.proxy_parts, grid.metrics[PRECISION].rows)
    alike = [
        (a, b)
        for a in range(len(grid))
        for b in range(a)
        if np.array_equal(matrix[:, a], matrix[:, b], equal_nan=True) and np.array_equal(labelled[:, a], labelled[:, b])
    ]
    assert alike and all(values[:, a] == pytest.approx(values[:, b]) for a, b in alike)


def test_the_best_is_chosen_by_guesses_that_a_full_judging_does_not_need(
    results: tuple[Measured, Measured],
) -> None:
    sampled, whole = results
    assert sampled.choice is not None and whole.choice is not None
    assert sampled.choice.best.cell == int(guesses(sampled.grid, {PRECISION: 1.0}).argmax())
    assert sampled.choice.judged == DRAWN and whole.choice.judged is None
    means = whole.grid.metrics[PRECISION].summaries.mean
    assert means[sampled.choice.best.cell] > means.max() - 0.03


@pytest.mark.parametrize("changes", [{"sample": DRAWN}, {"stop": {"margin": 0.02}}], ids=["sample", "stop"])
def test_the_interval_of_a_cell_is_that_of_its_run(world: JudgedRounds, changes: dict[str, Any]) -> None:
    with world.server() as server:
        result = world.grid(server, **changes)
    metric = METRICS[PRECISION]
    assert result.choice is not None and isinstance(metric, QueryMetric)
    for standing in result.choice.standings:
        summary = cell_summary(result.grid, metric, standing.cell)
        assert (standing.interval.low, standing.interval.high) == pytest.approx((summary.ci_low, summary.ci_high))


@pytest.mark.parametrize("changes", [{"sample": DRAWN}, {"stop": {"margin": 0.05}}])
def test_the_run_of_a_cell_has_all_that_its_report_needs(world: JudgedRounds, changes: dict[str, Any]) -> None:
    typed = [
        case.model_copy(update={"query_type": "even" if int(case.id[2:]) % 2 == 0 else "odd"})
        for case in world.bench.golden.cases
        if case.in_scope
    ]
    with world.server() as server:
        result = world.grid(server, cases=typed, **changes)
    of_types = {entry.name: entry.metrics[PRECISION] for entry in slices(result)}
    summary = next(summary for summary in result.summaries if summary.metric == PRECISION)
    assert set(of_types) == {"even", "odd"} and sum(entry.n for entry in of_types.values()) == summary.n
    values = [entry.value for entry in of_types.values() if entry.value is not None]
    assert summary.value is not None and min(values) - 0.05 <= summary.value <= max(values) + 0.05


def test_auto_judges_until_the_interval_is_nearly_that_of_all(world: JudgedRounds) -> None:
    with world.server() as server:
        result = world.grid(server, sample="auto")
        alone = world.bench.run(world.config, world.config.retriever)
    assert result.judging is not None and result.judging.drawn is not None and alone.judging is None
    assert 30 <= len(result.judging.drawn) <= QUERIES
    order = judging_order(world.bench.golden.cases, world.config.seed)
    assert result.judging.drawn == frozenset(order[: len(result.judging.drawn)])


def test_labels_that_never_agree_make_auto_judge_more(world: JudgedRounds) -> None:
    drawn = []
    for flaws in (Flaws(), Flaws(false_useful=0.5, false_useless=0.5)):
        with CohereChatServer(Oracle(world.labels, flaws=flaws)) as server:
            judging = world.grid(server, sample="auto").judging
        assert judging is not None and judging.drawn is not None
        drawn.append(len(judging.drawn))
    assert drawn[0] < drawn[1]
