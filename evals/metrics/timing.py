"""Duration of single searches, by stage and concurrency; and whether results repeat."""

import re
from collections.abc import Sequence
from functools import partial
from statistics import fmean

from evals.collect.observations import LatencyPass, Observed, Summary
from evals.metrics.declaration import AMOUNT, Context, RunMetric
from evals.stats import intervals as stats

STAGES = ("embed", "search", "rerank", "total")
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
DEFAULT_CONCURRENCY = (1, 4)
CONCURRENT = re.compile(r"latency/\w+_ms_c(?P<concurrency>[1-9]\d{0,3})")


def stage_statistic(observed: Observed, context: Context, *, stage: str, statistic: str, concurrency: int) -> Summary:
    """Return a statistic of one stage's wall time in milliseconds, over single calls after warm-up.

    The mean has an interval over the queries' own means, since calls of one query are alike. Percentiles have one
    of order statistics over all calls, which speaks for these queries called again, not for others. Under concurrency
    results must equal the serial ones; where they do not, there is no figure.
    """
    name = metric_name(stage, statistic, concurrency)
    timed = next((p for p in observed.latency if p.concurrency == concurrency), None)
    if timed is None:
        note = observed.unmeasured or f"not measured at concurrency {concurrency}"
        return Summary(metric=name, value=None, note=note)
    if timed.differing:
        other = "the serial ones" if concurrency > 1 else "one serial call to the next"
        note = f"the results of {len(timed.differing)} queries differ from {other} ({', '.join(timed.differing[:3])})"
        return Summary(metric=name, value=None, n_failed=len(timed.differing), note=note)
    values = stage_values(timed, stage)
    if not values:
        return Summary(metric=name, value=None, note=f"no {stage} stage ran")
    if statistic == "mean":
        value, found = fmean(values), stats.mean_interval(_query_means(timed, stage), shares=False)
    else:
        share = PERCENTILES[statistic]
        value, found = stats.percentile(values, share), stats.percentile_interval(values, share)
    return Summary(metric=name, value=value, ci_low=found.low, ci_high=found.high, n=len(values), note=found.note)


def stage_values(timed: LatencyPass, stage: str) -> Sequence[float]:
    """Return the times of one stage, in call order, for the calls in which it ran."""
    times = [getattr(timings, f"{stage}_ms") for timings in timed.timings]
    return [time for time in times if time is not None]


def _query_means(timed: LatencyPass, stage: str) -> Sequence[float]:
    times: dict[str, list[float]] = {}
    for query_id, timings in zip(timed.query_ids, timed.timings, strict=True):
        if (time := getattr(timings, f"{stage}_ms")) is not None:
            times.setdefault(query_id, []).append(time)
    return [fmean(values) for values in times.values()]


def metric_name(stage: str, statistic: str, concurrency: int) -> str:
    """Return `latency/total_p95_ms`, with `_c4` for concurrency 4."""
    return f"latency/{stage}_{statistic}_ms" + (f"_c{concurrency}" if concurrency > 1 else "")


def metrics_at(concurrency: int) -> tuple[RunMetric, ...]:
    """Return the latency metrics at one concurrency."""
    at_once = f", {concurrency} calls at once" if concurrency > 1 else ""
    return tuple(
        RunMetric(
            name=metric_name(stage, statistic, concurrency), direction="lower", unit="ms", range=AMOUNT,
            about=f"{statistic} of the {stage} time in ms{at_once}", needs=frozenset({"latency"}),
            headline="always" if stage == "total" and (concurrency == 1 or (statistic, concurrency) == ("p95", 4))
            else "never",
            summarise=partial(stage_statistic, stage=stage, statistic=statistic, concurrency=concurrency),
        )
        for stage in STAGES
        for statistic in ("mean", *PERCENTILES)
    )  # fmt: skip


def metric_named(name: str) -> RunMetric | None:
    """Return the latency metric of that name, at any concurrency; None for any other name."""
    level = CONCURRENT.fullmatch(name)
    metrics = metrics_at(int(level["concurrency"])) if level else METRICS
    return next((metric for metric in metrics if metric.name == name), None)


def rate(observed: Observed, _: Context) -> Summary:
    """Return the share of queries whose repetitions all gave the same ids in order, scores within 1e-6, 0 to 1."""
    name, repeated = "determinism/rate", observed.repetitions
    if repeated is None:
        return Summary(metric=name, value=None, note=observed.unmeasured or "no query was repeated")
    changed = {query for query, differs in zip(repeated.query_ids, repeated.changed, strict=True) if differs}
    n = len(set(repeated.query_ids))
    interval = stats.wilson(n - len(changed), n)
    return Summary(metric=name, value=(n - len(changed)) / n, ci_low=interval.low, ci_high=interval.high, n=n)


def max_score_delta(observed: Observed, _: Context) -> Summary:
    """Return the largest change of a chunk's score between repetitions; a missing chunk changed by its whole score.

    A maximum has no interval.
    """
    name, repeated = "determinism/max_score_delta", observed.repetitions
    if repeated is None:
        return Summary(metric=name, value=None, note=observed.unmeasured or "no query was repeated")
    deltas = [delta for delta in repeated.score_deltas if delta is not None]
    if lacking := len(repeated.score_deltas) - len(deltas):
        return Summary(metric=name, value=None, n_unscored=lacking, note="the retriever gives no scores")
    return Summary(metric=name, value=max(deltas), n=len(deltas), note="a maximum has no interval")


METRICS: tuple[RunMetric, ...] = (
    RunMetric(name="determinism/rate", summarise=rate, needs=frozenset({"determinism"}),
              about="queries that give the same ids in the same order again, with scores within 1e-6"),
    RunMetric(name="determinism/max_score_delta", summarise=max_score_delta, needs=frozenset({"determinism"}),
              about="largest change of a returned chunk's score", direction="lower", unit="score", range=AMOUNT),
    *(metric for concurrency in DEFAULT_CONCURRENCY for metric in metrics_at(concurrency)),
)  # fmt: skip
