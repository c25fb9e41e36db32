import json

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
        f"```json\n{RIGHT}\n```",
        f"For the set {{a, b}} I say {RIGHT}, where {{a}} is the question.",
        f'<think>{{"verdict": 0, "reason": "at first"}}</think>{RIGHT}',
        '{"verdict": "1", "reason": "a number in quotes"}',
        '{"reason": "a brace } in a text {", "verdict": 1}',
    ],
)
def test_the_last_object_of_the_schema_is_the_verdict_whatever_stands_around_it(text: str) -> None:
    assert read_verdict(Answer(text=text), Verdict).verdict == 1


def test_an_object_within_the_verdict_is_not_taken_for_it() -> None:
    text = claims(1, 0)
    assert [c.attributed for c in read_verdict(Answer(text=text), Recall).classifications] == [1, 0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(text=""), "empty"),
        (Answer(text="  \n"), "empty"),
        (Answer(text="Looks useful to me."), "got 'Looks useful to me.'"),
        (Answer(text='{"reason": "it he'), "expected a JSON object, got '{"),
        (Answer(text='{"reason": "it he', finish="MAX_TOKENS"), "max_output_tokens"),
        (Answer(text='{"reason": "it he', finish="length"), "it he"),
        (Answer(text="{'reason': 'python', 'verdict': 1}"), "python"),
        (Answer(text='{"answer": "yes"}'), "Field required"),
        (Answer(text='{"reason": "r", "verdict": "useful"}'), "verdict: "),
        (Answer(text='{"reason": "r", "verdict": 0.5}'), "verdict: "),
        (Answer(text="null"), "'null'"),
        (Answer(text="[1, 0]"), "[1, 0]"),
        (Answer(text='{"reason": "r", "verdict": 7}'), "verdict is 7, expected one of 0, 1"),
        (Answer(text='{"reason": "r", "verdict": -1}'), "verdict is -1"),
        (Answer(text=RIGHT, finish="content_filter"), "content_filter"),
        (Answer(text=RIGHT, finish="refusal"), "refused"),
        (Answer(text="I can't help.", finish="refusal"), '(refusal): "I can\'t help."'),
        (
            Answer(text="I'm sorry, but I can't help with that."),
            "\"I'm sorry, but I can't help with that.\"",
        ),
        (Answer(text="I’m really sorry, no."), "sorry"),
        (Answer(text="Sorry, no."), "Sorry, no."),
        (Answer(text="I cannot judge this."), "I cannot"),
        (Answer(text="Unfortunately, I am not able to."), "Unfortunately"),
        (Answer(text="As an AI language model, I have no opinion."), "As an AI"),
        (Answer(text="I think that it is useful."), "I think"),
        (Answer(text="The passage says: I'm sorry."), "The passage"),
        (Answer(text="{" * 100_000), "expected a JSON object, got '{"),
    ],
)
def test_what_is_no_verdict_says_why(answer: Answer, said: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_verdict(answer, Verdict)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_verdict_after_an_apology_counts() -> None:
    assert read_verdict(Answer(text=f"I'm sorry, here it is again: {RIGHT}"), Verdict).verdict == 1


def test_a_verdict_in_an_answer_that_was_cut_off_does_not_count() -> None:
    with pytest.raises(MalformedError, match="cut at its token limit"):
        read_verdict(Answer(text=RIGHT, finish="length"), Verdict)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (prompt(), "repeats its prompt"),
        (f"{prompt()}\n{RIGHT}", "repeats its prompt"),
        (prompt()[len(prompt()) // 3 :] + RIGHT, "repeats its prompt"),
        (prompt().replace("\n", " ")[: len(prompt()) // 2], "repeats its prompt"),
        (json.dumps({"reason": EXAMPLE, "verdict": 0}), "repeats its prompt, or an example"),
    ],
    ids=["whole", "before a verdict", "end", "beginning", "example"],
)
def test_an_answer_that_echoes_its_prompt_is_no_verdict(text: str, said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        read_verdict(Answer(text=text), Verdict, prompt())


def test_what_quotes_the_passages_of_its_prompt_is_no_echo() -> None:
    asked = "Judge the passage.\n" + "A sentence of the passage. " * 10
    said = json.dumps({"reason": "A sentence of the passage. " * 9, "verdict": 1})
    assert read_verdict(Answer(text=said), Verdict, asked).verdict == 1


def test_an_integer_of_more_digits_than_python_converts_is_no_verdict() -> None:
    for digits in (4_000, 5_000):
        with pytest.raises(MalformedError) as caught:
            read_verdict(Answer(text='{"reason": "r", "verdict": %s}' % ("1" * digits)), Verdict)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("rating", "fits"), [(0, True), (1, True), (2, True), (3, False), (-1, False)])
def test_a_rating_has_a_schema_of_its_own(rating: int, fits: bool) -> None:
    answer = Answer(text=json.dumps({"rating": rating}))
    if fits:
        assert read_verdict(answer, Rating).rating == rating
        return
    with pytest.raises(MalformedError, match="expected one of 0, 1, 2"):
        read_verdict(answer, Rating)


@pytest.mark.parametrize(
    ("text", "said"),
    [(claims(), "no statement"), (claims(1, 2), "attributed is 2 for 's', expected one of 0, 1")],
)
def test_statements_are_attributed_or_not(text: str, said: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_verdict(Answer(text=text), Recall)
    assert said in str(caught.value)
