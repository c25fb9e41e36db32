"""Metrics by query type and by tag. Pure."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evals.collect.observations import Summary
from evals.judge.sampling import NOT_DRAWN
from evals.metrics import METRICS, VERDICT_METRIC
from evals.metrics.base import QueryMetric, summarise
from evals.metrics.run_result import RunResult
from evals.metrics.sampled import sampled_summary
from evals.report.model.slices import SliceEntry, SliceMetric
from evals.stats.intervals import wilson

# A tag of fewer queries says nothing that their rows do not.
LEAST = 3


def slices(result: RunResult) -> list[SliceEntry]:
    """Return the metrics of the queries of each type, then of each tag that three or more queries have, by name."""
    cases = [observation.case for observation in result.observed.observations]
    types: dict[str, list[str]] = {}
    tags: dict[str, list[str]] = {}
    for case in cases:
        if case.query_type:
            types.setdefault(case.query_type, []).append(case.id)
        for tag in case.tags:
            tags.setdefault(tag, []).append(case.id)
    validation = result.validation
    outcomes = zip(validation.query_ids, validation.outcomes, strict=True)
    passed = {query_id: outcome == "SUCCESS" for query_id, outcome in outcomes if outcome != "UNLABELLED"}
    return [
        SliceEntry(by=by, name=name, n=len(ids), metrics=dict(_metrics(result, ids, passed)))  # type: ignore[arg-type]
        for by, groups in (("query_type", types), ("tag", tags))
        for name, ids in sorted(groups.items())
        if by == "query_type" or len(ids) >= LEAST
    ]


def _metrics(result: RunResult, ids: Sequence[str], passed: Mapping[str, bool]) -> Iterator[tuple[str, SliceMetric]]:
    for name, scores in result.scores.items():
        metric = METRICS.get(name)
        if isinstance(metric, QueryMetric) and any(query_id in scores for query_id in ids):
            summary = _summary(metric, ids, result)
            if summary.value is not None:
                yield name, SliceMetric.of(summary)
    decided = [passed[query_id] for query_id in ids if query_id in passed]
    if decided:
        n, ends = len(decided), wilson(sum(decided), len(decided))
        whole = Summary(metric=VERDICT_METRIC, value=sum(decided) / n, ci_low=ends.low, ci_high=ends.high, n=n)
        yield VERDICT_METRIC, SliceMetric.of(whole)


def _summary(metric: QueryMetric, ids: Sequence[str], result: RunResult) -> Summary:
    """Return the mean of a metric over a slice, corrected with the weight of the whole run where that is."""
    scores, proxies = result.scores[metric.name], result.proxies.get(metric.name, {})
    own = [scores[query_id] for query_id in ids if query_id in scores]
    corrected = [each.sampled for each in result.summaries if each.metric == metric.name and each.sampled]
    if not corrected or NOT_DRAWN not in own:
        return summarise(metric.name, own, metric.interval)
    of_slice = [proxies[query_id] for query_id in ids if query_id in scores]
    draws = np.array([result.draws[query_id] for query_id in ids if query_id in scores]) if result.draws else None
    tiers = [
        (model, [of_tier[query_id] for query_id in ids if query_id in scores])
        for model, of_tier in result.tier_scores.get(metric.name, ())
    ]
    return sampled_summary(metric, own, of_slice, corrected[0].weights, draws, tiers, corrected[0].proxies[0])
