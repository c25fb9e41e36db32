"""Trust in a judge: its verdicts are compared with golden labels, another judge, itself and people. Pure.

The verdicts on the chunks of one query are no independent trials, since they share its wording and reference answer. So
every interval leaves out one query at a time (the jackknife; Davison & Hinkley 1997, sections 2.7.3 and 3.8).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from scipy.special import stdtrit

from evals.collect.observations import MAX_FAILED_SHARE, Failure, Observation, SampledMean, Summary, Unscored
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict, Judging, average_precision
from evals.sampling.corrected import corrected
from evals.sampling.order import judging_order
from evals.stats.intervals import FEWEST, LEVEL, SAME, Floats, Interval, Z, wilson

# (case id, chunk id) to a verdict of 1 or 0, or to its failure. It may be of a judge, of people, or a golden label.
Verdicts = Mapping[tuple[str, str], int | Failure]
Statistic = Callable[[Floats], Floats]
# Fewest queries with human verdicts for a corrected mean.
FEWEST_SEEN = 15
CORRECTED = f"{PRECISION}_corrected"
NO_VERDICT = "no verdict on a labelled chunk"
TOO_FEW = f"not computable: {{}}only {{}} queries, {FEWEST} are needed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """A verdict on a chunk that differs from the reference label: an error of the judge, or a hole in the labels.

    Attributes:
        query_id: Id of the query.
        chunk_id: Id of the chunk.
        label: The reference label. It is 1 if golden data, another judge, people or a second pass find the chunk
            useful and the judge does not; else 0.
        reason: Reason that the judge gave.
    """

    query_id: str
    chunk_id: str
    label: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Verdicts of a judge beside reference labels.

    Attributes:
        accuracy: Share of the verdicts that equal the label, 0 to 1. Its n is the number of verdicts with a label.
        kappa: Cohen's kappa, the agreement beyond chance, −1 to 1.
        disagreements: Verdicts that differ from the label. Queries with most of them come first, since one look may
            settle all of a query's. Within a query chunks labelled 1 come first, since they hold a quote to read.
    """

    accuracy: Summary
    kappa: Summary
    disagreements: tuple[Differing, ...]


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Quality of a judge; None for what a run cannot tell.

    Attributes:
        agreement: Agreement with the golden labels.
        self_agreement: Share of the verdicts that the judge repeats when it is asked twice.
        correction: Estimate of the mean context precision if people had judged all queries. It needs human verdicts.
        tiers: With `judge.second`, the agreement of the first judge with the second. Then, if human verdicts correct
            the mean, the agreement of the last judge with people. None if both judged no common chunk.
    """

    agreement: Agreement | None = None
    self_agreement: Summary | None = None
    correction: Summary | None = None
    tiers: Sequence[Agreement | None] = ()


def measure(judging: Judging, observations: Sequence[Observation], seed: int) -> Trust:
    """Compare the judge with golden labels, with another judge, with itself, and with people, if the run has them.

    Args:
        judging: Verdicts of the judge.
        observations: One observation for each query of the run.
        seed: Seed of the order of the queries.
    """
    in_scope = [o for o in observations if o.case.in_scope]
    labelled = [o for o in in_scope if o.relevance.grades or o.relevance.items]
    labels = {(o.case.id, c): int(c in o.relevance.grades) for o in labelled for c in o.ranked_ids}
    people = {(o.case.id, c): verdict for o in in_scope for c, verdict in o.case.human_verdicts.items()}
    correction = by_people(judging, in_scope, people, seed)
    truths = [_verdicts(tier) for tier in judging.tiers[1:]]
    if correction and correction.value is not None:
        truths.append(people)
    repeated = agree(judging, _verdicts(judging.again)) if judging.again else None
    return Trust(
        agreement=agree(judging, labels),
        self_agreement=replace(repeated.accuracy, metric="judge/self_agreement") if repeated else None,
        correction=correction,
        tiers=[agree(tier, truth) for tier, truth in zip(judging.tiers, truths, strict=False)],
    )


def summaries(trust: Trust) -> list[Summary]:
    """Return a summary for each statistic that the run tells: `judge/agreement`, `judge/kappa`, and so on."""
    by_labels = (trust.agreement.accuracy, trust.agreement.kappa) if trust.agreement else ()
    return list(filter(None, (*by_labels, trust.self_agreement, trust.correction)))


def agree(judging: Judging, truth: Verdicts) -> Agreement | None:
    """Compare a judge's verdicts with reference labels of the same chunks.

    Args:
        judging: Verdicts of the judge.
        truth: The reference labels. Disagreements on one query keep their order.

    Returns:
        The agreement; None without a chunk that both judged. A failure on either side cannot be compared.
    """
    common = [key for key in truth if isinstance(judging.verdicts.get(key), ChunkVerdict | Failure)]
    if not common:
        return None
    rows = {query_id: row for row, query_id in enumerate(sorted({query_id for query_id, _ in common}))}
    # [queries, verdict, label]: the numbers of chunks by verdict (1, 0, failed) and label (1, 0).
    table = np.zeros((len(rows), 3, 2))
    differing = []
    for query_id, chunk_id in common:
        verdict, label = judging.verdicts[query_id, chunk_id], truth[query_id, chunk_id]
        answer = 2  # failed
        if isinstance(verdict, ChunkVerdict) and isinstance(label, int):
            answer = 1 - verdict.verdict
            if verdict.verdict != label:
                differing.append(Differing(query_id=query_id, chunk_id=chunk_id, label=label, reason=verdict.reason))
        table[rows[query_id], answer, int(label != 1)] += 1
    counts = Counter(row.query_id for row in differing)
    return Agreement(
        accuracy=_accuracy(table),
        kappa=_kappa(table),
        disagreements=tuple(sorted(differing, key=lambda row: (-counts[row.query_id], row.query_id, row.label != 1))),
    )


def by_people(judging: Judging, observations: Sequence[Observation], people: Verdicts, seed: int) -> Summary | None:
    """Estimate the context precision if people had judged all queries, from the sample that they judged.

    The sample is the beginning of the judging order, which is random. It ends before the first query with a returned
    chunk that people did not judge. A query that returned nothing scores 0, and needs no verdict. The verdicts of a
    judge on all queries correct the mean of the sample (`evals.sampling.corrected`).

    Args:
        judging: Verdicts of the judge.
        observations: One observation for each in-scope query.
        people: Verdicts of people.
        seed: Seed of the order of the queries.

    Returns:
        The mean with the number n of judged queries, without a value if n is too small. None without human verdicts.
    """
    answered = {o.case.id: o for o in observations if (o.case.reference_answer or "").strip()}
    ordered = [answered[key] for key in judging_order((o.case for o in observations), seed) if key in answered]
    if not any(o.case.human_verdicts for o in ordered) or not any(tier.verdicts for tier in judging.tiers):
        return None
    scores = _precisions(people, ordered)
    judged = list(takewhile(lambda pair: np.isfinite(pair[1]), zip(ordered, scores[:, 0], strict=True)))
    n = max((place for place, (o, _) in enumerate(judged, 1) if o.case.human_verdicts), default=0)
    mean = Summary(metric=CORRECTED, value=None, n=n)
    if n < FEWEST_SEEN:
        first = f"people judged all that was returned for the first {n} queries of the judging order"
        return replace(mean, note=f"{first}, {FEWEST_SEEN} are needed (golden label asks in this order)")
    scores[n:] = np.nan
    sample = corrected(scores, _by_judge(judging, ordered))
    low, high, lowest, highest = (float(end[0]) for end in (*sample.interval(), *sample.of_these(1)))
    mean = replace(mean, value=float(sample.values[0]), ci_low=low, ci_high=high)
    by = SampledMean(queries=len(ordered), proxy="the judge", weight=sample.weight)
    return replace(mean, bound_low=lowest, bound_high=highest, sampled=by)


def _by_judge(judging: Judging, observations: Sequence[Observation]) -> Floats:
    """Return context precisions [queries, 1] by the strongest judge of all queries; zeros if it lacks over 5%."""
    judges_of_all = [tier for tier in judging.tiers if tier.drawn is None]
    precisions = _precisions(_verdicts(judges_of_all[-1]) if judges_of_all else {}, observations)
    is_judged = np.isfinite(precisions)
    # A few queries on which the judge failed get the mean of the others. If it lacks more, the budget has ended it in
    # the very order in which people judge: of the queries that they did not judge it would know nothing.
    if is_judged.mean() < 1 - MAX_FAILED_SHARE:
        return np.zeros_like(precisions)
    return np.where(is_judged, precisions, precisions[is_judged].mean())


def _precisions(verdicts: Verdicts, observations: Sequence[Observation]) -> Floats:
    """Return context precisions by verdicts [queries, 1]; NaN if a chunk has no verdict."""

    def precision(row: Sequence[int | Failure | None]) -> float:
        return float(average_precision(np.array([row]))[0]) if all(isinstance(cell, int) for cell in row) else np.nan

    rows = ([verdicts.get((o.case.id, chunk_id)) for chunk_id in o.selection.chunk_ids] for o in observations)
    return np.array([[precision(row)] for row in rows])


def _verdicts(judging: Judging) -> Verdicts:
    """Return the verdicts of a judge, or of its second pass, as reference labels."""
    return {
        key: answer.verdict if isinstance(answer, ChunkVerdict) else answer
        for key, answer in judging.verdicts.items()
        if not isinstance(answer, Unscored)
    }


def _accuracy(table: Floats) -> Summary:
    """Return the share of verdicts that equal the label."""
    queries = int(table[:, :2].any(axis=(1, 2)).sum())
    is_clear = _share(table[:, :2].sum(axis=0)) in (0.0, 1.0)
    few = TOO_FEW.format("", queries) if queries < FEWEST and not is_clear else ""
    return _compared("judge/agreement", _share, 0.0, table, NO_VERDICT * (not queries), few)


def _kappa(table: Floats) -> Summary:
    """Return Cohen's kappa. It has no value if all labels are the same: it would be 0 or undefined for any verdicts."""
    ones, zeros = (int(number) for number in table[:, :2].any(axis=1).sum(axis=0))
    undefined = few = ""
    if not (ones and zeros):
        undefined = f"undefined: all labels are {int(ones > 0)}" if ones or zeros else NO_VERDICT
    elif min(ones, zeros) < FEWEST:
        label, queries = (1, ones) if ones < FEWEST else (0, zeros)
        few = TOO_FEW.format(f"chunks labelled {label} in ", queries)
    return _compared("judge/kappa", cohens_kappa, -1.0, table, undefined, few)


def _compared(name: str, statistic: Statistic, lowest: float, table: Floats, undefined: str, few: str) -> Summary:
    """Return a statistic of verdicts and labels with its interval, and its bounds: all failures differ, or all agree.

    Args:
        name: Name of the metric.
        statistic: Function of tables with the numbers of verdicts 1 and 0 (rows) by label 1 and 0 (columns), shape
            (…, 2, 2).
        lowest: Lowest value of the statistic. Its highest is 1.
        table: The numbers by query, shape (queries, 3, 2). The third row has the failures.
        undefined: Reason why the statistic has no value; empty if it has one.
        few: Reason why it has no interval; empty if it has one.
    """
    counts = table[table[:, :2].any(axis=(1, 2)), :2]
    totals = counts.sum(axis=0)
    useful, useless = table[:, 2].sum(axis=0)
    failed = int(useful + useless)
    summary = Summary(metric=name, value=None, n=int(totals.sum()), n_failed=failed, note=undefined or few)
    if undefined:
        return summary
    value = float(statistic(totals))
    summary = replace(summary, value=value)
    if failed:
        # A failed verdict counts once as the opposite of its label, once as equal to it.
        worst, best = np.array([[0, useless], [useful, 0]]), np.diag([useful, useless])
        low, high = (float(statistic(totals + answers)) for answers in (worst, best))
        summary = replace(summary, bound_low=low, bound_high=high)
    if few:
        return summary
    span = 1.0 - lowest
    ends = _interval((value - lowest) / span, _jackknife(counts, statistic) / span, counts.sum(axis=(1, 2)))
    assert ends.low is not None and ends.high is not None
    return replace(summary, ci_low=lowest + span * ends.low, ci_high=lowest + span * ends.high)


def _share(counts: Floats) -> Floats:
    n = counts.sum(axis=(-2, -1))
    return np.asarray(np.divide(np.trace(counts, axis1=-2, axis2=-1), n, out=np.zeros_like(n), where=n > 0))


def _jackknife(counts: Floats, statistic: Statistic) -> float:
    """Return the standard error of a statistic of the sum of tables, one for each query."""
    queries = len(counts)
    return float(np.sqrt((queries - 1) * statistic(counts.sum(axis=0) - counts).var())) if queries > 1 else 0.0


def _interval(share: float, error: float, verdicts: Floats) -> Interval:
    """Return Wilson's interval at the number of independent trials that the verdicts are worth.

    This number is p(1−p) over the variance of p, but at most the number of verdicts, times (1.96 / t)². Here t is the
    97.5% quantile of Student's t with queries − 1 degrees of freedom (Korn & Graubard 1998 with the interval of Clopper
    and Pearson; Franco et al. 2019 with Wilson's). If p is 0 or 1, its variance is 0. Then the number is Kish's
    n² / Σ mᵢ², for mᵢ verdicts on query i. In simulations with 15 to 225 queries, the interval covers 92% to 99%.

    Args:
        share: The share p, 0 to 1.
        error: Standard error of p.
        verdicts: Number of verdicts on each query, shape (queries,).
    """
    n = float(verdicts.sum())
    if share in (0.0, 1.0):
        worth = n * n / float((verdicts**2).sum())
    else:
        worth = min(n, share * (1 - share) / error**2) if error > SAME else n
        worth *= float(Z / stdtrit(len(verdicts) - 1, (1 + LEVEL) / 2)) ** 2
    return wilson(share * worth, worth)


def cohens_kappa(counts: Floats) -> Floats:
    """Return Cohen's kappa: (o − c) / (1 − c), with the observed agreement o and the agreement by chance c.

    The agreement by chance is that of independent raters with the same margins. The value lies within −1 and 1. It is 0
    if c is 1: a table with one class alone shows no agreement beyond chance.

    Args:
        counts: How often the first rater gave the class of the row and the second the class of the column, shape
            (…, classes, classes).
    """
    n = counts.sum(axis=(-2, -1))
    chance = (counts.sum(axis=-1) * counts.sum(axis=-2)).sum(axis=-1)
    room = n * n - chance
    agreed = np.trace(counts, axis1=-2, axis2=-1)
    kappa: Floats = np.divide(n * agreed - chance, room, out=np.zeros_like(n), where=room > 0)
    return kappa
