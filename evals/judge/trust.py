"""Trust in a run's judge: its verdicts against golden labels, another judge, itself and people. Pure.

The verdicts on one query's chunks share its wording and its reference answer: they are no independent trials. So every
interval leaves out whole queries, one at a time (the jackknife; Davison & Hinkley 1997, sections 2.7.3 and 3.8).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from evals.cases.case import FEWEST_DRAWN, FEWEST_LABELLED
from evals.collect.observations import Failure, Observation, Summary, Unscored
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict, Judging, average_precision
from evals.sampling.corrected import corrected
from evals.sampling.order import judging_order
from evals.stats.intervals import FEWEST, LEVEL, SAME, Floats, Interval, Z, wilson
from evals.stats.kappa import cohens_kappa

# (case id, chunk id) to a verdict, or why there is none.
Said = Mapping[tuple[str, str], int | Failure]
Statistic = Callable[[Floats], Floats]
# Above this share of labelled queries that cannot be used, those that are left are no random sample.
MOST_DROPPED = 0.05
TOO_FEW = f"not computable: {{}}only {{}} queries, {FEWEST} are needed"
NOT_FIRST = " where they are not the first of the judging order (golden label offers these)"


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
        accuracy: Share of the verdicts that equal the label.
        kappa: Cohen's: agreement beyond chance, −1 to 1.
        disagreements: Differences of verdict and label, the most telling first: the queries with the most, as one
            look may settle those together; within a query chunks labelled 1 first (the quote is there to be read),
            then in the order given.
    """

    accuracy: Summary
    kappa: Summary
    disagreements: tuple[Differing, ...]

    @property
    def n_verdicts(self) -> int:
        """Number of verdicts that could be compared."""
        return self.accuracy.n


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Mean of a judged metric by people.

    Attributes:
        metric: Its name.
        corrected: The mean had people seen all queries, n of which they have; no value where it cannot be had.
        weight: Weight of what corrects it; None without a value.
        judge: Which judge that is, by number, the cheapest first; None for the golden labels.
    """

    metric: str
    corrected: Summary
    weight: float | None = None
    judge: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Quality of a judge; None for statistics that the settings do not ask for.

    Attributes:
        agreement: Agreement with the golden labels.
        self_agreement: Agreement with itself.
        corrections: Judged means by people, where any query has human verdicts.
        tiers: With `judge.second`, the agreement of the first judge with the second, and where people's verdicts
            correct the mean, of the last judge with people; None where no chunk was judged by both.
    """

    agreement: Agreement | None = None
    self_agreement: Summary | None = None
    corrections: Sequence[Correction] = ()
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
    people = {(o.case.id, c): said for o in inside for c, said in o.case.human_verdicts.items()}
    correction = by_people(judging, inside, people, labels, seed)
    truths = [_said(tier) for tier in judging.tiers[1:]]
    if correction and correction.weight is not None:
        truths.append(people)
    again = agree(judging, _said(judging.again)) if judging.again else None
    return Trust(
        agreement=agree(judging, labels),
        self_agreement=replace(again.accuracy, metric="judge/self_agreement") if again else None,
        corrections=[correction] if correction else [],
        tiers=[agree(tier, truth) for tier, truth in zip(judging.tiers, truths, strict=False)],
    )


def summaries(trust: Trust) -> list[Summary]:
    """Return one summary a statistic: `judge/agreement` (accuracy), `judge/kappa` and so on, `<metric>_corrected`."""
    measured = [trust.agreement.accuracy, trust.agreement.kappa] if trust.agreement else []
    measured += [trust.self_agreement] if trust.self_agreement else []
    return [*measured, *(each.corrected for each in trust.corrections)]


def agree(judging: Judging, truth: Said) -> Agreement | None:
    """Compare a judge's verdicts with reference labels of the same chunks; None without a common chunk.

    A failure in either leaves nothing to compare. Differences keep the order of `truth` within a query.
    """
    said = ((key, judging.verdicts.get(key), label) for key, label in truth.items())
    rows = [(key, verdict, label) for key, verdict, label in said if isinstance(verdict, ChunkVerdict | Failure)]
    if not rows:
        return None
    ids, places = np.unique([query_id for (query_id, _), *_ in rows], return_inverse=True)
    # For each query how often verdict and label are 1 1, 1 0, 0 1, 0 0, and how often one failed at label 1, label 0.
    table = np.zeros((len(ids), 6))
    np.add.at(table, (places, np.array([_column(verdict, label) for _, verdict, label in rows])), 1.0)
    differing = [
        Differing(query_id=key[0], chunk_id=key[1], label=label, reason=verdict.reason)
        for key, verdict, label in rows
        if isinstance(verdict, ChunkVerdict) and isinstance(label, int) and verdict.verdict != label
    ]
    counts = Counter(row.query_id for row in differing)
    return Agreement(
        accuracy=_accuracy(table[:, :4], table[:, 4:].sum(axis=0)),
        kappa=_kappa(table[:, :4], table[:, 4:].sum(axis=0)),
        disagreements=tuple(sorted(differing, key=lambda row: (-counts[row.query_id], row.query_id, row.label != 1))),
    )


def by_people(
    judging: Judging, observations: Sequence[Observation], people: Said, labels: Said, seed: int
) -> Correction | None:
    """Return context precision by people, who saw a random sample of the queries; None where they saw none.

    What foretells people of all queries corrects their mean (`evals.sampling.corrected`): the strongest judge that was
    asked about every one, else the golden labels. Their queries are taken for a random sample if they are a beginning
    of the judging order, which nobody can have chosen; a last one whose verdicts are not complete does not count.
    Otherwise they must be 100, as somebody says that they were drawn.

    Args:
        judging: Verdicts of the judge.
        observations: One for each in-scope query.
        people: Verdicts of people.
        labels: What golden labels say of the chunks that were returned.
        seed: Seed of the order of the queries.
    """
    answered = {o.case.id: o for o in observations if (o.case.reference_answer or "").strip()}
    every = [answered[key] for key in judging_order((o.case for o in observations), seed) if key in answered]
    seen = np.array([bool(o.case.human_verdicts) for o in every])
    if not seen.any() or not any(tier.verdicts for tier in judging.tiers):
        return None

    def precision(said: Said) -> Floats:
        """Return the scores [queries, 1], NaN where a chunk has no verdict."""
        rows = ([said.get((o.case.id, chunk_id)) for chunk_id in o.selection.chunk_ids] for o in every)
        return np.array([[average_precision([v if isinstance(v, int) else np.nan for v in row])] for row in rows])

    own = np.where(seen[:, None], precision(people), np.nan)
    usable = np.flatnonzero(np.isfinite(own))
    last = int(usable.max(initial=-1)) + 1
    n, asked = len(usable), int(seen[:last].sum())
    of_order = last - asked <= max(1.0, MOST_DROPPED * last)
    fewest = FEWEST_DRAWN if of_order else FEWEST_LABELLED
    mean = Summary(metric=f"{PRECISION}_corrected", value=None, n=n)
    if n < fewest or asked - n > max(1.0, MOST_DROPPED * asked):
        needed = f"{fewest} are needed{'' if of_order else NOT_FIRST}"
        why = f"{n} of {asked} queries with human verdicts on all that was returned, {needed}"
        return Correction(metric=PRECISION, corrected=replace(mean, note=why))
    # Where some queries have people's labels as evidence, or none, labels say more of some than of others.
    alike = len({(o.case.labelling is not None, o.case.is_unlabelled) for o in every}) == 1
    proxy = precision(labels if alike else {})
    judge = max((number for number, tier in enumerate(judging.tiers) if tier.drawn is None), default=None)
    if judge is not None:
        by_judge = precision(_said(judging.tiers[judge]))
        known = by_judge[np.isfinite(by_judge)]
        # What it failed on is as the labels say, or else as the others.
        others = np.where(np.isfinite(proxy), proxy, known.mean() if len(known) else 0.0)
        proxy = np.where(np.isfinite(by_judge), by_judge, others)
    sample = corrected(own, proxy)
    low, high = (float(end[0]) for end in sample.interval())
    corrected_mean = replace(mean, value=float(np.clip(sample.means[0], 0.0, 1.0)), ci_low=low, ci_high=high)
    return Correction(metric=PRECISION, corrected=corrected_mean, weight=sample.weight, judge=judge)


def _said(judging: Judging) -> Said:
    """Return the verdicts of a judge, or a pass, as what another is held against."""
    return {
        key: answer.verdict if isinstance(answer, ChunkVerdict) else answer
        for key, answer in judging.verdicts.items()
        if not isinstance(answer, Unscored)
    }


def _column(verdict: ChunkVerdict | Failure, label: int | Failure) -> int:
    if isinstance(verdict, Failure) or isinstance(label, Failure):
        return 4 if label == 1 else 5
    return 3 - 2 * verdict.verdict - label


def _accuracy(table: Floats, lost: Floats) -> Summary:
    """Return the share of verdicts that equal the label."""
    queries = int(table.any(axis=1).sum())
    none = "no verdict on a labelled chunk" if not queries else ""
    is_clear = _share_of(table.sum(axis=0)) in (0.0, 1.0)
    few = TOO_FEW.format("", queries) if queries < FEWEST and not is_clear else ""
    return _compared("judge/agreement", _share_of, 0.0, table, lost, (none, few))


def _kappa(table: Floats, lost: Floats) -> Summary:
    """Return Cohen's kappa. Where all labels are the same, it is 0 or undefined for any verdicts: it has no value."""
    # By label, the queries that have it.
    holding = {label: int((table[:, 1 - label] + table[:, 3 - label] > 0).sum()) for label in (1, 0)}
    none = "no verdict on a labelled chunk"
    if any(holding.values()):
        none = "" if all(holding.values()) else f"undefined: all labels are {int(holding[1] > 0)}"
    fewest = next((label for label, queries in holding.items() if queries < FEWEST), None)
    few = "" if fewest is None else TOO_FEW.format(f"chunks labelled {fewest} in ", holding[fewest])
    return _compared("judge/kappa", _kappa_of, -1.0, table, lost, (none, few))


def _compared(
    name: str, statistic: Statistic, lowest: float, table: Floats, lost: Floats, without: tuple[str, str]
) -> Summary:
    """Return a statistic of verdicts and labels, its interval, and its bounds if all failures had differed or agreed.

    Args:
        name: Name of the metric.
        statistic: Of numbers of verdict and label 1 1, 1 0, 0 1, 0 0, shape (…, 4).
        lowest: Least value of the statistic, whose highest is 1.
        table: These numbers by query, shape (queries, 4).
        lost: How many more verdicts there would be with label 1 and label 0.
        without: Why it has no value, and why no interval; empty where it has.
    """
    undefined, few = without
    totals, table = table.sum(axis=0), table[table.any(axis=1)]
    summary = Summary(metric=name, value=None, n=int(totals.sum()), n_failed=int(lost.sum()), note=undefined or few)
    if undefined:
        return summary
    value = float(statistic(totals))
    summary = replace(summary, value=value)
    if lost.any():
        # A failed verdict counts once as the opposite of its label, once as equal to it.
        worst, best = np.array([0, lost[1], lost[0], 0]), np.array([lost[0], 0, 0, lost[1]])
        low, high = (float(statistic(totals + each)) for each in (worst, best))
        summary = replace(summary, bound_low=low, bound_high=high)
    if few:
        return summary
    span = 1.0 - lowest
    ends = _interval((value - lowest) / span, _jackknife(table, statistic) / span, table.sum(axis=1))
    assert ends.low is not None and ends.high is not None
    return replace(summary, ci_low=lowest + span * ends.low, ci_high=lowest + span * ends.high)


def _share_of(counts: Floats) -> Floats:
    n = counts.sum(axis=-1)
    share: Floats = np.divide(counts[..., 0] + counts[..., 3], n, out=np.zeros_like(n), where=n > 0)
    return share


def _kappa_of(counts: Floats) -> Floats:
    return cohens_kappa(counts.reshape(*counts.shape[:-1], 2, 2))


def _jackknife(rows: Floats, statistic: Statistic) -> float:
    """Return the standard error of a statistic of the total of rows, one a query."""
    return float(np.sqrt((len(rows) - 1) * statistic(rows.sum(axis=0) - rows).var())) if len(rows) > 1 else 0.0


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
