"""Trust in a run's judge: its verdicts against golden labels, another judge, itself and people. Pure and seeded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.collect.observations import Failure, Observation, Summary, Unscored
from evals.judge.estimates import Estimate, by_query, estimate_kappa, share
from evals.judge.people import Correction, correct, human_scores
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict, Judging, average_precision, context_precision
from evals.sampling.order import judging_order

Key = tuple[str, str]


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
        n_queries: Over how many queries; `n_verdicts`, over how many verdicts.
        accuracy: Share of the verdicts that equal the label.
        kappa: Cohen's: agreement beyond chance, −1 to 1.
        false_useful: Share of verdict 1 among label 0.
        false_useless: Share of verdict 0 among label 1.
        disagreements: Differences of verdict and label, the most telling first: the queries with the most, as one
            look may settle those together; within a query chunks labelled 1 first (the quote is there to be read),
            then in the order given.
    """

    n_queries: int
    n_verdicts: int
    accuracy: Estimate
    kappa: Estimate
    false_useful: Estimate
    false_useless: Estimate
    disagreements: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Quality of a judge; None for statistics that the settings do not ask for.

    Attributes:
        agreement: Agreement with the golden labels.
        self_agreement: Agreement with itself.
        corrections: Judged means beside what human verdicts make of them.
        tiers: With `judge.second`, the agreement of the first judge with the second, and where people's verdicts
            correct the mean, of the last judge with people; None where no chunk was judged by both.
    """

    agreement: Agreement | None = None
    self_agreement: Estimate | None = None
    corrections: Sequence[Correction] = ()
    tiers: Sequence[Agreement | None] = ()


def measure(judging: Judging, observations: Sequence[Observation], seed: int) -> Trust:
    """Compare the judge with golden labels, with another judge, with itself, and with people, as far as there are any.

    Args:
        judging: Verdicts of the judge.
        observations: One for each query of the run.
        seed: Seed of all resampling.
    """
    inside = [o for o in observations if o.case.in_scope]
    corrections = _corrections(judging, inside, seed)
    truths = [_said(tier) for tier in judging.tiers[1:]]
    if any(correction.weight is not None for correction in corrections):
        truths.append({(o.case.id, chunk): said for o in inside for chunk, said in o.case.human_verdicts.items()})
    with_labels = pairs(judging, _labels(inside))
    return Trust(
        agreement=agree(with_labels, seed) if with_labels else None,
        self_agreement=self_agreement(pairs(judging, _said(judging.again)), seed) if judging.again else None,
        corrections=corrections,
        tiers=tuple(
            agree(rows, seed) if (rows := pairs(tier, truth)) else None
            for tier, truth in zip(judging.tiers, truths, strict=False)
        ),
    )


def pairs(judging: Judging, truth: Mapping[Key, int | Failure]) -> list[Pair]:
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


def agree(rows: Sequence[Pair], seed: int) -> Agreement:
    """Compare verdicts with labels, of which none is missing; every interval resamples queries.

    Args:
        rows: Rows in rank order within a query.
        seed: Seed of the resampling.
    """
    table = by_query((row.query_id for row in rows), [_cells(row) for row in rows], columns=6)
    hit, over, missed, rejected, lost_1, lost_0 = table.T
    useful, useless = hit + over, missed + rejected
    accuracy = share(hit + rejected, useful + useless, lost_1 + lost_0, seed, empty="no verdict on a labelled chunk")
    differing = [row for row in rows if not isinstance(row.verdict, Failure) and row.verdict != row.label]
    counts = Counter(row.query_id for row in differing)
    return Agreement(
        n_queries=accuracy.n_queries,
        n_verdicts=accuracy.n,
        accuracy=accuracy,
        kappa=estimate_kappa(table[:, :4], table[:, 4:], seed),
        false_useful=share(over, over + rejected, lost_0, seed, empty="no verdict on a chunk labelled 0"),
        false_useless=share(missed, hit + missed, lost_1, seed, empty="no verdict on a chunk labelled 1"),
        disagreements=tuple(sorted(differing, key=lambda row: (-counts[row.query_id], row.query_id, row.label != 1))),
    )


def self_agreement(rows: Sequence[Pair], seed: int) -> Estimate:
    """Estimate the share of verdicts that repeat when given again, 0 to 1, with its interval by query.

    Args:
        rows: A verdict and, as its label, the one of the second pass; a failure in either leaves nothing to compare.
        seed: Seed of the resampling.
    """
    failed = [isinstance(row.verdict, Failure) or isinstance(row.label, Failure) for row in rows]
    cells = [(not lost and row.verdict == row.label, not lost, lost) for row, lost in zip(rows, failed, strict=True)]
    same, both, lost = by_query((row.query_id for row in rows), cells, columns=3).T
    return share(same, both, lost, seed, empty="no chunk was judged twice")


def summaries(trust: Trust) -> list[Summary]:
    """Return one summary a statistic: `judge/agreement` (accuracy), `judge/kappa` and so on, `<metric>_corrected`."""
    estimates: dict[str, Estimate | None] = {
        "judge/self_agreement": trust.self_agreement,
    }
    if trust.agreement is not None:
        estimates = {
            "judge/agreement": trust.agreement.accuracy,
            "judge/kappa": trust.agreement.kappa,
            "judge/false_useful": trust.agreement.false_useful,
            "judge/false_useless": trust.agreement.false_useless,
            **estimates,
        }
    estimates |= {f"{correction.metric}_corrected": correction.corrected for correction in trust.corrections}
    return [_summary(name, estimate) for name, estimate in estimates.items() if estimate is not None]


def _summary(name: str, estimate: Estimate) -> Summary:
    return Summary(
        metric=name,
        value=estimate.value,
        ci_low=estimate.interval.low,
        ci_high=estimate.interval.high,
        n=estimate.n,
        n_unscored=estimate.n_unscored,
        n_failed=estimate.n_failed,
        bound_low=estimate.bound_low,
        bound_high=estimate.bound_high,
        note=estimate.note or estimate.interval.note,
    )


def _cells(row: Pair) -> list[float]:
    """Return the column of a row: verdict and label 1 1, 1 0, 0 1, 0 0; failed with label 1, failed with label 0."""
    assert isinstance(row.label, int)
    column = 5 - row.label if isinstance(row.verdict, Failure) else 3 - 2 * row.verdict - row.label
    return [float(cell) for cell in np.arange(6) == column]


def _said(judging: Judging) -> dict[Key, int | Failure]:
    """Return the verdicts of a judge, or a pass, as what another is held against."""
    return {
        key: answer.verdict if isinstance(answer, ChunkVerdict) else answer
        for key, answer in judging.verdicts.items()
        if not isinstance(answer, Unscored)
    }


def _labels(observations: Sequence[Observation]) -> dict[Key, int | Failure]:
    """Return the golden labels of returned chunks, where the case has labels."""
    return {
        (o.case.id, chunk_id): int(chunk_id in o.relevance.grades)
        for o in observations
        if o.relevance.grades or o.relevance.items
        for chunk_id in o.ranked_ids
    }


def _corrections(judging: Judging, observations: Sequence[Observation], seed: int) -> tuple[Correction, ...]:
    """Correct the judges by human verdicts, where any query has them."""
    order = judging_order((o.case for o in observations), seed)
    eligible = {o.case.id: o for o in observations if (o.case.reference_answer or "").strip()}
    human = human_scores(list(eligible.values()), average_precision)
    if not human or not any(tier.verdicts for tier in judging.tiers):
        return ()
    judged = [
        {
            key: context_precision(o, tier) if o.selection else 0.0
            for key, o in eligible.items()
            if tier.drawn is None or key in tier.drawn
        }
        for tier in judging.tiers
    ]
    # Where some queries have people's labels as evidence, or none, labels say more of some than of others.
    labelled = {(o.case.labelling is not None, o.case.is_unlabelled) for o in eligible.values()}
    of_labels = {key: _by_labels(o) for key, o in eligible.items()} if len(labelled) == 1 else {}
    return (correct(PRECISION, [key for key in order if key in eligible], judged, human, of_labels),)


def _by_labels(observation: Observation) -> float:
    return average_precision([int(key in observation.relevance.grades) for key in observation.ranked_ids])
