"""Grids of which a sample of the queries is judged: corrected means, what compares cells, and the guess at the best."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Failure, Score, Unscored
from evals.grid.measure import Measured
from evals.grid.sampled import sampled_summary
from evals.report.build import slices
from evals.sampling.corrected import corrected
from evals.sampling.order import NOT_DRAWN, judging_order
from tests.support.grids import choice_of, swept_of
from tests.support.judged_rounds import PRECISION, QUERIES, JudgedRounds
from tests.support.scored import metric_of

DRAWN = 24
NO_REFERENCE = Unscored(reason="the case has no reference answer")
LABELS = "labels/context_precision"
FAILED = Failure(type="Timeout", message="")


@pytest.fixture(scope="module")
def results(judged_world: JudgedRounds) -> Iterator[tuple[Measured, Measured]]:
    """A grid of which a sample is judged, and one of which all is."""
    with judged_world.server() as server:
        yield judged_world.grid(server, sample=DRAWN), judged_world.grid(server)


def matrices(made: Measured) -> list[Any]:
    """Return the verdicts on every query in scope in every cell, and what foretells them."""
    metric = metric_of(PRECISION)
    assert metric.proxy is not None
    return [swept_of(made).grid.matrix(each, made.context) for each in (metric, metric.proxy)]


def test_every_cell_is_judged_on_the_beginning_of_the_judging_order(
    judged_world: JudgedRounds, results: tuple[Measured, Measured]
) -> None:
    sampled, _ = results
    drawn = set(judging_order(judged_world.bench.golden.cases, judged_world.config.seed)[:DRAWN])
    grid = swept_of(sampled).grid
    ids = [case.id for case in grid.pool.cases if case.in_scope]
    for column in grid.matrix(metric_of(PRECISION), sampled.context).T:
        assert {key for key, score in zip(ids, column.tolist(), strict=True) if not np.isnan(score)} == drawn
    assert sampled.judging is not None and sampled.judging.drawn == frozenset(drawn)


def test_means_are_those_of_the_estimator_with_one_weight_for_all_cells(results: tuple[Measured, Measured]) -> None:
    grid = swept_of(results[0]).grid
    metric = grid.metrics[PRECISION]
    assert metric.sample is not None and set(metric.n.tolist()) == {DRAWN}
    sample = corrected(*matrices(results[0]))
    assert 0.3 < sample.weight <= 1 and sample.n == DRAWN
    assert metric.mean == pytest.approx(sample.means)


def test_a_run_of_the_recommended_cell_has_its_mean(results: tuple[Measured, Measured]) -> None:
    sampled, _ = results
    assert swept_of(sampled).chosen is not None
    summary = next(summary for summary in sampled.summaries if summary.metric == PRECISION)
    assert summary.value == pytest.approx(swept_of(sampled).grid.metrics[PRECISION].mean[swept_of(sampled).chosen])
    assert summary.sampled is not None and (summary.n, summary.sampled.queries) == (DRAWN, QUERIES)


def test_what_compares_cells_has_their_means_and_equal_columns_where_they_return_the_same(
    results: tuple[Measured, Measured],
) -> None:
    grid = swept_of(results[0]).grid
    sample = grid.metrics[PRECISION].sample
    assert sample is not None
    values = sample.comparable
    assert values.shape == (QUERIES, len(grid)) and np.isfinite(values).all()
    assert values.mean(axis=0) == pytest.approx(grid.metrics[PRECISION].mean)
    matrix, labelled = matrices(results[0])
    alike = [
        (a, b)
        for a in range(len(grid))
        for b in range(a)
        if np.array_equal(matrix[:, a], matrix[:, b], equal_nan=True) and np.array_equal(labelled[:, a], labelled[:, b])
    ]
    assert alike and all(values[:, a] == pytest.approx(values[:, b]) for a, b in alike)


def test_the_best_of_the_corrected_means_is_near_the_best_by_all_verdicts(
    results: tuple[Measured, Measured],
) -> None:
    sampled, whole = results
    assert swept_of(sampled).choice is not None and swept_of(whole).choice is not None
    assert choice_of(sampled).best.cell == int(swept_of(sampled).grid.metrics[PRECISION].mean.argmax())
    assert choice_of(sampled).judged == DRAWN and choice_of(whole).judged is None
    means = swept_of(whole).grid.metrics[PRECISION].mean
    assert means[choice_of(sampled).best.cell] > means.max() - 0.03


@pytest.mark.parametrize("changes", [{"sample": DRAWN}, {"stop": {"margin": 0.05}}])
def test_the_run_of_a_cell_has_all_that_its_report_needs(judged_world: JudgedRounds, changes: dict[str, Any]) -> None:
    typed = [
        case.model_copy(update={"query_type": "even" if int(case.id[2:]) % 2 == 0 else "odd"})
        for case in judged_world.bench.golden.cases
        if case.in_scope
    ]
    with judged_world.server() as server:
        result = judged_world.grid(server, cases=typed, **changes)
    of_types = {entry.name: entry.metrics[PRECISION] for entry in slices(result)}
    summary = next(summary for summary in result.summaries if summary.metric == PRECISION)
    assert set(of_types) == {"even", "odd"} and sum(entry.n for entry in of_types.values()) == summary.n
    values = [entry.value for entry in of_types.values() if entry.value is not None]
    assert summary.value is not None and min(values) - 0.05 <= summary.value <= max(values) + 0.05


def test_auto_judges_until_the_interval_is_nearly_that_of_all(judged_world: JudgedRounds) -> None:
    with judged_world.server() as server:
        result = judged_world.grid(server, sample="auto")
        alone = judged_world.bench.run(judged_world.config, judged_world.config.retriever)
    assert result.judging is not None and result.judging.drawn is not None and alone.judging is None
    assert 20 <= len(result.judging.drawn) <= QUERIES
    order = judging_order(judged_world.bench.golden.cases, judged_world.config.seed)
    assert result.judging.drawn == frozenset(order[: len(result.judging.drawn)])


def drawn(total: int, judged: int, seed: int = 0) -> tuple[list[Score], list[Score]]:
    """Return judged scores of the first queries, and labels of all that mostly agree with them."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([0.0, 0.5, 1.0], total)
    scores = np.clip(labels + rng.normal(0, 0.1, total), 0, 1)
    return [*scores[:judged].tolist(), *[NOT_DRAWN] * (total - judged)], labels.tolist()


def test_failed_and_impossible_queries_are_counted_apart() -> None:
    scores, labels = drawn(60, 20)
    plain = sampled_summary(metric_of(PRECISION), scores, labels, LABELS)
    summary = sampled_summary(metric_of(PRECISION), [FAILED, *scores[1:], NO_REFERENCE], [*labels, 0.0], LABELS)
    assert (summary.n, summary.n_failed, summary.n_unscored) == (19, 1, 1)
    assert summary.sampled is not None and summary.sampled.queries == 60
    assert summary.bound_low is not None and summary.bound_high is not None
    assert plain.bound_low is not None and plain.bound_high is not None
    assert summary.bound_high - summary.bound_low > plain.bound_high - plain.bound_low
