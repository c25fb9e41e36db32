"""A judge that is made up from golden labels, to tell what judging is expected to give. Pure and seeded."""

import random
from collections.abc import Collection, Mapping, Sequence

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.claims import sentences
from evals.judge.tasks import CLAIM_RECALL, PRECISION, RELEVANCE, Task, tasks
from evals.judge.verdicts import ChunkVerdict, Claim, Judging, Selected

# Agreement of judge and labels where fewer stored answers than these tell it.
USUAL_AGREEMENT, FEWEST_ANSWERS = 0.93, 30


class MadeUpJudge:
    """A judge that gives stored answers, and else what the labels say, with errors; the same whenever it is asked.

    A chunk is useful if it is labelled; of the statements (or entities) of a reference answer, the first is supported
    by what holds the first evidence item, and so on in turn; a rating is high where all items are there, low where
    none. Each such part is turned over with the probability of disagreement. Where a query has no labels, chance
    decides: a random share of its parts is supported.

    Args:
        stored: Answers that are known.
        wrong: Metric to the probability that a part is not what the labels say.
        seed: Seed of the errors.
    """

    def __init__(self, stored: Judging, wrong: Mapping[str, float], seed: int) -> None:
        self._stored, self._wrong, self._seed = stored, wrong, seed

    def judge(self, metrics: Collection[str], results: Sequence[Observation]) -> Judging:
        """Return the answers on results; metrics that need no judge are passed over."""
        cases = {result.case.id: result for result in results}
        verdicts: dict[tuple[str, str], ChunkVerdict | Failure | Unscored] = {}
        scores: dict[tuple[str, str, Selected], Score] = {}
        supports: dict[tuple[str, str], tuple[Claim, ...] | Failure | Unscored] = {}
        for task in tasks(metrics, results):
            known = answered(task, self._stored)
            parts = self._erring(task, cases[task.case_id]) if known is None else known
            if task.metric == PRECISION:
                verdicts[task.case_id, task.chunk_ids[0]] = ChunkVerdict(verdict=int(parts[0]), reason="")
            elif task.metric == CLAIM_RECALL:
                claims = tuple(Claim(statement="", attributed=int(part), reason="") for part in parts)
                supports[task.case_id, task.chunk_ids[0]] = claims
            else:
                scores[task.metric, task.case_id, task.chunk_ids] = sum(parts) / len(parts)
        return Judging(model="", verdicts=verdicts, scores=scores, claims={}, supports=supports)

    def _erring(self, task: Task, result: Observation) -> list[float]:
        rng = random.Random(f"{self._seed} {task.metric} {task.case_id} {task.chunk_ids}")
        labels = by_labels(task, result)
        if labels is None:
            chance = random.Random(f"{self._seed} {task.case_id}").random()
            return [float(rng.random() < chance) for _ in range(_count(task, result))]
        wrong = self._wrong[task.metric]
        return [1 - part if rng.random() < wrong else part for part in labels]


def agreement(metric: str, results: Sequence[Observation], stored: Judging) -> tuple[int, float | None]:
    """Return the number of stored answers on a metric, and how far they agree with the labels; None for too few.

    Agreement is 1 less the mean absolute difference, which of verdicts on chunks is the share that equals the label.
    """
    cases, count = {result.case.id: result for result in results}, 0
    agreeing: list[float] = []
    for task in tasks([metric], results):
        answer, labels = answered(task, stored), by_labels(task, cases[task.case_id])
        count += answer is not None
        if answer is not None and labels is not None:
            if task.metric == CLAIM_RECALL:
                agreeing += [float(a == b) for a, b in zip(answer, labels, strict=False)]
            else:
                agreeing.append(1 - abs(sum(answer) / len(answer) - sum(labels) / len(labels)))
    return count, sum(agreeing) / len(agreeing) if len(agreeing) >= FEWEST_ANSWERS else None


def answered(task: Task, stored: Judging) -> list[float] | None:
    """Return the stored answer to a task: a verdict, those on sentences of the reference, or a score; else None."""
    key = task.case_id, task.chunk_ids[0]
    if task.metric == PRECISION:
        verdict = stored.verdicts.get(key)
        return [float(verdict.verdict)] if isinstance(verdict, ChunkVerdict) else None
    if task.metric == CLAIM_RECALL:
        claims = stored.supports.get(key)
        return [float(claim.attributed) for claim in claims] if isinstance(claims, tuple) else None
    score = stored.scores.get((task.metric, task.case_id, task.chunk_ids))
    return [score] if isinstance(score, float) else None


def by_labels(task: Task, result: Observation) -> list[float] | None:
    """Return what the labels say of the parts of an answer, 0 to 1 each; None where the query has no labels."""
    relevance = result.relevance
    if not relevance.grades:
        return None
    if task.metric == PRECISION:
        return [float(task.chunk_ids[0] in relevance.grades)]
    held = [not item.isdisjoint(task.chunk_ids) for item in relevance.items]
    if task.metric == RELEVANCE:
        return [1.0 if all(held) else 0.5 if any(held) else 0.0] * _count(task, result)
    return [float(held[number % len(held)]) for number in range(_count(task, result))]


def _count(task: Task, result: Observation) -> int:
    """Return the number of parts of an answer: ratings, or statements of the reference answer."""
    if task.metric == PRECISION:
        return 1
    return 2 if task.metric == RELEVANCE else max(1, len(sentences(result.case.reference_answer or "")))
