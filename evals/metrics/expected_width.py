"""The width of the interval that judging a sample is expected to give, before anything is bought. Pure and seeded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evals.collect.observations import Observation, Score
from evals.judge.call_estimate import ExpectedWidths
from evals.judge.made_up_verdicts import USUAL_AGREEMENT, MadeUpJudge, agreement
from evals.judge.sampling import judging_order
from evals.judge.verdicts import Judging
from evals.metrics.base import Context, Metric, QueryMetric
from evals.metrics.sampled import can_be_judged, proxy_column
from evals.stats.corrected_mean import Bools, Floats, corrected_mean
from evals.stats.intervals import FEWEST

# Judges that are made up, over which widths are averaged.
JUDGES = 20


def expected_widths(
    metrics: Mapping[str, Metric],
    observations: Sequence[Observation],
    stored: Judging,
    sizes: Sequence[int],
    context: Context,
) -> tuple[ExpectedWidths, ...]:
    """Return for each metric with a proxy the widths of its 95% interval by number of judged queries, 0 to 1.

    A judge is made up (`evals.judge.made_up_verdicts`), its scores of the first queries in the order of judging are
    corrected by the proxy of all, and the width of that interval is averaged over several such judges.

    Args:
        metrics: Metrics of the run; those without a proxy are passed over.
        observations: One result for each in-scope query, with its labels.
        stored: Answers of the judge in the store.
        sizes: Numbers of judged queries.
        context: Inputs of the metrics, without verdicts.
    """
    scored = (metric for metric in metrics.values() if isinstance(metric, QueryMetric) and metric.proxy is not None)
    return tuple(_of_metric(metric, observations, stored, sizes, context) for metric in scored)


def _of_metric(
    metric: QueryMetric, observations: Sequence[Observation], stored: Judging, sizes: Sequence[int], context: Context
) -> ExpectedWidths:
    assert metric.proxy is not None
    places = {case_id: n for n, case_id in enumerate(judging_order((o.case for o in observations), context.seed))}
    eligible = [o for o in observations if can_be_judged(metric.name, o.case)]
    turns, proxy = np.array([places[o.case.id] for o in eligible]), proxy_column(metric.proxy.scores(eligible, context))
    count, share = agreement(metric.name, eligible, stored)
    samples, widths = [turns < size for size in sizes], []
    for seed in range(JUDGES):
        judge = MadeUpJudge(stored, {metric.name: 1 - (USUAL_AGREEMENT if share is None else share)}, seed)
        judging = judge.judge([metric.name], eligible)
        scores = _numbers(metric.scores(eligible, replace(context, judging=judging)))
        widths.append([_width(scores, proxy, sampled) for sampled in samples])
    means = [None if None in column else float(np.mean(column)) for column in zip(*widths, strict=True)]
    bare = sum(not o.relevance.grades for o in eligible)
    return ExpectedWidths(metric=metric.name, answers=count, agreement=share, unlabelled=bare, widths=tuple(means))


def _numbers(scores: Iterable[Score]) -> Floats:
    return np.array([score if isinstance(score, float | int) else np.nan for score in scores])


def _width(judged: Floats, proxy: Floats, sampled: Bools) -> float | None:
    """Return the width of the interval of a corrected mean; None for a sample that is too small for one."""
    own = sampled & ~np.isnan(judged)
    if own.sum() < FEWEST:
        return None
    interval = corrected_mean(judged, proxy, own).interval
    return None if interval.low is None or interval.high is None else interval.high - interval.low
