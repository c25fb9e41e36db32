"""Context recall over nested selections with fewer questions: where two of them have the same, so has all between.

It assumes that more chunks never lower a query's recall. A judge is not bound to that, so a random sample of what was
skipped is asked all the same, and the share that differs is reported. Pure.
"""

import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evals.collect.observations import Score
from evals.judge.tasks import RECALL, Graded, Task
from evals.judge.verdicts import Bisected, Selected

Answers = list[tuple[Task, Graded]]
Waves = Generator[Sequence[Task], Answers, Bisected | None]
"""Gives questions that can be asked side by side, is sent their answers, and ends with what was skipped."""
Key = tuple[str, Selected]
"""Case id and selection."""
Chain = tuple[Key, ...]
"""Selections of a query that each begin with the one before, the shortest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """Scores of asked selections by their key, and values of skipped ones."""

    asked: Mapping[Key, Score]
    implied: Mapping[Key, float]

    def value(self, key: Key) -> Score | None:
        return self.asked.get(key, self.implied.get(key))


def at_once(questions: Sequence[Task]) -> Waves:
    """All questions in one wave."""
    yield questions
    return None


def bisecting(questions: Sequence[Task], audit: int, seed: int) -> Waves:
    """All questions but those on recall in the first wave; recall of nested selections by bisection, then the audit.

    First the shortest and the longest selection of every chain are asked. Between two that differ the middle one is
    asked, until neighbours differ or agree; between two that agree nothing is. A selection whose answer failed bounds
    nothing: it stays failed, and the next one takes its place.

    Args:
        questions: As `tasks` gives them; those on other metrics than recall are asked as they are.
        audit: How many of the skipped selections are asked all the same, at most.
        seed: Of that choice.
    """
    on_recall = {(task.case_id, task.chunk_ids): task for task in questions if task.metric == RECALL}
    nested = chains(on_recall)
    known = _Known(asked={}, implied={})
    wave = [task for task in questions if task.metric != RECALL]
    wanted = [on_recall[key] for key in _wanted(nested, known)]
    while wave or wanted:
        answers = yield [*wave, *wanted]
        known = _learned(nested, known, answers)
        wave, wanted = [], [on_recall[key] for key in _wanted(nested, known)]
    skipped = [key for key in on_recall if key in known.implied]
    chosen = random.Random(seed).sample(skipped, min(audit, len(skipped)))
    audited: dict[Key, Score] = {}
    if chosen:
        answers = yield [on_recall[key] for key in chosen]
        audited = {(task.case_id, task.chunk_ids): graded.value for task, graded in answers}
    return Bisected(implied=known.implied, audited=audited, selections=len(on_recall))


def chains(keys: Iterable[Key]) -> list[Chain]:
    """For each selection that no other begins with: those that it begins with, and itself.

    Args:
        keys: Case ids and selections. A selection that is not nested makes a chain of one.
    """
    every = dict.fromkeys(keys)
    within = {
        (case, chosen): tuple((case, chosen[:n]) for n in range(1, len(chosen)) if (case, chosen[:n]) in every)
        for case, chosen in every
    }
    begun = {key for shorter in within.values() for key in shorter}
    return [(*shorter, key) for key, shorter in within.items() if key not in begun]


def _learned(nested: Sequence[Chain], known: _Known, answers: Answers) -> _Known:
    """With the answers of a wave; several chains may share a selection, and the first that implies it does."""
    said = {(task.case_id, task.chunk_ids): graded.value for task, graded in answers if task.metric == RECALL}
    asked = {**known.asked, **said}
    implied = {key: value for key, value in known.implied.items() if key not in said}
    for chain in nested:
        now = _Known(asked=asked, implied=implied)
        bounds = [(place, value) for place, key in enumerate(chain) if isinstance(value := now.value(key), float)]
        for (low, below), (high, above) in pairwise(bounds):
            if below == above:
                implied |= {key: below for key in chain[low + 1 : high] if key not in asked}
    return _Known(asked=asked, implied=implied)


def _wanted(nested: Sequence[Chain], known: _Known) -> dict[Key, None]:
    """What has to be asked next: the ends of every chain, and the middle of every gap between different values."""
    wanted: dict[Key, None] = {}
    for chain in nested:
        values = [known.value(key) for key in chain]
        usable = [place for place, value in enumerate(values) if value is None or isinstance(value, float)]
        ends = {usable[0], usable[-1]} if usable else set()
        unknown = [place for place in sorted(ends) if values[place] is None]
        wanted |= {chain[place]: None for place in unknown or _middles(usable, values)}
    return wanted


def _middles(usable: Sequence[int], values: Sequence[Score | None]) -> list[int]:
    """The middle place of every run of unknown values."""
    middles: list[int] = []
    gap: list[int] = []
    for place in usable:
        if values[place] is None:
            gap.append(place)
        elif gap:
            middles.append(gap[len(gap) // 2])
            gap = []
    return middles
