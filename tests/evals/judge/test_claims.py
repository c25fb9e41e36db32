"""The sentences of a reference, what a judge's statements say of them, and the recall that follows."""

import asyncio
from typing import Any

import pytest
from evals.judge.claim_recall import claim_recall

from evals.collect.observations import Failure, Unscored
from evals.judge.claims import aligned, foreign, sentences
from evals.judge.tasks import CLAIM_RECALL, RECALL, grade, tasks
from evals.judge.verdicts import Claim
from tests.support.judged import Known, by_ragas, judging, observe, oracle, random_observations


def claim(statement: str, attributed: int = 1) -> Claim:
    return Claim(statement=statement, attributed=attributed, reason=f"of {statement}")


def said(*attributed: int) -> tuple[Claim, ...]:
    return tuple(claim(str(place), one) for place, one in enumerate(attributed))


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("One is here. Two is there!", ["One is here.", "Two is there!"]),
        ("It costs 3.5 m. 1. Open it. 2. Shut it.", ["It costs 3.5 m.", "1. Open it.", "2. Shut it."]),
        ("no stop\nanother line", ["no stop", "another line"]),
        ("Dr. Smith said so, e.g. here.", ["Dr. Smith said so, e.g. here."]),
        ("Soup.", ["Soup."]),
        ("...", ["..."]),
    ],
)
def test_sentences(reference: str, expected: list[str]) -> None:
    assert sentences(reference) == expected


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([("It moves the arm.", 1), ("It stops the motor.", 0)], [1, 0]),
        ([("it stops  the MOTOR", 0), ("It moves the arm", 1)], [1, 0]),
        ([("It moves the arm. It stops the motor.", 1)], [1, 1]),
        ([("It moves", 1), ("the arm", 0), ("It stops the motor.", 1)], [0, 1]),
    ],
)
def test_statements_are_laid_beside_the_sentences(statements: list[tuple[str, int]], expected: list[int]) -> None:
    found = aligned("It moves the arm. It stops the motor.", [claim(*one) for one in statements])
    assert not isinstance(found, Failure) and [one.attributed for one in found] == expected
    assert [one.statement for one in found] == ["It moves the arm.", "It stops the motor."]


def test_a_sentence_that_is_left_out_is_a_failure() -> None:
    found = aligned("It moves the arm. Zebras have stripes.", [claim("It moves the arm.")])
    assert found == Failure(
        type="StatementMissing", message="the judge's statements do not hold 'Zebras have stripes.'"
    )


def test_recall_is_the_share_of_sentences_that_any_chunk_supports() -> None:
    one = observe("pose", ["topic", "forward", "soup"])
    late = Failure(type="Timeout", message="m")
    known: dict[tuple[str, str], Any] = {
        ("pose", "topic"): said(0, 1, 0, 0),
        ("pose", "forward"): said(1, 1, 0, 0),
        ("pose", "soup"): said(0, 0, 0, 0),
    }
    assert claim_recall(one, judging(supports=known)) == 2 / 4
    assert claim_recall(one, judging(supports=known | {("pose", "soup"): late})) == late
    assert claim_recall(one, judging(supports=known | {("pose", "topic"): Unscored(reason="spent")})) == Unscored(
        reason="spent"
    )
    assert claim_recall(observe("pose", ["topic"]), judging(supports=known | {("pose", "soup"): late})) == 1 / 4


def test_of_a_judge_that_knows_it_equals_context_recall_of_any_selection() -> None:
    """A call a distinct query and chunk, and no further one for any selection."""
    many, known = [*random_observations(24, seed=3)], Known(oracle())
    supports = {}
    for task in tasks([CLAIM_RECALL], many):
        graded = asyncio.run(grade(task, known))
        supports[task.case_id, task.chunk_ids[0]] = graded.claims
    found = [claim_recall(one, judging(supports=supports)) for one in many]
    assert found == [by_ragas(RECALL, one, oracle()) for one in many] and len(set(found)) > 2
    assert len(known.prompts) == len({(o.case.id, c.chunk.chunk_id) for o in many for c in o.selection})


EXAMPLE = [
    Claim(statement="Albert Einstein was born in Ulm.", attributed=1, reason=""),
    Claim(statement="He received the Nobel Prize in Physics.", attributed=1, reason=""),
]


def test_statements_copied_from_elsewhere_are_foreign() -> None:
    own = Claim(statement="The encoder is calibrated at its mark.", attributed=0, reason="")
    reference = "Calibrate each encoder at the mark on the joint."
    assert foreign(reference, EXAMPLE) == tuple(EXAMPLE)
    assert foreign(reference, [own, own]) == ()
    assert foreign(reference, [*EXAMPLE, own]) == tuple(EXAMPLE)
    assert foreign(reference, [EXAMPLE[0], own]) == ()
    assert foreign(reference, []) == ()


@pytest.mark.parametrize(
    ("reference", "statement"),
    [
        ("Encoder werden kalibriert.", "Die Kalibrierung der Encoder."),
        ("编码器需要校准", "校准编码器"),
        ("It takes 5 V.", "5 V are needed."),
        ("Yes.", "No, never."),
    ],
)
def test_a_statement_in_other_words_is_not_foreign(reference: str, statement: str) -> None:
    assert foreign(reference, [Claim(statement=statement, attributed=1, reason="")]) == ()
