import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict
from ragas.metrics.collections.context_recall.util import ContextRecallInput, ContextRecallPrompt
from ragas.metrics.collections.context_recall.util import ContextRecallOutput as Recall
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput as Rating
from syrupy.assertion import SnapshotAssertion

from evals.judge.answers import Answer, MalformedError, read_verdict
from tests.support.judged import prompt

EXAMPLE = (
    "the provided context discusses the Andes mountain range, which, while impressive, does not include Mount Everest "
    "or directly relate to the question about the world's tallest mountain."
)
RIGHT = '{"reason": "it helps", "verdict": 1}'


def claims(*attributed: int, statements: Sequence[str] = ("s",) * 9) -> str:
    said = zip(statements, attributed, strict=False)
    return json.dumps({"classifications": [{"statement": s, "reason": "r", "attributed": a} for s, a in said]})


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"Sure! Here it is:\n\n{RIGHT}\n\nAnything else?",
        f"I'm sorry, here it is again: ```json\n{RIGHT}\n```",
        f"For the set {{a, b}} I say {RIGHT}, where {{a}} is the question.",
        f'<think>{{"verdict": 0, "reason": "at first"}}</think>{RIGHT}',
        '{"verdict": "1", "reason": "a number in quotes"}',
        '{"reason": "a brace } in a text {", "verdict": 1}',
    ],
)
def test_the_last_object_of_the_schema_is_the_verdict_whatever_stands_around_it(text: str) -> None:
    assert read_verdict(Answer(text=text), Verdict, "").verdict == 1


NO_VERDICTS: list[tuple[Any, str, str]] = [
    (Verdict, "  \n", ""),
    (Verdict, "Looks useful to me.", ""),
    (Verdict, '{"reason": "it he', ""),
    (Verdict, "[1, 0]", ""),
    (Verdict, "{" * 100_000, ""),
    (Verdict, "{'reason': 'python', 'verdict': 1}", ""),
    (Verdict, '{"answer": "yes"}', ""),
    *((Verdict, f'{{"reason": "r", "verdict": {value}}}', "") for value in ("0.5", "-1", "1" * 4_000, "1" * 5_000)),
    *((Verdict, RIGHT, finish) for finish in ("length", "max_tokens", "content_filter")),
    (Verdict, "I can't help.", "refusal"),
    (Rating, '{"rating": 3}', ""),
    (Recall, claims(), ""),
    (Recall, claims(1, 2), ""),
]


def test_what_is_no_verdict_says_why(snapshot: SnapshotAssertion) -> None:
    told = []
    for schema, text, finish in NO_VERDICTS:
        with pytest.raises(MalformedError) as caught:
            read_verdict(Answer(text=text, finish=finish), schema, "")
        told.append(str(caught.value))
    assert told == snapshot
    assert max(map(len, told)) < 400


@pytest.mark.parametrize(
    "text",
    [
        f"{prompt()}\n{RIGHT}",
        prompt().replace("\n", " ")[: len(prompt()) // 2],
        json.dumps({"reason": EXAMPLE, "verdict": 0}),
    ],
    ids=["before a verdict", "beginning", "example"],
)
def test_an_answer_that_echoes_its_prompt_is_no_verdict(text: str) -> None:
    with pytest.raises(MalformedError, match="repeats its prompt, or an example in it"):
        read_verdict(Answer(text=text), Verdict, prompt())


def test_what_quotes_the_passages_of_its_prompt_is_no_echo() -> None:
    asked = "Judge the passage.\n" + "A sentence of the passage. " * 10
    said = json.dumps({"reason": "A sentence of the passage. " * 9, "verdict": 1})
    assert read_verdict(Answer(text=said), Verdict, asked).verdict == 1


EINSTEIN, NOBEL = "He published 4 papers in 1905", "he received the 1921 Nobel Prize in Physics"


@pytest.mark.parametrize(
    ("reference", "statements", "is_copied"),
    [
        ("Calibrate each encoder at the mark.", [EINSTEIN, NOBEL, "The encoder is calibrated."], True),
        ("Calibrate each encoder at the mark.", ["The encoder is calibrated.", "England"], False),
        ("England", ["England"], False),
        ("ROS 2 uses DDS.", ["DDS is the layer below ROS"], False),
        ("Die Batterie wird vor dem Ausbau getrennt.", ["You disconnect the pack first."], False),
        ("编码器需要校准", ["The encoder needs a calibration."], False),
    ],
)
def test_statements_of_the_examples_are_no_verdict_and_those_in_other_words_or_another_language_are_one(
    reference: str, statements: list[str], is_copied: bool
) -> None:
    asked = ContextRecallPrompt().to_string(ContextRecallInput(question="q", context="c", answer=reference))
    answer = Answer(text=claims(1, 1, 1, statements=statements))
    if is_copied:
        with pytest.raises(MalformedError, match="most statements are of an example in the prompt, such as 'he"):
            read_verdict(answer, Recall, asked)
    else:
        assert [one.statement for one in read_verdict(answer, Recall, asked).classifications] == statements


@pytest.mark.parametrize("half", ["\\ud83d", "\ud83d"], ids=["escape", "character"])
def test_half_a_character_is_replaced(half: str) -> None:
    answer = Answer.of(AIMessage(f'{{"reason": "an {half}, \\ud83d\\ude00", "verdict": 1}}'))
    assert read_verdict(answer, Verdict, prompt()).reason == "an ?, \U0001f600"
