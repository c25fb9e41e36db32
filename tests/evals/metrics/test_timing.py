"""Times of single calls: values by stage, intervals, concurrency; and whether results repeat."""

from math import inf

import numpy as np
import pytest

from evals.collect.observations import DeterminismPass, LatencyPass, Observed, Summary
from evals.metrics import METRICS, RunMetric, declared
from evals.stats import intervals as stats
from retrievers.records import StageTimings
from tests.support.observed import make_context

TIMES = tuple(float(n) for n in range(1, 101))


def timed(*totals: float, queries: int | None = None) -> Observed:
    """Calls with these total times, of which a tenth is embedding, over so many queries in turn."""
    ids = tuple(f"q{n % (queries or len(totals))}" for n in range(len(totals)))
    timings = tuple(StageTimings(embed_ms=total / 10, total_ms=total) for total in totals)
    calls = LatencyPass(concurrency=1, query_ids=ids, timings=timings)
    return Observed(observations=(), latency=(calls,))


def summary(name: str, observed: Observed) -> Summary:
    metric = declared(name)
    assert isinstance(metric, RunMetric)
    return metric.summarise(observed, make_context())


@pytest.mark.parametrize(
    ("statistic", "value", "interval"),
    [
        ("mean", 50.5, stats.mean_interval(TIMES, shares=False)),
        ("p50", 50.5, stats.percentile_interval(TIMES, 0.5)),
        ("p95", 95.05, stats.percentile_interval(TIMES, 0.95)),
        ("p99", 99.01, stats.percentile_interval(TIMES, 0.99)),
    ],
)
def test_a_figure_of_a_stage_has_the_interval_of_its_statistic(
    statistic: str, value: float, interval: stats.Interval
) -> None:
    found, embedding = (summary(f"latency/{stage}_{statistic}_ms", timed(*TIMES[::-1])) for stage in ("total", "embed"))
    assert (found.metric, found.n, found.note) == (f"latency/total_{statistic}_ms", 100, interval.note)
    assert (found.value, embedding.value) == pytest.approx((value, value / 10), abs=1e-9)
    assert (found.ci_low, found.ci_high) == (interval.low, interval.high)
    assert declared(found.metric).range == (0, inf)


def test_calling_the_same_queries_more_often_does_not_narrow_the_interval_of_the_mean() -> None:
    """Twelve queries, each always as slow as it is: a hundred calls of each tell no more of other queries than one."""
    own = tuple(np.random.default_rng(0).exponential(10, 12).tolist())
    once, often = (summary("latency/total_mean_ms", timed(*own * count, queries=12)) for count in (1, 100))
    assert often.n == 1_200
    assert (often.value, often.ci_low, often.ci_high) == pytest.approx(
        (once.value, once.ci_low, once.ci_high), rel=0.01
    )


@pytest.mark.parametrize(
    ("name", "observed", "note"),
    [
        ("latency/rerank_p50_ms", timed(*TIMES), "no rerank stage ran"),
        ("latency/total_p95_ms_c4", timed(*TIMES), "not measured at concurrency 4"),
        ("determinism/rate", timed(*TIMES), "no query was repeated"),
        ("determinism/max_score_delta", timed(*TIMES), "no query was repeated"),
        *((name, Observed(observations=(), unmeasured="it is read from a file"), "it is read from a file")
          for name in METRICS if name.startswith(("determinism/", "latency/"))),
    ],
)  # fmt: skip
def test_what_was_not_measured_has_no_figure_but_a_reason(name: str, observed: Observed, note: str) -> None:
    found = summary(name, observed)
    assert (found.value, found.ci_low, found.n, found.n_failed, found.note) == (None, None, 0, 0, note)


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
    """Repetitions: query, whether the result changed, the largest change of a score."""
    ids, changed, deltas = zip(*calls, strict=True)
    repeated = Observed(
        observations=(), repetitions=DeterminismPass(query_ids=ids, changed=changed, score_deltas=deltas)
    )
    rate, change = (summary(f"determinism/{name}", repeated) for name in ("rate", "max_score_delta"))
    expected = stats.wilson(same, queries)
    assert (rate.value, rate.n, rate.note) == (same / queries, queries, "")
    assert (rate.ci_low, rate.ci_high) == (expected.low, expected.high)
    note = "the retriever gives no scores" if largest is None else "a maximum has no interval"
    assert (change.value, change.n + change.n_unscored, change.ci_low, change.note) == (largest, len(calls), None, note)
