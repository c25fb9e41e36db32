"""Trust in the judge of a run: its verdicts against golden labels, a second pass and human verdicts. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from evals.collect.observations import Failure, Observation, Unscored
from evals.judge.tasks import PRECISION
from evals.judge.trust.agreement import Agreement, LabelledVerdict, Rejudged, agree, self_agreement
from evals.judge.trust.correction import Correction, correct, human_scores
from evals.judge.trust.trust import Trust
from evals.judge.verdicts import ChunkVerdict, Judging, average_precision, context_precision
from evals.sampling.order import judging_order


def measure(judging: Judging, observations: Sequence[Observation], seed: int) -> Trust:
    """Compare the judge with golden labels, with itself, and with human verdicts, as far as there are any.

    Args:
        judging: Verdicts of the judge.
        observations: One for each query of the run.
        seed: Seed of all resampling.
    """
    inside = [o for o in observations if o.case.in_scope]
    rows = list(_labelled(judging, inside))
    again, corrections = judging.again, _corrections(judging, inside, seed)
    return Trust(
        agreement=agree(rows, seed) if rows else None,
        self_agreement=self_agreement(list(_twice(judging, again)), seed) if again else None,
        corrections=corrections,
        tiers=_agreements(judging, corrections, inside, seed),
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


def _agreements(
    judging: Judging, corrections: Sequence[Correction], observations: Sequence[Observation], seed: int
) -> tuple[Agreement | None, ...]:
    """Compare each judge with the next stronger one, and the strongest with people where they are the last tier."""
    truths = [
        {key: _binary(verdict) for key, verdict in tier.verdicts.items() if isinstance(verdict, ChunkVerdict)}
        for tier in judging.tiers
    ]
    if any(correction.weight is not None for correction in corrections):
        truths.append({(o.case.id, chunk): said for o in observations for chunk, said in o.case.human_verdicts.items()})
    return tuple(_between(tier, truth, seed) for tier, truth in zip(judging.tiers, truths[1:], strict=False))


def _between(tier: Judging, truth: Mapping[tuple[str, str], int], seed: int) -> Agreement | None:
    """Compare the verdicts of a judge with a stronger one's, or with people's, on the same chunks."""
    rows = [
        LabelledVerdict(
            query_id=key[0],
            chunk_id=key[1],
            verdict=verdict if isinstance(verdict, Failure) else _binary(verdict),  # type: ignore[arg-type]
            label=truth[key],  # type: ignore[arg-type]  # 0 or 1, as the parser has made sure
        )
        for key, verdict in sorted(tier.verdicts.items(), key=lambda row: row[0])
        if not isinstance(verdict, Unscored) and key in truth
    ]
    return agree(rows, seed) if rows else None


def _twice(first: Judging, again: Judging) -> Iterator[Rejudged]:
    for (case_id, chunk_id), second in again.verdicts.items():
        original = first.verdicts.get((case_id, chunk_id))
        if original is None or isinstance(original, Unscored) or isinstance(second, Unscored):
            continue
        pair = [verdict if isinstance(verdict, Failure) else _binary(verdict) for verdict in (original, second)]
        yield Rejudged(query_id=case_id, chunk_id=chunk_id, first=pair[0], second=pair[1])  # type: ignore[arg-type]


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


def _binary(verdict: ChunkVerdict) -> int:
    return verdict.verdict
