"""Times of single searches, by stage and concurrency. Whether repeated searches give the same results."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from evals.collect.observations import Calls, Observed, Summary
from evals.metrics.declaration import AMOUNT, Context, RunMetric, figure
from evals.stats import intervals as stats

STAGES = ("embed", "search", "rerank", "total")
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
DEFAULT_CONCURRENCY = (1, 4)
CONCURRENT = re.compile(r"latency/\w+_ms_c(?P<concurrency>[1-9]\d{0,3})")


def stage_statistic(observed: Observed, _: Context, *, stage: str, statistic: str, concurrency: int) -> Summary:
    """Return a statistic of one stage's wall time in milliseconds, over single calls after warm-up.

    The interval of the mean is over the means of the queries, since calls of one query are alike. The interval of a
    percentile is of order statistics of all calls. It holds for further calls of these queries, not for other queries.
    """
    if concurrency not in observed.latency:
        return _missing(observed, f"not measured at concurrency {concurrency}")
    times = times_of(observed.latency[concurrency], stage)
    values = [time for of_query in times.values() for time in of_query]
    if not values:
        return figure(None, f"no {stage} stage ran")
    if statistic == "mean":
        value = fmean(values)
        interval = stats.mean_interval([fmean(of_query) for of_query in times.values()], shares=False)
    else:
        share = PERCENTILES[statistic]
        # By linear interpolation between order statistics.
        value, interval = float(np.quantile(values, share)), stats.percentile_interval(values, share)
    return figure(value, interval.note, ci_low=interval.low, ci_high=interval.high, n=len(values))


def _missing(observed: Observed, reason: str) -> Summary:
    return figure(None, observed.unmeasured or reason, n_failed=observed.n_lost)


def times_of(calls: Calls, stage: str) -> Mapping[str, Sequence[float]]:
    """Return the times of one stage by query id, of the calls in which the stage ran."""
    times: dict[str, list[float]] = {}
    for query_id, timings in calls:
        if (time := getattr(timings, f"{stage}_ms")) is not None:
            times.setdefault(query_id, []).append(time)
    return times


def metrics_at(concurrency: int) -> tuple[RunMetric, ...]:
    """Return the latency metrics at one concurrency: `latency/total_p95_ms`, with `_c4` for concurrency 4."""
    suffix, at_once = (f"_c{concurrency}", f", {concurrency} calls at once") if concurrency > 1 else ("", "")
    return tuple(
        RunMetric(
            name=f"latency/{stage}_{statistic}_ms{suffix}", direction="lower", unit="ms", range=AMOUNT,
            about=f"{statistic} of the {stage} time in ms{at_once}", needs=frozenset({"latency"}),
            headline="always" if stage == "total" and (concurrency == 1 or (statistic, concurrency) == ("p95", 4))
            else "never",
            tell=partial(stage_statistic, stage=stage, statistic=statistic, concurrency=concurrency),
        )
        for stage in STAGES
        for statistic in ("mean", *PERCENTILES)
    )  # fmt: skip


def metric_named(name: str) -> RunMetric | None:
    """Return the latency metric of that name, at any concurrency; None for any other name."""
    match = CONCURRENT.fullmatch(name)
    metrics = metrics_at(int(match["concurrency"]) if match else 1)
    return next((metric for metric in metrics if metric.name == name), None)


def rate(observed: Observed, _: Context) -> Summary:
    """Return the share of queries whose repetitions gave the same ids in the same order, scores within 1e-6; 0 to 1."""
    if not observed.repetitions:
        return _missing(observed, "no query was repeated")
    n = len({call.query_id for call in observed.repetitions})
    same = n - len({call.query_id for call in observed.repetitions if call.changed})
    interval = stats.wilson(same, n)
    return figure(same / n, ci_low=interval.low, ci_high=interval.high, n=n)


def max_score_delta(observed: Observed, _: Context) -> Summary:
    """Return the largest change of a chunk's score between repetitions, without an interval.

    The change of a chunk that is missing in one of two results is its whole score.
    """
    if not observed.repetitions:
        return _missing(observed, "no query was repeated")
    deltas = [call.score_delta for call in observed.repetitions if call.score_delta is not None]
    if lacking := len(observed.repetitions) - len(deltas):
        return figure(None, "the retriever gives no scores", n_unscored=lacking)
    return figure(max(deltas), "a maximum has no interval", n=len(deltas))


FIGURES: Mapping[str, Callable[[Observed, Context], Summary]] = {
    "determinism/rate": rate,
    "determinism/max_score_delta": max_score_delta,
}
