"""Trust in a run's judge: its verdicts against golden labels, another judge, itself and people. Pure.

The verdicts on one query's chunks share its wording and its reference answer: they are no independent trials. So every
interval leaves out whole queries, one at a time (the jackknife; Davison & Hinkley 1997, sections 2.7.3 and 3.8).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# Above this share of labelled queries that cannot be used, those that are left are no random sample.
MOST_DROPPED = 0.05
TOO_FEW = f"not computable: {{}}only {{}} queries, {FEWEST} are needed"
NOT_FIRST = " where they are not the first of the judging order (golden label offers these)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A judge's verdict on one chunk, and what else is said of it.

    Attributes:
        verdict: 1 when the judge finds the chunk useful, else 0; or why there is no verdict.
        label: The same by the golden data, by another judge, by people, or by a second pass.
        reason: The judge's.
    """

    query_id: str
    chunk_id: str
    verdict: int | Failure
    label: int | Failure
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Verdicts against labels.

    Attributes:
        n_verdicts: Number of verdicts that could be compared.
        accuracy: Share of the verdicts that equal the label.
        kappa: Cohen's: agreement beyond chance, −1 to 1.
        disagreements: Differences of verdict and label, the most telling first: the queries with the most, as one
            look may settle those together; within a query chunks labelled 1 first (the quote is there to be read),
            then in the order given.
    """

    n_verdicts: int
    accuracy: Summary
    kappa: Summary
    disagreements: tuple[Pair, ...]


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
    again = agree(pairs(judging, _said(judging.again))) if judging.again else None
    return Trust(
        agreement=agree(pairs(judging, labels)),
        self_agreement=replace(again.accuracy, metric="judge/self_agreement") if again else None,
        corrections=[correction] if correction else [],
        tiers=[agree(pairs(tier, truth)) for tier, truth in zip(judging.tiers, truths, strict=False)],
    )


def summaries(trust: Trust) -> list[Summary]:
    """Return one summary a statistic: `judge/agreement` (accuracy), `judge/kappa` and so on, `<metric>_corrected`."""
    agreement = trust.agreement
    known = [agreement.accuracy, agreement.kappa] if agreement else []
    known += [trust.self_agreement] if trust.self_agreement else []
    return [*known, *(each.corrected for each in trust.corrections)]


def pairs(judging: Judging, truth: Said) -> list[Pair]:
    """Pair a judge's verdicts with what else is said of the same chunks, in the order of that."""
    return [
        Pair(
            query_id=key[0],
            chunk_id=key[1],
            verdict=answer.verdict if isinstance(answer, ChunkVerdict) else answer,
            label=label,
            reason=answer.reason if isinstance(answer, ChunkVerdict) else "",
        )
        for key, label in truth.items()
        if isinstance(answer := judging.verdicts.get(key), ChunkVerdict | Failure)
    ]


def agree(rows: Sequence[Pair]) -> Agreement | None:
    """Compare verdicts with labels; None where there are none.

    Args:
        rows: Rows in rank order within a query; a failure in either leaves nothing to compare.
    """
    if not rows:
        return None
    ids, places = np.unique([row.query_id for row in rows], return_inverse=True)
    table = np.zeros((len(ids), 7))
    np.add.at(table, (places, np.array([_column(row) for row in rows])), 1.0)
    hit, over, missed, rejected, lost_1, lost_0, lost = table.T
    differing = [row for row in rows if {row.verdict, row.label} == {0, 1}]
    counts = Counter(row.query_id for row in differing)
    return Agreement(
        n_verdicts=int(table[:, :4].sum()),
        accuracy=_accuracy(hit + rejected, over + missed, lost_1 + lost_0 + lost),
        kappa=_kappa(table[:, :4], table[:, 4:6].sum(axis=0)),
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
        return np.array([[average_precision(list(_numbers(said, o)))] for o in every])

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
    value = float(np.clip(sample.means[0], 0.0, 1.0))
    corrected_mean = replace(mean, value=value, ci_low=low, ci_high=high)
    return Correction(metric=PRECISION, corrected=corrected_mean, weight=sample.weight, judge=judge)


def _numbers(said: Said, observation: Observation) -> Iterator[float]:
    """Yield the verdicts on what a query returned, NaN where there is none."""
    for chunk_id in observation.selection.chunk_ids:
        verdict = said.get((observation.case.id, chunk_id))
        yield verdict if isinstance(verdict, int) else np.nan


def _said(judging: Judging) -> Said:
    """Return the verdicts of a judge, or a pass, as what another is held against."""
    return {
        key: answer.verdict if isinstance(answer, ChunkVerdict) else answer
        for key, answer in judging.verdicts.items()
        if not isinstance(answer, Unscored)
    }


def _column(row: Pair) -> int:
    """Return a row's place: verdict and label 1 1, 1 0, 0 1, 0 0; failed with label 1, with label 0; label failed."""
    if isinstance(row.label, Failure):
        return 6
    return 5 - row.label if isinstance(row.verdict, Failure) else 3 - 2 * row.verdict - row.label


def _accuracy(right: Floats, wrong: Floats, lost: Floats) -> Summary:
    """Return the share of verdicts that are right, Σ right / Σ (right + wrong), each a number a query."""
    counts, failed = np.stack([right, right + wrong], axis=1)[right + wrong > 0], lost.sum()
    hits, n = counts.sum(axis=0)
    note = "" if n else "no verdict on a labelled chunk"
    summary = Summary(metric="judge/agreement", value=None, n=int(n), n_failed=int(failed), note=note)
    if failed:
        summary = replace(summary, bound_low=hits / (n + failed), bound_high=(hits + failed) / (n + failed))
    if not n:
        return summary
    summary = replace(summary, value=hits / n)
    if hits not in (0, n) and len(counts) < FEWEST:
        return replace(summary, note=TOO_FEW.format("", len(counts)))
    error = _jackknife(counts, lambda totals: totals[:, 0] / totals[:, 1])
    ends = _interval(hits / n, error, counts[:, 1])
    return replace(summary, ci_low=ends.low, ci_high=ends.high)


def _kappa(table: Floats, lost: Floats) -> Summary:
    """Return Cohen's kappa, and its bounds if all failed verdicts had disagreed or agreed.

    Where all labels are the same, kappa is 0 or undefined for any verdicts: then there is no value.

    Args:
        table: For each query how often verdict and label are 1 and 1, 1 and 0, 0 and 1, 0 and 0, (queries, 4).
        lost: How many more verdicts there would be with label 1 and label 0.
    """
    table = table[table.any(axis=1)]
    totals = table.sum(axis=0)
    summary = Summary(metric="judge/kappa", value=None, n=int(totals.sum()), n_failed=int(lost.sum()))
    # By label, the queries that have it.
    holding = {label: int((table[:, 1 - label] + table[:, 3 - label] > 0).sum()) for label in (1, 0)}
    fewest = next((label for label, queries in holding.items() if queries < FEWEST), 0)
    if 0 in holding.values():
        none = "no verdict on a labelled chunk"
        return replace(summary, note=f"undefined: all labels are {int(holding[1] > 0)}" if len(table) else none)
    if lost.any():
        # A failed verdict counts once as the opposite of its label, once as equal to it.
        worst, best = np.array([0, lost[1], lost[0], 0]), np.array([lost[0], 0, 0, lost[1]])
        low, high = (float(_kappa_of(totals + each)) for each in (worst, best))
        summary = replace(summary, bound_low=low, bound_high=high)
    summary = replace(summary, value=float(_kappa_of(totals)))
    if holding[fewest] < FEWEST:
        return replace(summary, note=TOO_FEW.format(f"chunks labelled {fewest} in ", holding[fewest]))
    # As a share, which has a bound at 1 as kappa has.
    ends = _interval((1 + float(_kappa_of(totals))) / 2, _jackknife(table, _kappa_of) / 2, table.sum(axis=1))
    assert ends.low is not None and ends.high is not None
    return replace(summary, ci_low=2 * ends.low - 1, ci_high=2 * ends.high - 1)


def _kappa_of(counts: Floats) -> Floats:
    return cohens_kappa(counts.reshape(*counts.shape[:-1], 2, 2))


def _jackknife(rows: Floats, statistic: Callable[[Floats], Floats]) -> float:
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
