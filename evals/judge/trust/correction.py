"""Correction of the judge's mean by human verdicts on a random sample of queries. Pure and seeded.

Sources: Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), prediction-powered inference, Science 382; Angelopoulos,
Duchi & Zrnic (2023), PPI++, arXiv:2311.01453, for the tuning; Zrnic (2024), arXiv:2405.18379, for the bootstrap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.golden.case import FEWEST_LABELLED
from evals.judge.trust.estimate import AT_ONCE, Estimate, Floats, finite_interval, queries
from evals.stats import intervals as stats
from evals.stats.intervals import SAME, Interval
from evals.stats.power_tuning import power_tuned

# Above this share of labelled queries that cannot be used, those that are left are no random sample.
MOST_DROPPED = 0.05


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Judged mean, with its correction by prediction-powered inference.

    Attributes:
        metric: Its name.
        raw: The mean over all judged queries.
        labels_alone: The mean of the human scores alone.
        corrected: The mean of human scores, had all queries been seen by humans; no value where it cannot be had.
        tuning: Weight of the judge's scores, 0 (labels alone) to 1.
    """

    metric: str
    raw: Estimate
    labels_alone: Estimate
    corrected: Estimate
    tuning: float | None


def human_scores(
    observations: Sequence[Observation], formula: Callable[[Sequence[int]], float]
) -> dict[str, float | Unscored]:
    """Return a judged metric by human verdicts, for every query that has any; 0 where nothing was returned.

    Args:
        observations: Results of the queries.
        formula: Verdicts in rank order to the metric, the same that the judge's verdicts go through.

    Returns:
        Unscored where a returned chunk has no human verdict.
    """
    scores: dict[str, float | Unscored] = {}
    for observation in observations:
        verdicts, returned = observation.case.human_verdicts, observation.ranked_ids
        missing = [chunk_id for chunk_id in returned if chunk_id not in verdicts]
        if verdicts and missing:
            scores[observation.case.id] = Unscored(reason=f"no human verdict on the returned chunk {missing[0]!r}")
        elif verdicts:
            scores[observation.case.id] = formula([verdicts[chunk_id] for chunk_id in returned]) if returned else 0.0
    return scores


def correct(metric: str, judged: Mapping[str, Score], human: Mapping[str, Score], seed: int) -> Correction:
    """Correct a judged mean by human scores on a random sample of its queries.

    θ = λ · mean(f over the others) + mean(y − λ · f over the labelled), with judge scores f and human scores y: what
    the judge says of queries that no human saw, less its error where one did. The labelled queries are taken out of
    the first mean, as the method supposes two independent samples. See `power_tuned` for λ. The interval is BCa
    bootstrap, labelled and other queries resampled apart and λ estimated in each: where scores crowd at 1, it covers
    92% to 96% where the normal interval of the papers covers 84% to 92%.

    Args:
        metric: Its name.
        judged: Query id to the judge's score, within 0 to 1.
        human: Query id to the same metric of human verdicts, for the labelled queries; Unscored for those whose
            verdicts do not cover all that was returned.
        seed: Seed of the resampling.

    Returns:
        Without a corrected value when fewer than 100 queries can be used, or over 5% of the labelled cannot.

    Raises:
        ValueError: A score is outside of 0 to 1.
    """
    _check(metric, judged, "judge")
    _check(metric, human, "human")
    scored = {query_id: score for query_id, score in sorted(judged.items()) if isinstance(score, float | int)}
    labels = {key: score for key, score in sorted(human.items()) if isinstance(score, float | int) and key in scored}
    raw = _mean(list(scored.values()), judged)
    alone = _mean(list(labels.values()), human)
    refused = _refusal(human, len(labels))
    if refused:
        return Correction(
            metric=metric,
            raw=raw,
            labels_alone=alone,
            corrected=Estimate(value=None, n=len(scored), n_queries=len(scored), note=refused),
            tuning=None,
        )
    y = np.array(list(labels.values()))
    f = np.array([scored[key] for key in labels])
    others = np.array([score for key, score in scored.items() if key not in labels])
    value, tuning = power_tuned(y, f, others)
    interval = _interval(y, f, others, seed) if tuning > 0 else alone.interval
    estimate = Estimate(value=min(1.0, max(0.0, float(value))), interval=interval, n=len(scored), n_queries=len(scored))
    return Correction(metric=metric, raw=raw, labels_alone=alone, corrected=estimate, tuning=float(tuning))


def _interval(y: Floats, f: Floats, others: Floats, seed: int) -> Interval:
    from scipy.stats import bootstrap

    tuning = power_tuned(y, f, others)[1]
    if max(np.ptp(y - tuning * f), np.ptp(tuning * others)) <= SAME:
        return Interval(note="not computable: people and judge never differ, and the other queries have equal scores")
    result = bootstrap(
        (np.arange(len(y)), np.arange(len(others))),
        lambda seen, unseen, axis: power_tuned(y[seen], f[seen], others[unseen])[0],
        n_resamples=stats.RESAMPLES,
        batch=max(1, AT_ONCE // (len(y) + len(others))),
        vectorized=True,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return finite_interval(max(0.0, result.low), min(1.0, result.high))


def _mean(values: Sequence[float], scores: Mapping[str, Score]) -> Estimate:
    failed = sum(isinstance(score, Failure) for score in scores.values())
    return Estimate(
        value=float(np.mean(values)) if values else None,
        interval=stats.mean_interval(values),
        n=len(values),
        n_queries=len(values),
        n_failed=failed,
        n_unscored=len(scores) - len(values) - failed,
        note="" if values else "nothing was scored",
    )


def _refusal(human: Mapping[str, Score], usable: int) -> str:
    """Return the reason why there is no correction; empty when there is one."""
    if usable < FEWEST_LABELLED:
        return f"only {queries(usable)} with human verdicts can be used, {FEWEST_LABELLED} are needed"
    dropped = len(human) - usable
    if dropped <= MOST_DROPPED * len(human):
        return ""
    reason = next((s.reason for s in human.values() if isinstance(s, Unscored)), "the judge gave no score")
    return (
        f"{dropped} of {len(human)} queries with human verdicts cannot be used ({reason}), over {MOST_DROPPED:.0%}: "
        f"those left are no random sample"
    )


def _check(metric: str, scores: Mapping[str, Score], by: str) -> None:
    for query_id, score in scores.items():
        if isinstance(score, float | int) and not -SAME <= score <= 1 + SAME:
            raise ValueError(f"{metric}: the {by} score of query {query_id!r} must lie within 0 to 1, got {score!r}")
