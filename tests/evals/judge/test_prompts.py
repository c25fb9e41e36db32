from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from ragas.metrics import collections
from ragas.metrics.collections.context_entity_recall.util import ExtractEntitiesInput
from ragas.metrics.collections.context_precision.util import ContextPrecisionInput
from ragas.metrics.collections.context_recall.util import ContextRecallInput
from ragas.metrics.collections.context_relevance.util import ContextRelevanceInput
from ragas.prompt.metrics.base_prompt import BasePrompt

from evals.judge.ask.llm import RagasJudge
from evals.judge.prompts import QuickPrompt, _around, quicken
from evals.judge.tasks import JUDGED
from tests.support.judged import ALL, Known, oracle

INPUTS: dict[str, type[BaseModel]] = dict(
    zip(ALL, (ContextPrecisionInput, ContextRecallInput, ContextRelevanceInput, ExtractEntitiesInput), strict=True)
)


def made(metric: str) -> Any:
    return getattr(collections, JUDGED[metric].class_name)(llm=RagasJudge(Known(oracle())))


def prompts(metric: Any, kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(metric).items() if isinstance(value, kind)}


@pytest.mark.parametrize("metric", ALL)
@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3))
def test_prompts_are_those_of_ragas_word_for_word(metric: str, words: list[str]) -> None:
    data = INPUTS[metric](**dict(zip(INPUTS[metric].model_fields, words, strict=False)))
    theirs, ours = prompts(made(metric), BasePrompt), prompts(quicken(made(metric)), QuickPrompt)
    assert theirs.keys() == ours.keys() != set()
    for name, prompt in theirs.items():
        assert ours[name].to_string(data) == prompt.to_string(data)


@pytest.mark.parametrize("metric", ALL)
def test_their_beginning_is_built_once(metric: str) -> None:
    quick = prompts(quicken(made(metric)), QuickPrompt)
    kinds: list[Any] = [type(prompt._prompt) for prompt in quick.values()]
    assert kinds and all(_around(kind, INPUTS[metric]) for kind in kinds)


class Input(BaseModel):
    question: str


class Numbered(BaseModel):
    question: str
    number: int


class Plain(BasePrompt):  # type: ignore[misc]
    """A prompt that is put more than text in."""

    instruction, examples = "Answer.", ()
    input_model = output_model = Numbered


class Echoing(BasePrompt):  # type: ignore[misc]
    """A prompt whose instruction quotes the question."""

    input_model = output_model = Input
    examples = ()

    def to_string(self, data: Input) -> str:
        return f"Answer {data.question}: {data.model_dump_json(indent=4, exclude_none=True)}"


def test_a_prompt_that_is_built_in_another_way_is_left_as_it_is() -> None:
    assert _around(Echoing, Input) is None
    assert _around(Plain, Numbered) is None
    data = Numbered(question="why?", number=1)
    assert QuickPrompt(Plain()).to_string(data) == Plain().to_string(data)
    assert QuickPrompt(Echoing()).to_string(Input(question="why?")) == Echoing().to_string(Input(question="why?"))
