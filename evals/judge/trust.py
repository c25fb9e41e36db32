"""Trust in a run's judge: its verdicts against golden labels, another judge, itself and people. Pure.

The verdicts on one query's chunks share its wording and its reference answer: they are no independent trials. So every
interval leaves out whole queries, one at a time (the jackknife; Davison & Hinkley 1997, sections 2.7.3 and 3.8).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from scipy.special import stdtrit

from evals.collect.observations import Failure, Observation, Summary, Unscored
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict, Judging, average_precision
from evals.sampling.corrected import corrected
from evals.sampling.order import judging_order
from evals.stats.intervals import FEWEST, LEVEL, SAME, Floats, Interval, Z, wilson

# (case id, chunk id) to 1 or 0, or why there is no verdict: of a judge, of people, or by golden labels.
Verdicts = Mapping[tuple[str, str], int | Failure]
Statistic = Callable[[Floats], Floats]
# Queries with human verdicts that a corrected mean needs.
FEWEST_SEEN = 15
CORRECTED = f"{PRECISION}_corrected"
NO_VERDICT = "no verdict on a labelled chunk"
TOO_FEW = f"not computable: {{}}only {{}} queries, {FEWEST} are needed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """A judge's verdict on one chunk that differs from the reference label: its error, or a hole in the labels.

    Attributes:
        query_id: The query.
        chunk_id: The chunk.
        label: 1 when it is useful by the golden data, another judge, people, or a second pass, and useless to the
            judge; else 0.
        reason: The judge's.
    """

    query_id: str
    chunk_id: str
    label: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Verdicts against labels.

    Attributes:
        accuracy: Share of the verdicts that equal the label; its n is the number that could be compared.
        kappa: Cohen's: agreement beyond chance, −1 to 1.
        disagreements: Differences of verdict and label, the most telling first: the queries with the most, as one
            look may settle those together; within a query chunks labelled 1 first (the quote is there to be read),
            then in the order given.
    """

    accuracy: Summary
    kappa: Summary
    disagreements: tuple[Differing, ...]


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Quality of a judge; None for what the run does not tell.

    Attributes:
        agreement: Agreement with the golden labels.
        self_agreement: Share of its verdicts that it repeats, where it was asked twice.
        correction: Mean context precision had people seen all queries, where any query has their verdicts.
        tiers: With `judge.second`, the agreement of the first judge with the second, and where people's verdicts
            correct the mean, of the last judge with people; None where no chunk was judged by both.
    """

    agreement: Agreement | None = None
    self_agreement: Summary | None = None
    correction: Summary | None = None
    tiers: Sequence[Agreement | None] = ()


def measure(judging: Judging, observations: Sequence[Observation], seed: int) -> Trust:
    """Compare the judge with golden labels, with another judge, with itself, and with people, as far as there are any.

    Args:
        judging: Verdicts of the judge.
        observations: One for each query of the run.
        seed: Seed of the order of the queries.
    """
    inside = [o for o in observations if o.case.in_scope]
    labelled = [o for o in inside if o.relevance.grades or o.relevance.items]
    labels = {(o.case.id, c): int(c in o.relevance.grades) for o in labelled for c in o.ranked_ids}
    people = {(o.case.id, c): verdict for o in inside for c, verdict in o.case.human_verdicts.items()}
    correction = by_people(judging, inside, people, seed)
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
    """Return one summary a statistic: `judge/agreement` (accuracy), `judge/kappa` and so on, `<metric>_corrected`."""
    by_labels = (trust.agreement.accuracy, trust.agreement.kappa) if trust.agreement else ()
    return list(filter(None, (*by_labels, trust.self_agreement, trust.correction)))


def agree(judging: Judging, truth: Verdicts) -> Agreement | None:
    """Compare a judge's verdicts with reference labels of the same chunks; None without a common chunk.

    A failure in either leaves nothing to compare. Differences keep the order of `truth` within a query.
    """
    common = [key for key in truth if isinstance(judging.verdicts.get(key), ChunkVerdict | Failure)]
    if not common:
        return None
    rows = {query_id: row for row, query_id in enumerate(sorted({query_id for query_id, _ in common}))}
    # How often each query's verdict is 1, 0 or failed, where the label is 1 or 0.
    table = np.zeros((len(rows), 3, 2))
    differing = []
    for query_id, chunk_id in common:
        verdict, label = judging.verdicts[query_id, chunk_id], truth[query_id, chunk_id]
        answer = 2
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
    """Return context precision by people, who saw a random sample of the queries; None where they saw none.

    That sample is the beginning of the judging order, which nobody can have chosen, up to the first query with a
    returned chunk that people did not judge; one that returned nothing needs no verdict, and is 0. A judge of all
    queries corrects their mean (`evals.sampling.corrected`).

    Args:
        judging: Verdicts of the judge.
        observations: One for each in-scope query.
        people: Verdicts of people.
        seed: Seed of the order of the queries.

    Returns:
        The mean had people seen all queries, n of which they have; without a value where it cannot be had.
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
    sample = corrected(scores, _foretold(judging, ordered))
    low, high = (float(end[0]) for end in sample.interval())
    return replace(mean, value=float(np.clip(sample.means[0], 0.0, 1.0)), ci_low=low, ci_high=high)


def _foretold(judging: Judging, observations: Sequence[Observation]) -> Floats:
    """Return the precisions [queries, 1] of the strongest judge that was asked about all; the same of all without."""
    asked_all = [tier for tier in judging.tiers if tier.drawn is None]
    by_judge = _precisions(_verdicts(asked_all[-1]) if asked_all else {}, observations)
    is_judged = np.isfinite(by_judge)
    # What it failed on is as the others.
    return np.where(is_judged, by_judge, by_judge[is_judged].mean() if is_judged.any() else 0.0)


def _precisions(verdicts: Verdicts, observations: Sequence[Observation]) -> Floats:
    """Return context precision by verdicts [queries, 1], NaN where a chunk has none."""

    def precision(row: Sequence[int | Failure | None]) -> float:
        return float(average_precision(np.array([row]))[0]) if all(isinstance(one, int) for one in row) else np.nan

    rows = ([verdicts.get((o.case.id, chunk_id)) for chunk_id in o.selection.chunk_ids] for o in observations)
    return np.array([[precision(row)] for row in rows])


def _verdicts(judging: Judging) -> Verdicts:
    """Return the verdicts of a judge, or a pass, as what another is held against."""
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
    """Return Cohen's kappa. Where all labels are the same, it is 0 or undefined for any verdicts: it has no value."""
    ones, zeros = (int(number) for number in table[:, :2].any(axis=1).sum(axis=0))
    undefined = few = ""
    if not (ones and zeros):
        undefined = f"undefined: all labels are {int(ones > 0)}" if ones or zeros else NO_VERDICT
    elif min(ones, zeros) < FEWEST:
        label, queries = (1, ones) if ones < FEWEST else (0, zeros)
        few = TOO_FEW.format(f"chunks labelled {label} in ", queries)
    return _compared("judge/kappa", cohens_kappa, -1.0, table, undefined, few)


def _compared(name: str, statistic: Statistic, lowest: float, table: Floats, undefined: str, few: str) -> Summary:
    """Return a statistic of verdicts and labels, its interval, and its bounds if all failures had differed or agreed.

    Args:
        name: Name of the metric.
        statistic: Of numbers of verdicts 1 and 0 (rows) at labels 1 and 0 (columns), shape (…, 2, 2).
        lowest: Least value of the statistic, whose highest is 1.
        table: These numbers by query, and in a third row those of failures, shape (queries, 3, 2).
        undefined: Why it has no value; empty where it has.
        few: Why it has no interval, likewise.
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
    """Return the standard error of a statistic of the total of tables, one a query."""
    queries = len(counts)
    return float(np.sqrt((queries - 1) * statistic(counts.sum(axis=0) - counts).var())) if queries > 1 else 0.0


def _interval(share: float, error: float, verdicts: Floats) -> Interval:
    """Return Wilson's interval at the number of independent trials that the verdicts on each query are worth.

    That is p(1−p) over the variance of p, at most their number, times (1.96 / t)², t the 97.5% quantile of Student's t
    with queries − 1 degrees of freedom (Korn & Graubard 1998, there with Clopper and Pearson's interval; Franco et al.
    2019 with Wilson's). Where p is 0 or 1 it does not vary: then n² / Σ mᵢ² of the mᵢ verdicts on each query, Kish's
    number of trials when the verdicts on a query are all one. In simulations (15 to 225 queries) it covers 92% to 99%.
    """
    n = float(verdicts.sum())
    if share in (0.0, 1.0):
        worth = n * n / float((verdicts**2).sum())
    else:
        worth = min(n, share * (1 - share) / error**2) if error > SAME else n
        worth *= float(Z / stdtrit(len(verdicts) - 1, (1 + LEVEL) / 2)) ** 2
    return wilson(share * worth, worth)


def cohens_kappa(counts: Floats) -> Floats:
    """Return Cohen's kappa: (o − c) / (1 − c), o the observed agreement, c that of chance.

    Agreement by chance is that of independent raters with the same margins. The value lies within −1 and 1; it is 0
    where c is 1, as when a resample holds one class alone, which shows no agreement beyond chance.

    Args:
        counts: How often the first rater gave the class of the row and the second that of the column,
            (…, classes, classes).
    """
    n = counts.sum(axis=(-2, -1))
    chance = (counts.sum(axis=-1) * counts.sum(axis=-2)).sum(axis=-1)
    room = n * n - chance
    agreed = np.trace(counts, axis1=-2, axis2=-1)
    kappa: Floats = np.divide(n * agreed - chance, room, out=np.zeros_like(n), where=room > 0)
    return kappa
