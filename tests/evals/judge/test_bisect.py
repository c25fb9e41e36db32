"""Recall by bisection against recall of every selection, with the oracle as judge and no server between."""

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest

from evals.collect.observations import Failure, Observation, Score
from evals.judge.bisect import Answers, Waves, at_once, bisecting, chains
from evals.judge.tasks import PRECISION, RECALL, Graded, Task, grade, tasks
from evals.judge.verdicts import Bisected
from tests.support.judged import TEXTS, Known, observe, oracle
from tests.support.judging import Oracle

BROKEN = Failure(type="Timeout", message="late")
Say = Callable[[Task], Graded]


def driven(questions: Waves, say: Say) -> tuple[Answers, Bisected | None]:
    """All answers, wave by wave."""
    answers: Answers = []
    wave = next(questions)
    while True:
        now = [(task, say(task)) for task in wave]
        answers += now
        try:
            wave = questions.send(now)
        except StopIteration as done:
            return answers, done.value


def by(known: Oracle) -> Say:
    return lambda task: asyncio.run(grade(task, Known(known)))


def by_length(values: Sequence[Score]) -> Say:
    return lambda task: Graded(value=values[len(task.chunk_ids) - 1])


def prefixes(case: str, chunk_ids: Sequence[str]) -> list[Observation]:
    return [observe(case, chunk_ids[:n]) for n in range(1, len(chunk_ids) + 1)]


def deep(depth: int = 20) -> list[Task]:
    return list(tasks([RECALL], prefixes("pose", ["soup"] * depth)))


def values(answers: Answers, found: Bisected | None) -> dict[tuple[str, tuple[str, ...]], Score]:
    assert found is not None
    return {**found.implied, **{(task.case_id, task.chunk_ids): graded.value for task, graded in answers}}


@pytest.mark.parametrize("seed", range(4))
def test_of_a_judge_that_is_monotone_every_value_is_that_of_asking_all(seed: int) -> None:
    draw = random.Random(seed)
    lists = [(case, draw.choices([*TEXTS], k=12)) for case in ("pose", "talk", "soup") for _ in range(2)]
    questions = list(tasks([RECALL, PRECISION], [one for case, ids in lists for one in prefixes(case, ids)]))
    say = by(oracle())
    every, nothing = driven(at_once(questions), say)
    answers, found = driven(bisecting(questions, 10, seed), say)
    assert nothing is None and found is not None
    exact = {(task.case_id, task.chunk_ids): g.value for task, g in every if task.metric == RECALL}
    asked = [pair for pair in answers if pair[0].metric == RECALL]
    assert values(asked, found) == exact and len(exact) == found.selections
    assert len(asked) == len(exact) - found.saved < len(exact)
    assert found.compared == [False] * 10
    assert sorted(t.chunk_ids for t, _ in answers if t.metric == PRECISION) == sorted(
        t.chunk_ids for t in questions if t.metric == PRECISION
    )


@pytest.mark.parametrize(
    ("steps", "most"), [((), 2), ((1,), 2 + 5), ((10,), 2 + 5), ((3, 12), 2 + 10), (range(1, 20), 20)], ids=str
)
def test_calls_grow_with_the_steps_and_not_with_the_depth(steps: Sequence[int], most: int) -> None:
    scores = [sum(place >= step for step in steps) / 32 for place in range(20)]
    answers, found = driven(bisecting(deep(), 0, 0), by_length(scores))
    assert len(answers) <= most
    assert [values(answers, found)["pose", ("soup",) * n] for n in range(1, 21)] == scores


def test_the_audit_catches_a_judge_that_is_not_monotone() -> None:
    """At both ends 0, between them 1 at every second place."""
    scores = [float(place % 2) if 0 < place < 19 else 0.0 for place in range(20)]
    answers, found = driven(bisecting(deep(), 18, 0), by_length(scores))
    assert found is not None and sorted(found.compared) == [False] * 9 + [True] * 9
    assert len(answers) == 20 and found.saved == 0


def test_the_audit_catches_a_judge_that_errs() -> None:
    lists = [random.Random(seed).choices([*TEXTS], k=12) for seed in range(8)]
    questions = list(tasks([RECALL], [one for ids in lists for one in prefixes("talk", ids)]))
    for flaws, wrong in (({"false_useful": 0.3}, True), ({}, False)):
        _, found = driven(bisecting(questions, 30, 1), by(oracle(**flaws)))
        assert found is not None and any(found.compared) is wrong and len(found.compared) > 5


def test_a_failed_answer_bounds_nothing_and_stays_failed() -> None:
    scores: list[Score] = [BROKEN, 0.5, 0.5, 0.5, 1.0, 1.0, BROKEN]
    answers, found = driven(bisecting(deep(7), 0, 0), by_length(scores))
    made = values(answers, found)
    assert [made["pose", ("soup",) * n] for n in range(1, 8)] == scores
    answers, found = driven(bisecting(deep(5), 0, 0), by_length([BROKEN] * 5))
    assert len(answers) == 5 and found is not None and not found.implied


def test_selections_that_are_not_nested_are_asked() -> None:
    keys = [("q", ("a",)), ("q", ("a", "b")), ("q", ("b", "a")), ("r", ("a", "b", "c")), ("q", ("a", "b", "d"))]
    assert chains(keys) == [
        (("q", ("b", "a")),),
        (("r", ("a", "b", "c")),),
        (("q", ("a",)), ("q", ("a", "b")), ("q", ("a", "b", "d"))),
    ]
    apart = list(tasks([RECALL], [observe("pose", ids) for ids in (["topic", "soup"], ["soup", "topic"], ["forward"])]))
    answers, found = driven(bisecting(apart, 10, 0), by(oracle()))
    assert [task for task, _ in answers] == apart and found is not None and not found.implied


def test_the_same_seed_draws_the_same_audit() -> None:
    drawn = [driven(bisecting(deep(), 4, seed), by_length([0.0] * 20))[1] for seed in (0, 0, 1)]
    audits = [one and [*one.audited] for one in drawn]
    assert audits[0] == audits[1] != audits[2]
