"""Trust in a judge: its statistics together, as summaries. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.collect.observations import Summary
from evals.judge.trust.agreement import Agreement
from evals.judge.trust.correction import Correction
from evals.judge.trust.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Quality of a judge; None for statistics that the settings do not ask for.

    Attributes:
        agreement: Agreement with the golden labels.
        self_agreement: Agreement with itself.
        corrections: Judged means beside what human verdicts make of them.
        tiers: Of a cascade, the agreement of each judge with the next stronger one, the cheapest first, and where
            people's verdicts correct the mean, of the strongest with people; None where no chunk was judged by both.
    """

    agreement: Agreement | None = None
    self_agreement: Estimate | None = None
    corrections: Sequence[Correction] = ()
    tiers: Sequence[Agreement | None] = ()


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
