"""Determinism: repeated queries return the same ids in the same order, with scores within 1e-6."""

from evals.collect.observations import Observed, Summary
from evals.metrics.base import Context, RunMetric
from evals.metrics.declaration import AMOUNT
from evals.stats import intervals as stats


def rate(observed: Observed, _: Context) -> Summary:
    """Return the share of queries whose repetitions all gave the same ids in order, scores within 1e-6, 0 to 1."""
    name = "determinism/rate"
    repeated = observed.repetitions
    if repeated is None:
        return Summary(metric=name, value=None, note=observed.unmeasured or "no query was repeated")
    changed = {query for query, differs in zip(repeated.query_ids, repeated.changed, strict=True) if differs}
    count = len(set(repeated.query_ids))
    same = count - len(changed)
    interval = stats.wilson(same, count)
    return Summary(metric=name, value=same / count, ci_low=interval.low, ci_high=interval.high, n=count)


def max_score_delta(observed: Observed, _: Context) -> Summary:
    """Return the largest change of a chunk's score between repetitions; a missing chunk changed by its whole score.

    A maximum has no interval.
    """
    name = "determinism/max_score_delta"
    if observed.repetitions is None:
        return Summary(metric=name, value=None, note=observed.unmeasured or "no query was repeated")
    every = observed.repetitions.score_deltas
    deltas = [delta for delta in every if delta is not None]
    if lacking := len(every) - len(deltas):
        return Summary(metric=name, value=None, n_unscored=lacking, note="the retriever gives no scores")
    return Summary(metric=name, value=max(deltas), n=len(deltas), note="a maximum has no interval")


METRICS: tuple[RunMetric, ...] = (
    RunMetric(
        name="determinism/rate",
        about="queries that give the same ids in the same order again, with scores within 1e-6",
        summarise=rate,
        needs=frozenset({"determinism"}),
    ),
    RunMetric(
        name="determinism/max_score_delta",
        about="largest change of a returned chunk's score",
        direction="lower",
        unit="score",
        range=AMOUNT,
        needs=frozenset({"determinism"}),
        summarise=max_score_delta,
    ),
)
