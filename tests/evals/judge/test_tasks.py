import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from evals.collect.observations import Failure, Score, Unscored
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE, Graded, Task, grade, tasks, why_not
from evals.judge.verdicts import ChunkVerdict, Claim
from tests.support.judged import ALL, TEXTS, Known, by_ragas, observe, oracle, random_observations
from tests.support.results import observation

POSE = observe("pose", ["topic", "forward", "inverse"])
EMPTY = observe("pose", [])
NO_REFERENCE = observe("pose", ["forward"], reference_answer=None)
BLANK_REFERENCE = observe("pose", ["forward"]).case.model_copy(update={"reference_answer": " \n"})
OUTSIDE = observation("outside", POSE.candidates, 1)
BROKEN = Failure(type="Timeout", message="no answer in time")


def asked(task: Task, asker: Known) -> Graded:
    return asyncio.run(grade(task, asker))


def the_task(metric: str, *chunk_ids: str) -> Task:
    [task] = tasks([metric], [observe("pose", chunk_ids)])
    return task


def described(*observations: Any, metrics: Any = ALL) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(task.metric, task.case_id, task.chunk_ids) for task in tasks(metrics, observations)]


# What is asked


def test_precision_asks_about_each_chunk_the_others_about_the_whole() -> None:
    whole = ("topic", "forward", "inverse")
    assert described(POSE) == [
        *((PRECISION, "pose", (chunk_id,)) for chunk_id in whole),
        *((metric, "pose", whole) for metric in ALL[1:]),
    ]


def test_questions_come_query_by_query_and_each_once() -> None:
    other = observe("pose", ["forward", "topic"])
    asked = described(POSE, observe("talk", ["topic"]), POSE, other, metrics=[PRECISION, RECALL])
    assert [question for question in asked if question[1] == "pose"] == [
        (PRECISION, "pose", ("topic",)), (PRECISION, "pose", ("forward",)), (PRECISION, "pose", ("inverse",)),
        (RECALL, "pose", ("topic", "forward", "inverse")),
        (RECALL, "pose", ("forward", "topic")),
    ]  # fmt: skip
    assert [case_id for _, case_id, _ in asked] in (["pose"] * 5 + ["talk"] * 2, ["talk"] * 2 + ["pose"] * 5)


def test_queries_come_in_an_order_of_the_seed_whichever_others_there_are() -> None:
    cases = [observe("pose", ["topic"], id=f"case {number}") for number in range(40)]
    orders = [[task.case_id for task in tasks([PRECISION], cases, seed)] for seed in (0, 1)]
    assert orders[0] != [observation.case.id for observation in cases] != orders[1] != orders[0]
    half = [task.case_id for task in tasks([PRECISION], cases[::2], 0)]
    assert half == [case_id for case_id in orders[0] if case_id in half]


def test_a_chunk_that_is_returned_twice_is_asked_about_once() -> None:
    twice = observe("pose", ["topic", "topic"])
    assert described(twice, metrics=[PRECISION]) == [(PRECISION, "pose", ("topic",))]
    assert described(twice, metrics=[RECALL]) == [(RECALL, "pose", ("topic", "topic"))]


def test_only_metrics_that_need_a_judge_ask() -> None:
    assert described(POSE, metrics=["ranking/mrr_at_10", "ragas/id_context_recall"]) == []


def test_nothing_is_asked_of_empty_results_and_queries_out_of_scope() -> None:
    assert described(EMPTY, OUTSIDE) == []


def test_without_a_reference_only_relevance_asks() -> None:
    assert described(NO_REFERENCE) == [(RELEVANCE, "pose", ("forward",))]


@pytest.mark.parametrize("metric", ALL)
def test_why_a_metric_does_not_ask(metric: str) -> None:
    assert why_not(metric, POSE) is None
    assert why_not(metric, EMPTY) == 0.0
    assert why_not(metric, OUTSIDE) == Unscored(reason="out of scope")
    missing = None if metric == RELEVANCE else Unscored(reason="the case has no reference answer")
    assert why_not(metric, NO_REFERENCE) == missing
    assert why_not(metric, replace(POSE, case=BLANK_REFERENCE)) == missing


# What it comes to


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("flaws", [{}, {"false_useful": 0.4, "false_useless": 0.4}], ids=["right", "erring"])
def test_a_task_is_worth_what_ragas_says_of_its_chunks(metric: str, flaws: dict[str, float]) -> None:
    known = oracle(**flaws)
    for one in random_observations(12, seed=3):
        for task in tasks([metric], [one]):
            part = observe(task.case_id, task.chunk_ids)
            assert asked(task, Known(known)).value == pytest.approx(by_ragas(metric, part, known), abs=1e-9)


@pytest.mark.parametrize("metric", ALL)
def test_a_task_makes_as_many_calls_as_are_planned(metric: str) -> None:
    asker = Known(oracle())
    asked(the_task(metric, "forward"), asker)
    assert len(asker.prompts) == JUDGED[metric].calls


def test_the_verdict_on_a_chunk_comes_with_its_reason() -> None:
    useful, useless = (asked(the_task(PRECISION, chunk_id), Known(oracle())) for chunk_id in ("forward", "topic"))
    query = POSE.case.query
    assert useful.verdict == ChunkVerdict(verdict=1, reason=f"The context is useful for {query!r}.")
    assert useless.verdict == ChunkVerdict(verdict=0, reason=f"The context is of no use for {query!r}.")


def test_statements_come_with_their_reasons() -> None:
    assert asked(the_task(RECALL, "forward", "topic"), Known(oracle())).claims == (
        Claim(statement="It multiplies transforms.", attributed=1, reason="The context states it."),
        Claim(statement="It searches.", attributed=0, reason="The context does not state it."),
    )


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("reason", [BROKEN, Unscored(reason="the budget of 1 calls is spent")], ids=["failed", "spent"])
def test_a_question_without_an_answer_says_why(metric: str, reason: Failure | Unscored) -> None:
    for number in range(1, JUDGED[metric].calls + 1):
        failing = {n: reason for n in range(number, 20)}
        assert asked(the_task(metric, "forward"), Known(oracle(), dict(failing))) == Graded(value=reason)


def test_one_of_two_ratings_alone_is_no_relevance_as_it_is_for_ragas() -> None:
    """The other rating is 2: ragas takes it for the whole."""
    asker = Known(oracle(), {n: BROKEN for n in range(2, 20)})
    assert asked(the_task(RELEVANCE, "forward", "inverse"), asker).value == BROKEN
    calls = iter(range(1, 20))
    known = oracle()

    class Half(type(known)):  # type: ignore[misc]
        def answer(self, prompt: str) -> str | None:
            return known.answer(prompt) if next(calls) == 1 else "no rating"

    assert by_ragas(RELEVANCE, observe("pose", ["forward", "inverse"]), Half({})) == 1.0


def test_an_unanswered_question_is_put_once_although_ragas_would_try_five_times() -> None:
    """The engine has tried what can be tried, and answers what it has answered before."""
    asker = Known(oracle(), {n: BROKEN for n in range(1, 20)})
    asked(the_task(RELEVANCE, "forward"), asker)
    assert len(set(asker.prompts)) == 2


@pytest.mark.parametrize("metric", [PRECISION, RECALL, ENTITY_RECALL])
def test_a_fault_within_a_metric_is_its_failure(metric: str) -> None:
    value: Score = asked(the_task(metric, "forward"), Known(oracle(), {1: ValueError("of ragas")})).value
    assert value == Failure(type="ValueError", message="of ragas")


def test_no_number_is_a_failure() -> None:
    asker = Known(oracle(), {n: ValueError("of ragas") for n in range(1, 20)})
    assert asked(the_task(RELEVANCE, "forward"), asker).value == Failure(type="NotFinite", message="ragas returned nan")


def test_what_ragas_answers_by_itself_asks_nothing() -> None:
    """A chunk that the question quotes is of no relevance, by ragas' rule."""
    one = observe("pose", ["forward"], query=f"Is it true? {TEXTS['forward']}")
    [task] = tasks([RELEVANCE], [one])
    asker = Known(oracle())
    assert asked(task, asker).value == 0.0 == by_ragas(RELEVANCE, one, oracle())
    assert asker.prompts == []


def test_many_at_once_do_not_mix_up_their_answers() -> None:
    known, every = oracle(), [*tasks(ALL, [*random_observations(30, seed=5)])]
    random.Random(0).shuffle(every)

    async def together() -> list[Graded]:
        return await asyncio.gather(*(grade(task, Known(known)) for task in every))

    for task, result in zip(every, asyncio.run(together()), strict=True):
        assert result == asked(task, Known(known))
