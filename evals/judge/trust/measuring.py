"""Trust in the judge of a run: its verdicts against golden labels, a second pass and human verdicts. Pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.precision import average_precision, context_precision
from evals.judge.tasks import PRECISION
from evals.judge.trust.agreement import Agreement, LabelledVerdict, agree
from evals.judge.trust.audit import error_rate
from evals.judge.trust.correction import Correction, correct, human_scores
from evals.judge.trust.noise import Rejudged, noise_share, self_agreement
from evals.judge.trust.trust import Trust
from evals.judge.verdicts import ChunkVerdict, Judging


def measure(judging: Judging, observations: Sequence[Observation], seed: int) -> Trust:
    """Compare the judge with golden labels, with itself, and with human verdicts, as far as there are any.

    Args:
        judging: Verdicts of the judge.
        observations: One for each query of the run.
        seed: Seed of all resampling.
    """
    inside = [o for o in observations if o.case.in_scope]
    rows = list(_labelled(judging, inside))
    again = judging.again
    return Trust(
        agreement=agree(rows, seed) if rows else None,
        self_agreement=self_agreement(list(_twice(judging, again)), seed) if again else None,
        noise_share=noise_share(_both_scores(judging, again, inside), seed) if again else None,
        noise_metric=PRECISION if again else "",
        corrections=_corrections(judging, inside, seed),
        tiers=tuple(_between(tier, stronger, seed) for tier, stronger in pairwise(judging.tiers)),
        bisection_error=error_rate(judging.bisected) if judging.bisected else None,
    )


def _labelled(judging: Judging, observations: Sequence[Observation]) -> Iterator[LabelledVerdict]:
    """Pair the verdicts on returned chunks with the labels, where the case has labels."""
    for observation in observations:
        grades = observation.relevance.grades
        for chunk_id in observation.ranked_ids if grades or observation.relevance.items else ():
            answer = judging.verdicts.get((observation.case.id, chunk_id))
            if answer is None or isinstance(answer, Unscored):
                continue
            verdict = answer if isinstance(answer, Failure) else _binary(answer)
            reason = answer.reason if isinstance(answer, ChunkVerdict) else ""
            label = 1 if chunk_id in grades else 0
            yield LabelledVerdict(
                query_id=observation.case.id,
                chunk_id=chunk_id,
                verdict=verdict,  # type: ignore[arg-type]  # 0 or 1, as the parser has made sure
                label=label,  # type: ignore[arg-type]
                reason=reason,
            )


def _between(tier: Judging, stronger: Judging, seed: int) -> Agreement | None:
    """Compare the verdicts of a judge with a stronger one's on the same chunks, which stand for the labels."""
    rows = [
        LabelledVerdict(
            query_id=case_id,
            chunk_id=chunk_id,
            verdict=verdict if isinstance(verdict, Failure) else _binary(verdict),  # type: ignore[arg-type]
            label=_binary(truth),  # type: ignore[arg-type]  # 0 or 1, as the parser has made sure
        )
        for (case_id, chunk_id), verdict in sorted(tier.verdicts.items(), key=lambda row: row[0])
        if not isinstance(verdict, Unscored)
        and isinstance(truth := stronger.verdicts.get((case_id, chunk_id)), ChunkVerdict)
    ]
    return agree(rows, seed) if rows else None


def _twice(first: Judging, again: Judging) -> Iterator[Rejudged]:
    for (case_id, chunk_id), second in again.verdicts.items():
        original = first.verdicts.get((case_id, chunk_id))
        if original is None or isinstance(original, Unscored) or isinstance(second, Unscored):
            continue
        pair = [verdict if isinstance(verdict, Failure) else _binary(verdict) for verdict in (original, second)]
        yield Rejudged(query_id=case_id, chunk_id=chunk_id, first=pair[0], second=pair[1])  # type: ignore[arg-type]


def _both_scores(first: Judging, again: Judging, observations: Sequence[Observation]) -> dict[str, tuple[Score, Score]]:
    repeated = {case_id for case_id, _ in again.verdicts}
    return {
        o.case.id: (context_precision(o, first), context_precision(o, again))
        for o in observations
        if o.case.id in repeated
    }


def _corrections(judging: Judging, observations: Sequence[Observation], seed: int) -> tuple[Correction, ...]:
    """Correct the judge by human verdicts; of a cascade the strongest that shares enough queries with them.

    People label what they like, so their sample is no beginning of the judging order and no further tier.
    """
    corrections = []
    for tier in reversed(judging.tiers):
        drawn = [o for o in observations if tier.drawn is None or o.case.id in tier.drawn]
        human = human_scores(drawn, average_precision)
        if human and tier.verdicts:
            judged = {o.case.id: context_precision(o, tier) if o.selection else 0.0 for o in drawn}
            corrections.append(correct(PRECISION, judged, human, seed))
    usable = [correction for correction in corrections if correction.corrected.value is not None]
    return tuple((usable or corrections[-1:])[:1])


def _binary(verdict: ChunkVerdict) -> int:
    return verdict.verdict
