"""Context recall out of what the judge says of each chunk alone: any selection follows without a further call. Pure."""

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.precision import NOT_JUDGED
from evals.judge.tasks import selected
from evals.judge.verdicts import Judging


def claim_recall(observation: Observation, judging: Judging) -> Score:
    """Share of the reference's sentences that some chunk of the selection supports by itself, 0 to 1.

    What only several chunks together support does not count; ragas' context recall counts it. Where the verdict on a
    chunk is missing, there is no score.
    """
    supported: set[int] = set()
    count = 0
    for chunk_id in selected(observation):
        found = judging.supports.get((observation.case.id, chunk_id), NOT_JUDGED)
        if isinstance(found, Failure | Unscored):
            return found
        count = len(found)
        supported |= {place for place, claim in enumerate(found) if claim.attributed}
    return len(supported) / count
