"""The judge's section of the report. Pure."""

from collections.abc import Sequence

from evals.collect.observations import Summary
from evals.judge.estimates import Estimate
from evals.judge.trust import Agreement, Pair, Trust
from evals.judge.verdicts import Judging
from evals.report.model.judge import (
    AgreementSection,
    CorrectionEntry,
    Disagreement,
    JudgeSample,
    JudgeSection,
    JudgeUsage,
    TierEntry,
    TrustEntry,
    TrustSection,
)


def judge_section(
    judging: Judging, trust: Trust | None, queries: int, summaries: Sequence[Summary] = ()
) -> JudgeSection:
    """Return the judge of a run: model, cost, why it is incomplete, how far to trust it.

    Args:
        judging: Verdicts of the judge.
        trust: Quality of the judge, None where it is not known.
        queries: Number of in-scope queries.
        summaries: Means of the run.
    """
    return JudgeSection(
        model=judging.model,
        usage=JudgeUsage.of(judging.whole_usage),
        incomplete=judging.incomplete,
        sample=None if judging.drawn is None else JudgeSample(drawn=len(judging.drawn), queries=queries),
        tiers=_tiers(judging, trust, queries, summaries),
        trust=trust_section(trust) if trust else None,
    )


def _tiers(judging: Judging, trust: Trust | None, queries: int, summaries: Sequence[Summary]) -> list[TierEntry]:
    """Return the cheap judge and the strong one, and people where their verdicts correct the mean; else nothing."""
    corrected = {summary.metric: summary.sampled.weight for summary in summaries if summary.sampled}
    by_people = [c for c in trust.corrections if c.weight is not None] if trust else []
    if not judging.below and not by_people:
        return []
    agreements = [*(trust.tiers if trust else ()), *(None for _ in judging.tiers)]
    judges = [
        TierEntry(
            model=tier.model,
            queries=queries if tier.drawn is None else len(tier.drawn),
            queries_in_all=queries,
            usage=JudgeUsage.of(tier.usage),
            verdicts=agreement.n_verdicts if agreement else 0,
            agreement=agreement.accuracy.value if agreement else None,
            kappa=agreement.kappa.value if agreement else None,
            # A judge corrects no mean of its own.
            weights=(corrected if tier is not judging else {})
            | {f"{c.metric}_corrected": c.weight for c in by_people if c.judge == number and c.weight is not None},
        )
        for number, (tier, agreement) in enumerate(zip(judging.tiers, agreements, strict=False))
    ]
    people = [
        TierEntry(
            model="people",
            queries=correction.corrected.n_queries,
            queries_in_all=queries,
            usage=None,
            verdicts=0,
            agreement=None,
            kappa=None,
            weights={},
        )
        for correction in by_people
    ]
    return [*judges, *people]


def trust_section(trust: Trust) -> TrustSection:
    """Return the statistics of a judge; null for one that was not asked for."""
    return TrustSection(
        agreement=_agreement(trust.agreement) if trust.agreement else None,
        self_agreement=_entry(trust.self_agreement) if trust.self_agreement else None,
        corrections=[
            CorrectionEntry(
                metric=correction.metric,
                raw=_entry(correction.raw),
                labels_alone=_entry(correction.labels_alone),
                corrected=_entry(correction.corrected),
                tuning=correction.weight,
            )
            for correction in trust.corrections
        ],
    )


def _agreement(agreement: Agreement) -> AgreementSection:
    return AgreementSection(
        n_queries=agreement.n_queries,
        n_verdicts=agreement.n_verdicts,
        accuracy=_entry(agreement.accuracy),
        kappa=_entry(agreement.kappa),
        false_useful=_entry(agreement.false_useful),
        false_useless=_entry(agreement.false_useless),
        disagreements=[_disagreement(row) for row in agreement.disagreements],
    )


def _disagreement(row: Pair) -> Disagreement:
    return Disagreement(
        query_id=row.query_id,
        chunk_id=row.chunk_id,
        verdict=int(row.label == 0),
        label=int(row.label == 1),
        kind="false_useless" if row.label else "false_useful",
        reason=row.reason,
    )


def _entry(estimate: Estimate) -> TrustEntry:
    return TrustEntry(
        value=estimate.value,
        ci_low=estimate.interval.low,
        ci_high=estimate.interval.high,
        n=estimate.n,
        n_unscored=estimate.n_unscored,
        n_failed=estimate.n_failed,
        n_missing=0,
        bound_low=estimate.bound_low,
        bound_high=estimate.bound_high,
        note=estimate.note or estimate.interval.note,
        n_queries=estimate.n_queries,
    )
