import json

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict
from ragas.metrics.collections.context_recall.util import ContextRecallOutput as Recall
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput as Rating

from evals.judge.ask.answers import ModelAnswer
from evals.judge.ask.parse import MalformedError, read_verdict

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
    assert read_verdict(ModelAnswer(text=text), Verdict).verdict == 1


def test_an_object_within_the_verdict_is_not_taken_for_it() -> None:
    text = claims(1, 0)
    assert [c.attributed for c in read_verdict(ModelAnswer(text=text), Recall).classifications] == [1, 0]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (ModelAnswer(text=""), "EmptyAnswer", "empty"),
        (ModelAnswer(text="  \n"), "EmptyAnswer", "empty"),
        (ModelAnswer(text="Looks useful to me."), "NoJson", "got prose: 'Looks useful to me.'"),
        (ModelAnswer(text='{"reason": "it he'), "InvalidJson", "no whole JSON object"),
        (ModelAnswer(text='{"reason": "it he', finish="MAX_TOKENS"), "Truncated", "max_output_tokens"),
        (ModelAnswer(text='{"reason": "it he', finish="length"), "Truncated", "it he"),
        (ModelAnswer(text="{'reason': 'python', 'verdict': 1}"), "InvalidJson", "python"),
        (ModelAnswer(text='{"answer": "yes"}'), "WrongSchema", "Field required"),
        (ModelAnswer(text='{"reason": "r", "verdict": "useful"}'), "WrongSchema", "verdict: "),
        (ModelAnswer(text='{"reason": "r", "verdict": 0.5}'), "WrongSchema", "verdict: "),
        (ModelAnswer(text="null"), "NoJson", "'null'"),
        (ModelAnswer(text="[1, 0]"), "NoJson", "[1, 0]"),
        (ModelAnswer(text='{"reason": "r", "verdict": 7}'), "OutOfRange", "verdict is 7, expected one of 0, 1"),
        (ModelAnswer(text='{"reason": "r", "verdict": -1}'), "OutOfRange", "verdict is -1"),
        (ModelAnswer(text=RIGHT, finish="content_filter"), "Refusal", "content_filter"),
        (ModelAnswer(text=RIGHT, finish="refusal"), "Refusal", "refused"),
        (ModelAnswer(text="I can't help.", finish="refusal"), "Refusal", '(refusal): "I can\'t help."'),
        (
            ModelAnswer(text="I'm sorry, but I can't help with that."),
            "Refusal",
            "\"I'm sorry, but I can't help with that.\"",
        ),
        (ModelAnswer(text="I’m really sorry, no."), "Refusal", "sorry"),
        (ModelAnswer(text="Sorry, no."), "Refusal", "Sorry, no."),
        (ModelAnswer(text="I cannot judge this."), "Refusal", "I cannot"),
        (ModelAnswer(text="Unfortunately, I am not able to."), "Refusal", "Unfortunately"),
        (ModelAnswer(text="As an AI language model, I have no opinion."), "Refusal", "As an AI"),
        (ModelAnswer(text="I think that it is useful."), "NoJson", "I think"),
        (ModelAnswer(text="The passage says: I'm sorry."), "NoJson", "The passage"),
        (ModelAnswer(text="{" * 100_000), "InvalidJson", "no whole JSON object"),
    ],
)
def test_what_is_no_verdict_says_why(answer: ModelAnswer, kind: str, said: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_verdict(answer, Verdict)
    assert caught.value.type == kind and said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_verdict_after_an_apology_counts() -> None:
    assert read_verdict(ModelAnswer(text=f"I'm sorry, here it is again: {RIGHT}"), Verdict).verdict == 1


def test_a_verdict_that_ends_at_its_limit_of_tokens_but_is_whole_counts() -> None:
    assert read_verdict(ModelAnswer(text=RIGHT, finish="length"), Verdict).verdict == 1


@pytest.mark.parametrize(("rating", "fits"), [(0, True), (1, True), (2, True), (3, False), (-1, False)])
def test_a_rating_has_a_schema_of_its_own(rating: int, fits: bool) -> None:
    answer = ModelAnswer(text=json.dumps({"rating": rating}))
    if fits:
        assert read_verdict(answer, Rating).rating == rating
        return
    with pytest.raises(MalformedError, match="expected one of 0, 1, 2"):
        read_verdict(answer, Rating)


@pytest.mark.parametrize(
    ("text", "said"),
    [(claims(), "no statement"), (claims(1, 2), "attributed is 2 for 's', expected 0 or 1")],
)
def test_statements_are_attributed_or_not(text: str, said: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_verdict(ModelAnswer(text=text), Recall)
    assert caught.value.type == "OutOfRange" and said in str(caught.value)
