"""Context precision out of the judge's verdicts. Pure."""

from collections.abc import Sequence

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.tasks import selected
from evals.judge.verdicts import Judging

NOT_JUDGED = Unscored(reason="not judged")


def context_precision(observation: Observation, judging: Judging) -> Score:
    """Average precision of the selection by the judge's verdicts, 0 to 1 (ragas' perfect score is 1 - 1e-10).

    Σ over ranks k of (useful among the first k / k) · verdict k, divided by (useful chunks + 1e-10). Where the verdict
    on a chunk is missing there is no score.
    """
    verdicts: list[int] = []
    for chunk_id in selected(observation):
        found = judging.verdicts.get((observation.case.id, chunk_id), NOT_JUDGED)
        if isinstance(found, Failure | Unscored):
            return found
        verdicts.append(found.verdict)
    return average_precision(verdicts)


def average_precision(verdicts: Sequence[int]) -> float:
    """Ragas' average precision of verdicts in rank order, 0 to 1. Source: ragas 0.4.3, `ContextPrecision`."""
    useful, total = 0, 0.0
    for place, verdict in enumerate(verdicts, 1):
        useful += verdict
        total += useful / place * verdict
    return total / (useful + 1e-10)
