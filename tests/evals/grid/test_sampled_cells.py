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
from tests.support.grid_world import choice_of, swept_of
from tests.support.judged_experiment import PRECISION, QUERIES, JudgedRounds
from tests.support.observed import metric_of

DRAWN = 24
FAILED, NO_REFERENCE = Failure(type="Timeout", message=""), Unscored(reason="the case has no reference answer")


@pytest.fixture(scope="module")
def results(judged_world: JudgedRounds) -> Iterator[tuple[Measured, Measured]]:
    """A grid of which a sample is judged, and one of which all is."""
    with judged_world.server() as server:
        yield judged_world.grid(server, sample=DRAWN), judged_world.grid(server)


def test_all_cells_are_judged_on_the_beginning_of_the_order_and_corrected_with_one_weight(
    judged_world: JudgedRounds, results: tuple[Measured, Measured]
) -> None:
    sampled, whole = results
    drawn = set(judging_order(judged_world.bench.golden.cases, judged_world.config.seed)[:DRAWN])
    assert sampled.judging is not None and sampled.judging.drawn == frozenset(drawn)
    metric, grid = metric_of(PRECISION), swept_of(sampled).grid
    assert metric.proxy is not None
    verdicts, labelled = (grid.matrix(each, sampled.context) for each in (metric, metric.proxy))
    ids = [case.id for case in grid.pool.cases if case.in_scope]
    for column in verdicts.T:
        assert {key for key, score in zip(ids, column.tolist(), strict=True) if not np.isnan(score)} == drawn
    expected, found = corrected(verdicts, labelled), grid.metrics[PRECISION]
    assert 0.3 < expected.weight <= 1 and expected.n == DRAWN
    assert found.sample is not None and (set(found.n.tolist()), found.n_common) == ({DRAWN}, DRAWN)
    assert found.mean == pytest.approx(expected.means)
    assert np.array(found.sample.ends) == pytest.approx(np.array(expected.interval()))
    # What compares cells has their means, and equal columns where they return the same.
    values = found.sample.comparable
    assert values.shape == (QUERIES, len(grid)) and np.isfinite(values).all()
    assert values.mean(axis=0) == pytest.approx(found.mean)
    both = np.nan_to_num(np.vstack([verdicts, labelled]), nan=-1.0)
    alike = [(a, b) for a in range(len(grid)) for b in range(a) if np.array_equal(both[:, a], both[:, b])]
    assert alike and all(values[:, a] == pytest.approx(values[:, b]) for a, b in alike)
    # The best of them is near the best by all verdicts, and a run of the recommended cell has its mean.
    means, choice = swept_of(whole).grid.metrics[PRECISION].mean, choice_of(sampled)
    assert (choice.best.cell, choice.judged, choice_of(whole).judged) == (int(found.mean.argmax()), DRAWN, None)
    assert means[choice.best.cell] > means.max() - 0.03
    summary = next(summary for summary in sampled.summaries if summary.metric == PRECISION)
    assert summary.value == pytest.approx(found.mean[swept_of(sampled).chosen or 0])
    assert summary.sampled is not None and (summary.n, summary.sampled.queries) == (DRAWN, QUERIES)


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
    assert result.judging is not None and result.judging.drawn is not None
    assert 20 <= len(result.judging.drawn) <= QUERIES
    order = judging_order(judged_world.bench.golden.cases, judged_world.config.seed)
    assert result.judging.drawn == frozenset(order[: len(result.judging.drawn)])


def test_failed_and_impossible_queries_are_counted_apart() -> None:
    """Of 60 queries 20 are judged, and labels mostly agree with the verdicts."""
    rng = np.random.default_rng(0)
    labels = rng.choice([0.0, 0.5, 1.0], 60).tolist()
    scores: list[Score] = np.clip(labels + rng.normal(0, 0.1, 60), 0, 1).tolist()
    scores[20:] = [NOT_DRAWN] * 40
    plain = sampled_summary(metric_of(PRECISION), scores, labels, "labels", weight=None)
    summary = sampled_summary(
        metric_of(PRECISION), [FAILED, *scores[1:], NO_REFERENCE], [*labels, 0.0], "labels", weight=None
    )
    assert (summary.n, summary.n_failed, summary.n_unscored) == (19, 1, 1)
    assert summary.sampled is not None and summary.sampled.queries == 60
    known = [end for each in (plain, summary) for end in (each.bound_low, each.bound_high)]
    assert None not in known and np.diff(known[2:]) > np.diff(known[:2])  # type: ignore[arg-type]
    # The bounds are those where the failed one counts 0, and 1.
    for end, score in (("bound_low", 0.0), ("bound_high", 1.0)):
        as_if = sampled_summary(metric_of(PRECISION), [score, *scores[1:]], labels, "labels", weight=None)
        assert getattr(summary, end) == pytest.approx(getattr(as_if, end))
