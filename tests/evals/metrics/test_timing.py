"""Times of single calls: values by stage, intervals, concurrency; and whether results repeat."""

import numpy as np
import pytest

from evals.collect.observations import DeterminismPass, LatencyPass, Observed, Summary
from evals.metrics import METRICS, RunMetric, declared
from evals.stats import intervals as stats
from retrievers.records import StageTimings
from tests.support.observed import make_context


def timed(
    *totals: float, queries: int | None = None, concurrency: int = 1, differing: tuple[str, ...] = ()
) -> Observed:
    """Calls with these total times, of which a tenth is embedding, over so many queries in turn."""
    ids = tuple(f"q{n % (queries or len(totals))}" for n in range(len(totals)))
    timings = tuple(StageTimings(embed_ms=total / 10, total_ms=total) for total in totals)
    calls = LatencyPass(concurrency=concurrency, query_ids=ids, timings=timings, differing=differing)
    return Observed(observations=(), latency=(calls,))


def statistic(observed: Observed, name: str, *, stage: str = "total", concurrency: int = 1) -> Summary:
    return summary(f"latency/{stage}_{name}_ms" + (f"_c{concurrency}" if concurrency > 1 else ""), observed)


def summary(name: str, observed: Observed) -> Summary:
    metric = declared(name)
    assert isinstance(metric, RunMetric)
    return metric.summarise(observed, make_context())


TIMES = tuple(float(n) for n in range(1, 101))


@pytest.mark.parametrize(("name", "expected"), [("mean", 50.5), ("p50", 50.5), ("p95", 95.05), ("p99", 99.01)])
def test_values_are_hand_computed_in_milliseconds(name: str, expected: float) -> None:
    found = statistic(timed(*reversed(TIMES)), name)
    assert (found.metric, found.n) == (f"latency/total_{name}_ms", 100)
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_the_intervals_are_those_of_statistics() -> None:
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        found, expected = statistic(timed(*TIMES), name), stats.percentile_interval(TIMES, share)
        assert (found.ci_low, found.ci_high) == (expected.low, expected.high)
    found, expected = statistic(timed(*TIMES), "mean"), stats.mean_interval(TIMES, shares=False)
    assert (found.ci_low, found.ci_high) == (expected.low, expected.high)


def test_calling_the_same_queries_more_often_does_not_narrow_the_interval_of_the_mean() -> None:
    """Twelve queries, each always as slow as it is: a hundred calls of each tell no more of other queries than one."""
    own = tuple(np.random.default_rng(0).exponential(10, 12).tolist())
    once, often = statistic(timed(*own), "mean"), statistic(timed(*own * 100, queries=12), "mean")
    assert often.n == 1_200
    assert (often.value, often.ci_low, often.ci_high) == pytest.approx(
        (once.value, once.ci_low, once.ci_high), rel=0.01
    )


def test_a_stage_that_did_not_run_has_no_value() -> None:
    found = statistic(timed(*TIMES), "p50", stage="rerank")
    assert (found.value, found.n, found.note) == (None, 0, "no rerank stage ran")


def test_no_figure_where_results_under_concurrency_differ() -> None:
    found = statistic(timed(*TIMES, concurrency=4, differing=("q1", "q2", "q3", "q4")), "p95", concurrency=4)
    assert (found.value, found.ci_low, found.n, found.n_failed) == (None, None, 0, 4)
    assert found.note == "the results of 4 queries differ from the serial ones (q1, q2, q3)"


def repeated(*calls: tuple[str, bool, float | None]) -> Observed:
    """Repetitions: query, whether the result changed, the largest change of a score."""
    ids, changed, deltas = zip(*calls, strict=True)
    return Observed(observations=(), repetitions=DeterminismPass(query_ids=ids, changed=changed, score_deltas=deltas))


@pytest.mark.parametrize(
    ("calls", "same", "queries", "largest"),
    [
        ([("a", False, 0.0), ("a", False, 0.0), ("b", False, 0.0)], 2, 2, 0.0),
        # One change in three repetitions makes a query different; n is what was asked, not how often.
        ([("a", False, 0.0), ("b", False, 0.0), ("b", True, 0.25), ("b", False, 0.0)], 1, 2, 0.25),
        ([("a", False, 0.0), ("b", True, 0.25), ("b", True, 0.25), ("c", True, 0.0)], 1, 3, 0.25),
        ([("a", False, None), ("b", True, None)], 1, 2, None),
    ],
)
def test_queries_repeat_and_the_largest_change_of_a_score(
    calls: list[tuple[str, bool, float | None]], same: int, queries: int, largest: float | None
) -> None:
    rate, change = (summary(f"determinism/{name}", repeated(*calls)) for name in ("rate", "max_score_delta"))
    expected = stats.wilson(same, queries)
    assert (rate.value, rate.n, rate.note) == (same / queries, queries, "")
    assert (rate.ci_low, rate.ci_high) == (expected.low, expected.high)
    note = "the retriever gives no scores" if largest is None else "a maximum has no interval"
    assert (change.value, change.n + change.n_unscored, change.ci_low, change.note) == (largest, len(calls), None, note)


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith(("determinism/", "latency/"))])
def test_what_was_not_measured_has_no_value_but_a_reason(name: str) -> None:
    found = summary(name, Observed(observations=(), unmeasured="the candidates are read from a file"))
    assert (found.value, found.n, found.note) == (None, 0, "the candidates are read from a file")
