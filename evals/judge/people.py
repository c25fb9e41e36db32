"""Correction of a judge's mean by human verdicts on a random sample of queries. Pure.

People's scores are the truth, on a sample of the queries, corrected by what foretells them of all
(`evals.sampling.corrected`): the stronger judge that was asked about every query, else the golden labels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.cases.case import FEWEST_DRAWN, FEWEST_LABELLED
from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.estimates import Estimate, Floats, queries
from evals.sampling.corrected import corrected
from evals.stats import intervals as stats

# Above this share of labelled queries that cannot be used, those that are left are no random sample.
MOST_DROPPED = 0.05


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Judged mean, with its correction by human verdicts.

    Attributes:
        metric: Its name.
        raw: The mean over all judged queries, of a cascade by the strongest judge.
        labels_alone: The mean of the human scores alone.
        corrected: The mean of human scores, had all queries been seen by humans; no value where it cannot be had.
        weight: Weight of what corrects it; None without a corrected value.
        judge: Which judge that is, by number, the cheapest first; None for the golden labels.
    """

    metric: str
    raw: Estimate
    labels_alone: Estimate
    corrected: Estimate
    weight: float | None = None
    judge: int | None = None


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


def correct(
    metric: str,
    order: Sequence[str],
    judged: Sequence[Mapping[str, Score]],
    human: Mapping[str, Score],
    labels: Mapping[str, float],
) -> Correction:
    """Correct a judged mean by human scores on a random sample of its queries.

    The human queries are taken for a random sample if they are a beginning of the judging order, which nobody can have
    chosen; a last one whose verdicts are not complete does not count. Otherwise they must be 100, as somebody says that
    they were drawn.

    Args:
        metric: Its name.
        order: Ids of all queries that the mean stands for, in the judging order.
        judged: For each judge, the cheapest first, the scores by query id, within 0 to 1, of those that it was asked
            about.
        human: The same metric of human verdicts, for the labelled queries; Unscored for those whose verdicts do not
            cover all that was returned.
        labels: The same by golden labels; empty where these say something else of the labelled queries than of others.

    Returns:
        Without a corrected value when too few queries can be used, or over 5% of the labelled cannot.
    """
    people = _without_an_unfinished_end({key: human[key] for key in order if key in human})
    usable = {key: float(score) for key, score in people.items() if isinstance(score, float | int)}
    strongest = judged[-1]
    raw = _mean([score for key in order if isinstance(score := strongest.get(key), float | int)], strongest)
    alone = _mean(list(usable.values()), human)
    if refused := _refusal(people, len(usable), of_order=_is_beginning(people, order)):
        nothing = Estimate(value=None, n=len(order), n_queries=len(order), note=refused)
        return Correction(metric=metric, raw=raw, labels_alone=alone, corrected=nothing)
    by_labels = _column(labels, order)
    asked = [number for number, scores in enumerate(judged) if scores.keys() >= set(order)]
    judge = asked[-1] if asked else None
    proxy = by_labels if judge is None else _completed(_column(judged[judge], order), by_labels)
    sample = corrected(_column(usable, order), proxy)
    low, high = sample.interval()
    estimate = Estimate(
        value=float(np.clip(sample.means[0], 0.0, 1.0)),
        interval=stats.Interval(low=float(low[0]), high=float(high[0])),
        n=len(usable),
        n_queries=len(usable),
    )
    return Correction(metric=metric, raw=raw, labels_alone=alone, corrected=estimate, weight=sample.weight, judge=judge)


def _without_an_unfinished_end(human: Mapping[str, Score]) -> dict[str, Score]:
    """Leave out what people have not come to the end of: the last queries, as long as they have no score."""
    ids = list(human)
    while ids and not isinstance(human[ids[-1]], float | int):
        ids.pop()
    return {key: human[key] for key in ids}


def _is_beginning(case_ids: Mapping[str, Score], order: Sequence[str]) -> bool:
    """Return True if queries are the first of the order, but for 5% or a single one that is missing among them."""
    last = max((rank for rank, key in enumerate(order, 1) if key in case_ids), default=0)
    missing = last - len(case_ids)
    return 0 <= missing <= max(1.0, MOST_DROPPED * last)


def _column(scores: Mapping[str, Score], order: Sequence[str]) -> Floats:
    """Return scores [queries, 1], NaN where there is none."""
    given = [scores.get(key) for key in order]
    return np.array([[score if isinstance(score, float | int) else np.nan] for score in given])


def _completed(judged: Floats, by_labels: Floats) -> Floats:
    """Return scores with those by labels where the judge failed, and without labels its mean."""
    mean = judged[np.isfinite(judged)].mean() if np.isfinite(judged).any() else 0.0
    return np.where(np.isfinite(judged), judged, np.where(np.isfinite(by_labels), by_labels, mean))


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


def _refusal(human: Mapping[str, Score], usable: int, *, of_order: bool) -> str:
    """Return the reason why there is no correction; empty when there is one."""
    fewest = FEWEST_DRAWN if of_order else FEWEST_LABELLED
    if usable < fewest:
        chosen = (
            ""
            if of_order
            else (
                f" where they are not the first of the judging order (golden label offers these, of which "
                f"{FEWEST_DRAWN} are enough)"
            )
        )
        return f"only {queries(usable)} with human verdicts can be used, {fewest} are needed{chosen}"
    dropped = len(human) - usable
    if dropped <= max(1.0, MOST_DROPPED * len(human)):
        return ""
    reason = next((score.reason for score in human.values() if isinstance(score, Unscored)), "")
    return (
        f"{dropped} of {len(human)} queries with human verdicts cannot be used ({reason}), over {MOST_DROPPED:.0%}: "
        f"those left are no random sample"
    )
