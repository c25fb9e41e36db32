"""What counts as a verdict, and what does not."""

import json
from typing import Any

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict
from ragas.metrics.collections.context_recall.util import ContextRecallOutput as Recall
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput as Rating

from evals.judge.answers import Answer, MalformedError, read_verdict
from tests.support.one_question import prompt

EXAMPLE = (
    "the provided context discusses the Andes mountain range, which, while impressive, does not include Mount Everest "
    "or directly relate to the question about the world's tallest mountain."
)
RIGHT = '{"reason": "it helps", "verdict": 1}'


def claims(*attributed: int) -> str:
    return json.dumps({"classifications": [{"statement": "s", "reason": "r", "attributed": a} for a in attributed]})


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
    assert read_verdict(Answer(text=text), Verdict).verdict == 1


def test_an_object_within_the_verdict_is_not_taken_for_it() -> None:
    said = read_verdict(Answer(text=claims(1, 0)), Recall)
    assert [one.attributed for one in said.classifications] == [1, 0]


@pytest.mark.parametrize(
    ("text", "finish", "schema", "said"),
    [
        ("  \n", "", Verdict, "empty"),
        ("Looks useful to me.", "", Verdict, "got 'Looks useful to me.'"),
        ('{"reason": "it he', "", Verdict, "expected a JSON object, got '{"),
        (RIGHT, "length", Verdict, "cut off at judge.max_output_tokens"),
        (RIGHT, "max_tokens", Verdict, "it ends: "),
        ("{'reason': 'python', 'verdict': 1}", "", Verdict, "python"),
        ("[1, 0]", "", Verdict, "[1, 0]"),
        ('{"answer": "yes"}', "", Verdict, "Field required"),
        ('{"reason": "r", "verdict": 0.5}', "", Verdict, "verdict: "),
        ('{"reason": "r", "verdict": -1}', "", Verdict, "verdict is -1, expected one of 0, 1"),
        (RIGHT, "content_filter", Verdict, "refused to answer (content_filter)"),
        ("I can't help.", "refusal", Verdict, '(refusal): "I can\'t help."'),
        ("{" * 100_000, "", Verdict, "expected a JSON object, got '{"),
        ('{"reason": "r", "verdict": %s}' % ("1" * 4_000), "", Verdict, "verdict"),
        ('{"reason": "r", "verdict": %s}' % ("1" * 5_000), "", Verdict, "expected a JSON object"),
        ('{"rating": 3}', "", Rating, "rating is 3, expected one of 0, 1, 2"),
        (claims(), "", Recall, "no statement of the reference was classified"),
        (claims(1, 2), "", Recall, "attributed is 2, expected one of 0, 1"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_what_is_no_verdict_says_why(text: str, finish: str, schema: Any, said: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_verdict(Answer(text=text, finish=finish), schema)
    assert said in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        prompt(),
        f"{prompt()}\n{RIGHT}",
        prompt()[len(prompt()) // 3 :] + RIGHT,
        prompt().replace("\n", " ")[: len(prompt()) // 2],
        json.dumps({"reason": EXAMPLE, "verdict": 0}),
    ],
    ids=["whole", "before a verdict", "end", "beginning", "example"],
)
def test_an_answer_that_echoes_its_prompt_is_no_verdict(text: str) -> None:
    with pytest.raises(MalformedError, match="repeats its prompt, or an example in it"):
        read_verdict(Answer(text=text), Verdict, prompt())


def test_what_quotes_the_passages_of_its_prompt_is_no_echo() -> None:
    asked = "Judge the passage.\n" + "A sentence of the passage. " * 10
    said = json.dumps({"reason": "A sentence of the passage. " * 9, "verdict": 1})
    assert read_verdict(Answer(text=said), Verdict, asked).verdict == 1
