"""Context recall from the judge's verdicts on each chunk alone: any selection follows without a call. Pure."""

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.precision import NOT_JUDGED
from evals.judge.tasks import selected
from evals.judge.verdicts import Judging


def claim_recall(observation: Observation, judging: Judging) -> Score:
    """Return the share of the reference's sentences that some chunk of the selection alone supports, 0 to 1.

    What only several chunks together support does not count; ragas' context recall counts it. Where the verdict on a
    chunk is missing, there is no score.
    """
    supported: set[int] = set()
    count = 0
    for chunk_id in selected(observation):
        claims = judging.supports.get((observation.case.id, chunk_id), NOT_JUDGED)
        if isinstance(claims, Failure | Unscored):
            return claims
        count = len(claims)
        supported |= {number for number, claim in enumerate(claims) if claim.attributed}
    return len(supported) / count
