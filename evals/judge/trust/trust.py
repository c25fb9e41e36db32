"""How far to trust a judge: its statistics together, as summaries and as JSON. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evals.collect.observations import Summary
from evals.judge.trust.agreement import Agreement, Judged
from evals.judge.trust.correction import Correction
from evals.judge.trust.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What is known of a judge; None where it was not asked for.

    Attributes:
        agreement: With the golden labels.
        self_agreement: With itself.
        noise_share: Share of the variance of `noise_metric` across queries that is judge noise.
        corrections: Judged means beside what human verdicts make of them.
        bisection_error: Share of the results that bisection has wrong, by its audit.
    """

    agreement: Agreement | None = None
    self_agreement: Estimate | None = None
    noise_share: Estimate | None = None
    noise_metric: str = ""
    corrections: Sequence[Correction] = ()
    bisection_error: Estimate | None = None


def summaries(trust: Trust) -> list[Summary]:
    """One summary a statistic: `judge/agreement` (accuracy), `judge/kappa` and so on, `<metric>_corrected`."""
    found: dict[str, Estimate | None] = {
        "judge/self_agreement": trust.self_agreement,
        "judge/noise_share": trust.noise_share,
        "judge/bisection_error": trust.bisection_error,
    }
    if trust.agreement is not None:
        found = {
            "judge/agreement": trust.agreement.accuracy,
            "judge/kappa": trust.agreement.kappa,
            "judge/false_useful": trust.agreement.false_useful,
            "judge/false_useless": trust.agreement.false_useless,
            **found,
        }
    found |= {f"{correction.metric}_corrected": correction.corrected for correction in trust.corrections}
    return [_summary(name, estimate) for name, estimate in found.items() if estimate is not None]


def view(trust: Trust) -> dict[str, Any]:
    """The statistics as plain JSON values, what was not asked for as null."""
    return {
        "agreement": trust.agreement and _agreement(trust.agreement),
        "self_agreement": trust.self_agreement and _estimate(trust.self_agreement),
        "noise_share": trust.noise_share and {"metric": trust.noise_metric, **_estimate(trust.noise_share)},
        "corrections": [_correction(correction) for correction in trust.corrections],
    }


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


def _estimate(estimate: Estimate) -> dict[str, Any]:
    values = asdict(_summary("", estimate))
    del values["metric"]
    return values | {"n_queries": estimate.n_queries}


def _agreement(agreement: Agreement) -> dict[str, Any]:
    return {
        "n_queries": agreement.n_queries,
        "n_verdicts": agreement.n_verdicts,
        "accuracy": _estimate(agreement.accuracy),
        "kappa": _estimate(agreement.kappa),
        "false_useful": _estimate(agreement.false_useful),
        "false_useless": _estimate(agreement.false_useless),
        "disagreements": [_disagreement(row) for row in agreement.disagreements],
    }


def _disagreement(row: Judged) -> dict[str, Any]:
    return {
        "query_id": row.query_id,
        "chunk_id": row.chunk_id,
        "verdict": row.verdict,
        "label": row.label,
        "kind": "false_useless" if row.label else "false_useful",
        "reason": row.reason,
    }


def _correction(correction: Correction) -> dict[str, Any]:
    return {
        "metric": correction.metric,
        "raw": _estimate(correction.raw),
        "labels_alone": _estimate(correction.labels_alone),
        "corrected": _estimate(correction.corrected),
        "tuning": correction.tuning,
    }
