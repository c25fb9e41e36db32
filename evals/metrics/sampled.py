"""Means of metrics of which the judge saw a random sample of the queries. Pure.

The mean is corrected by a proxy that all queries have (`evals.metrics.proxies`, `evals.stats.corrected_mean`);
of a cascade, by the same metric of the cheaper judges besides, whose own means are corrected in turn
(`evals.stats.nested_samples`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from evals.collect.observations import Failure, SampledMean, Score, Summary, Unscored
from evals.golden.case import Case
from evals.judge.sampling import NOT_DRAWN
from evals.metrics.declaration import QueryMetric, summarise
from evals.metrics.proxies import serving
from evals.stats.corrected_mean import CorrectedMean, Floats, corrected_mean
from evals.stats.nested_samples import JointProxy, ProxyScores, completed, joint_proxy


def summary_of(
    metric: QueryMetric,
    scores: Mapping[str, Score],
    proxies: Mapping[str, Score],
    tiers: Sequence[tuple[str, Mapping[str, Score]]],
    cases: Sequence[Case],
) -> Summary:
    """Average the scores of a metric; where a sample of the queries was judged, the mean is corrected by its proxy.

    Args:
        metric: Metric of the scores.
        scores: By case id.
        proxies: Those of its proxy, likewise.
        tiers: Of a cascade, the cheaper judges with their scores, likewise.
        cases: The golden queries.
    """
    own = list(scores.values())
    if metric.proxy is None or NOT_DRAWN not in own:
        return summarise(metric.name, own, metric.interval)
    named = serving(metric.proxy, [case for case in cases if case.in_scope])
    lower = [(model, list(each.values())) for model, each in tiers]
    return sampled_summary(metric, own, list(proxies.values()), tiers=lower, proxy_name=named)


def sampled_summary(
    metric: QueryMetric,
    scores: Sequence[Score],
    proxies: Sequence[Score],
    weights: Sequence[Sequence[float]] = (),
    tiers: Sequence[tuple[str, Sequence[Score]]] = (),
    proxy_name: str = "",
) -> Summary:
    """Average the scores of a sample of the queries, corrected by the proxy's scores of all.

    `bound_low` and `bound_high` are the 95% bounds of what judging all queries would give; where scores failed or are
    missing, with all of these counted 0 and 1.

    Args:
        metric: Metric of the scores, with a proxy.
        scores: One for each query of its scope, `NOT_DRAWN` for those that were left out.
        proxies: Scores of the proxy for the same queries.
        weights: Weights of the correction of each judge's mean, as in `SampledMean.weights`, where they were estimated
            from more than these scores; else none.
        tiers: Of a cascade, the cheaper judges with their scores for the same queries, the cheapest first.
        proxy_name: What serves as the proxy for these queries; the name of the metric's proxy where left out.
    """
    assert metric.proxy is not None
    of_sample = summarise(metric.name, [score for score in scores if score != NOT_DRAWN], metric.interval)
    if of_sample.value is None:
        return of_sample
    kept = [pair for pair in zip(scores, proxies, strict=True) if has_or_lacks_verdicts(pair[0])]
    judged, eligible = np.array([_number(score) for score, _ in kept]), [has_or_lacks_verdicts(s) for s in scores]
    columns = [np.array([_number(score) for score in compress(of_tier, eligible)]) for _, of_tier in tiers]
    correcting = in_turn(proxy_column([proxy for _, proxy in kept]), columns, weights[:-1])
    lost = np.array([score != NOT_DRAWN and not isinstance(score, float | int) for score, _ in kept])

    def estimate(values: Floats) -> tuple[CorrectedMean, JointProxy]:
        known = ~np.isnan(values)
        proxy = joint_proxy(values[:, None], known, correcting, weights[-1] if weights else None)
        column, weight = proxy.scores[:, 0], proxy.weight
        mean = corrected_mean(values, column, known, weight=weight, earlier=proxy.earlier, regressed=proxy.regressed)
        return mean, proxy

    mean, proxy = estimate(judged)
    low, high = (
        judged_of_all(estimate(filled)[0])[side]
        for side, filled in enumerate((np.where(lost, 0.0, judged), np.where(lost, 1.0, judged)))
    )
    return replace(
        of_sample,
        value=mean.value,
        ci_low=mean.interval.low,
        ci_high=mean.interval.high,
        bound_low=low,
        bound_high=high,
        sampled=SampledMean(
            queries=mean.total,
            proxies=(proxy_name or metric.proxy.name, *(f"{metric.name} by {model}" for model, _ in tiers)),
            weights=(*(scores.weights for scores in correcting[1:]), proxy.weights),
            alone=mean.alone,
            alone_low=mean.alone_interval.low,
            alone_high=mean.alone_interval.high,
        ),
    )


def in_turn(proxy: Floats, tiers: Sequence[Floats], weights: Sequence[Sequence[float]] = ()) -> tuple[ProxyScores, ...]:
    """Return all scores that correct those of the strongest judge, each corrected by those before it.

    Args:
        proxy: Scores of all queries without a judge, [N] or [N, columns].
        tiers: Those of the cheaper judges, the cheapest first, NaN where they judged nothing.
        weights: Of each of these the weights of its own correction, where they are known.
    """
    correcting = [ProxyScores.of_all(proxy.reshape(len(proxy), -1))]
    for number, scores in enumerate(tiers):
        correcting.append(completed(scores.reshape(len(proxy), -1), correcting, weights[number] if weights else None))
    return tuple(correcting)


def has_or_lacks_verdicts(score: Score) -> bool:
    """Return False for a query that no judge could score, for want of a reference answer."""
    return not isinstance(score, Unscored) or score.missing or score == NOT_DRAWN


def proxy_column(proxies: Sequence[Score]) -> Floats:
    """Return the scores of a proxy; all 0, which corrects nothing, where it does not score every query."""
    values = np.array([_number(score) for score in proxies])
    return values if np.isfinite(values).all() else np.zeros(len(values))


def judged_of_all(mean: CorrectedMean) -> tuple[float | None, float | None]:
    """Return the 95% bounds of the mean that judging all of these queries would give.

    Of the variance for all that users may ask, the part is left out that these queries have as a sample of them: n/N of
    that of judging alone. n = N leaves nothing open.
    """
    ends = (mean.interval.low, mean.alone_interval.low), (mean.interval.high, mean.alone_interval.high)
    bounds = [
        None if end is None or alone is None else _without(end - mean.value, alone - mean.alone, mean.n / mean.total)
        for end, alone in ends
    ]
    low, high = (None if reach is None else mean.value + reach for reach in bounds)
    return low, high


def _without(reach: float, alone: float, share: float) -> float:
    return float(np.sign(reach) * np.sqrt(max(0.0, reach**2 - share * alone**2)))


def _number(score: Score) -> float:
    return float("nan") if isinstance(score, Unscored | Failure) else float(score)
