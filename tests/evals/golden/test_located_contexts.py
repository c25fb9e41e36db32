"""Texts located in the chunks of a collection."""

import pytest

from evals.cases.relevance import normalise
from evals.golden.importing import Located, locate
from retrievers.records import Chunk

STEPPER = "A stepper turns at up to a thousand revolutions each minute before it loses steps."
RATE = "Ask for the rate of a channel with the hz verb,\nand wait for ten seconds until it is steady."
CHUNKS = [
    Chunk(chunk_id="m", point_id="m", text=STEPPER, source_url="/m"),
    Chunk(chunk_id="t", point_id="t", text=RATE, source_url="/t"),
]


@pytest.mark.parametrize(
    ("text", "how", "quotes"),
    [
        ("up to a thousand revolutions each minute", "exact", ["up to a thousand revolutions each minute"]),
        (f"Intro. {STEPPER} And more. {' '.join(RATE.split())}", "several chunks", [STEPPER, RATE]),
        ("A stepper turns at upto a thousand revolutions each minute before it looses steps.", "alike", None),
        ("Zebras have stripes on all of their legs.", "not found", []),
    ],
)
def test_a_text_is_found_exactly_or_nearly_or_not(text: str, how: str, quotes: list[str] | None) -> None:
    located = locate(Located(place="t:1", text=text), CHUNKS, [normalise(chunk.text) for chunk in CHUNKS])
    assert located.how == how
    if quotes is None:
        [evidence] = located.evidence
        assert evidence["quote"] in STEPPER and len(evidence["quote"]) > 60 and 85 <= located.score < 100
    else:
        assert [evidence["quote"] for evidence in located.evidence] == quotes
