"""Statements of a judge that have nothing to do with the reference answer."""

import pytest

from evals.judge.tasks import foreign
from evals.judge.verdicts import Claim, sentences


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
