"""Context precision from the judge's verdicts. Pure."""

from collections.abc import Sequence

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.tasks import selected
from evals.judge.verdicts import Judging

NOT_JUDGED = Unscored(reason="not judged")


def context_precision(observation: Observation, judging: Judging) -> Score:
    """Return the selection's average precision by the judge's verdicts, 0 to 1 (ragas' perfect score is 1 - 1e-10).

    Σ over ranks k of (useful among the first k / k) · verdict k, divided by (useful chunks + 1e-10). Where the verdict
    on a chunk is missing there is no score.
    """
    verdicts: list[int] = []
    for chunk_id in selected(observation):
        verdict = judging.verdicts.get((observation.case.id, chunk_id), NOT_JUDGED)
        if isinstance(verdict, Failure | Unscored):
            return verdict
        verdicts.append(verdict.verdict)
    return average_precision(verdicts)


def average_precision(verdicts: Sequence[int]) -> float:
    """Return ragas' average precision of verdicts in rank order, 0 to 1. Source: ragas 0.4.3, `ContextPrecision`."""
    useful, total = 0, 0.0
    for rank, verdict in enumerate(verdicts, 1):
        useful += verdict
        total += useful / rank * verdict
    return total / (useful + 1e-10)
