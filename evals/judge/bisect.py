"""Context recall over nested selections with fewer questions: if two have the same recall, so have all between.

It assumes that more chunks never lower a query's recall. A judge is not bound to that, so a random sample of what was
skipped is asked as a check, and the share that differs is reported. Pure.
"""

import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evals.collect.observations import Score
from evals.judge.tasks import RECALL, Graded, Task
from evals.judge.verdicts import Bisected, Selected

Answers = list[tuple[Task, Graded]]
# Generator that yields concurrent questions, receives their answers, and returns the skipped ones.
Waves = Generator[Sequence[Task], Answers, Bisected | None]
# Case id and selection.
Key = tuple[str, Selected]
# Selections of a query, each of which starts with the one before, the shortest first.
Chain = tuple[Key, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """Scores of asked selections by their key, and values of skipped ones."""

    asked: Mapping[Key, Score]
    implied: Mapping[Key, float]

    def value(self, key: Key) -> Score | None:
        return self.asked.get(key, self.implied.get(key))


def at_once(questions: Sequence[Task]) -> Waves:
    """Return all questions in one wave."""
    yield questions
    return None


def bisecting(questions: Sequence[Task], audit: int, seed: int) -> Waves:
    """Plan all questions but recall in the first wave, recall of nested selections by bisection, then the audit.

    First the shortest and the longest selection of every chain are asked. Between two that differ the middle one is
    asked, until neighbours differ or agree; between two that agree nothing is. A selection whose answer failed bounds
    nothing: it stays failed, and the next one takes its place.

    Args:
        questions: As `tasks` gives them; those on other metrics than recall are asked as they are.
        audit: Largest number of skipped selections that are asked as a check.
        seed: Seed of that choice.
    """
    on_recall = {(task.case_id, task.chunk_ids): task for task in questions if task.metric == RECALL}
    nested = chains(on_recall)
    answered = _Known(asked={}, implied={})
    wave = [task for task in questions if task.metric != RECALL]
    next_wave = [on_recall[key] for key in _wanted(nested, answered)]
    while wave or next_wave:
        answers = yield [*wave, *next_wave]
        answered = _learned(nested, answered, answers)
        wave, next_wave = [], [on_recall[key] for key in _wanted(nested, answered)]
    skipped = [key for key in on_recall if key in answered.implied]
    chosen = random.Random(seed).sample(skipped, min(audit, len(skipped)))
    audited: dict[Key, Score] = {}
    if chosen:
        answers = yield [on_recall[key] for key in chosen]
        audited = {(task.case_id, task.chunk_ids): graded.value for task, graded in answers}
    return Bisected(implied=answered.implied, audited=audited, selections=len(on_recall))


def chains(keys: Iterable[Key]) -> list[Chain]:
    """Return the chains of selections that begin alike, each with its longest last.

    Args:
        keys: Case ids and selections. A selection that is not nested makes a chain of one.
    """
    every = dict.fromkeys(keys)
    within = {
        (case, chosen): tuple((case, chosen[:n]) for n in range(1, len(chosen)) if (case, chosen[:n]) in every)
        for case, chosen in every
    }
    prefixes = {key for shorter in within.values() for key in shorter}
    return [(*shorter, key) for key, shorter in within.items() if key not in prefixes]


def _learned(nested: Sequence[Chain], answered: _Known, answers: Answers) -> _Known:
    """Add the answers of a wave; several chains may share a selection, and the first that implies it does."""
    values = {(task.case_id, task.chunk_ids): graded.value for task, graded in answers if task.metric == RECALL}
    asked = {**answered.asked, **values}
    implied = {key: value for key, value in answered.implied.items() if key not in values}
    for chain in nested:
        now = _Known(asked=asked, implied=implied)
        bounds = [(index, value) for index, key in enumerate(chain) if isinstance(value := now.value(key), float)]
        for (low, below), (high, above) in pairwise(bounds):
            if below == above:
                implied |= {key: below for key in chain[low + 1 : high] if key not in asked}
    return _Known(asked=asked, implied=implied)


def _wanted(nested: Sequence[Chain], answered: _Known) -> dict[Key, None]:
    """Return the next questions: the ends of every chain, and the middle of every gap between different values."""
    questions: dict[Key, None] = {}
    for chain in nested:
        values = [answered.value(key) for key in chain]
        usable = [index for index, value in enumerate(values) if value is None or isinstance(value, float)]
        ends = {usable[0], usable[-1]} if usable else set()
        unknown = [index for index in sorted(ends) if values[index] is None]
        questions |= {chain[index]: None for index in unknown or _middles(usable, values)}
    return questions


def _middles(usable: Sequence[int], values: Sequence[Score | None]) -> list[int]:
    """Return the middle place of every run of unknown values."""
    middles: list[int] = []
    gap: list[int] = []
    for index in usable:
        if values[index] is None:
            gap.append(index)
        elif gap:
            middles.append(gap[len(gap) // 2])
            gap = []
    return middles
