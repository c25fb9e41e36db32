"""Which queries are judged: all of them, or a random sample that grows until its mean is known well enough."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from evals.collect.observations import Observation
from evals.judge.cascade import judge_cascade
from evals.judge.judge import Judge
from evals.judge.sampling import among, judging_order, sample_size
from evals.judge.verdicts import Judging
from evals.metrics.declaration import Context, Metric, QueryMetric
from evals.metrics.results import Results
from evals.stats.corrected_mean import shrunk_weight

log = logging.getLogger(__name__)
# Under `judge.sample: auto` the interval may be wider by this than that of judging all queries.
WIDER = 0.25


def judge_sample(
    judge: Judge,
    metrics: Mapping[str, Metric],
    observations: Sequence[Observation],
    context: Context,
    results: Results,
) -> Judging:
    """Judge the queries that `judge.sample` says, all selections of each.

    Args:
        judge: Judge with its settings.
        metrics: Metrics of the run; those that need no judge are passed over.
        observations: The selections; several of one query are as many selections.
        context: Inputs of the metrics, without verdicts.
        results: The same selections as arrays.

    Raises:
        JudgeError: The very first call was refused for a reason that all others would share.
    """
    sample, seed = judge.config.sample, context.seed
    if judge.below:
        return judge_cascade(judge, metrics, observations, seed)
    order = judging_order((observation.case for observation in observations), seed)
    size = sample_size(sample, len(order))
    if isinstance(sample, int) and sample > len(order):
        log.warning("judge.sample %d is more than there are: all %d in-scope queries are judged", sample, len(order))
    if size == len(order):
        return judge.judge(metrics, observations, seed)
    judging = judge.judge(metrics, among(order[:size], observations), seed)
    while sample == "auto" and not judging.incomplete:
        drawn = replace(context, judging=replace(judging, drawn=frozenset(order[:size])))
        needed = _queries_needed(metrics, results, drawn, len(order))
        if needed <= size:
            break
        # By steps: the first round may hold queries on which judge and labels differ most.
        larger = min(needed, 2 * size)
        judging = judging.with_more(judge.judge(metrics, among(order[size:larger], observations), seed))
        size = larger
    return replace(judging, drawn=frozenset(order[:size]))


def _queries_needed(metrics: Mapping[str, Metric], results: Results, context: Context, total: int) -> int:
    """Return the number of judged queries that `auto` needs for the metric that needs most.

    The variance of a corrected mean is V/N + (1/n − 1/N) · R with the variances V of judged scores and R of what the
    proxy leaves of them. It is (1 + `WIDER`)² V/N at n = N R / (R + ((1 + `WIDER`)² − 1) V).
    """
    assert context.judging is not None and context.judging.drawn is not None
    judged_ids = context.judging.drawn
    drawn = results.at(np.flatnonzero(results.by_case(lambda case: case.id in judged_ids)))
    needed = 0
    for metric in metrics.values():
        if not isinstance(metric, QueryMetric) or metric.proxy is None:
            continue
        scores, proxies = metric.values(drawn, context), metric.proxy.values(drawn, context)
        scored = ~np.isnan(scores.values)
        if scored.sum() > 1:
            judged, proxy = scores.values[scored], proxies.values[scored]
            proxy = proxy if np.isfinite(proxy).all() else np.zeros(len(proxy))
            weight = shrunk_weight(judged[:, None], proxy[:, None])
            variance, rest = judged.var(ddof=1), (judged - weight * proxy).var(ddof=1)
            if rest > 0:
                needed = max(needed, ceil(total * rest / (rest + ((1 + WIDER) ** 2 - 1) * variance)))
    return needed
