"""What a real model says to ragas' prompts: right, in other words, in other keys, or cut short."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain_core.exceptions import OutputParserException
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, ValidationError
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_relevance.util import (
    ContextRelevanceInput,
    ContextRelevanceJudge1Prompt,
    ContextRelevanceOutput,
)

from tests.support.one_question import USEFUL, USELESS, prompt
from tests.support.small_model import MODEL, absent, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(absent()), reason=absent())]
FAILURES = (ValidationError, OutputParserException, openai.LengthFinishReasonError)


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatOpenAI]:
    with serving() as url:
        yield ChatOpenAI(
            base_url=url, api_key="any", model=MODEL, temperature=0, seed=7, max_retries=0, timeout=120, max_tokens=64
        )


def relevance_prompt(context: str) -> str:
    asked = ContextRelevanceInput(user_input="How is a pose reached?", context=context)
    text: str = ContextRelevanceJudge1Prompt().to_string(asked)
    return text


def outcome(chat: ChatOpenAI, text: str, schema: type[BaseModel], **values: Any) -> BaseModel | Exception:
    """What a judge that takes answers as they come has in the end."""
    try:
        return schema.model_validate_json(chat.invoke(text, **values).text)
    except FAILURES as failure:
        return failure


def test_what_it_says_is_a_verdict_or_a_failure_of_a_known_kind(chat: ChatOpenAI) -> None:
    formats: tuple[dict[str, Any], ...] = ({}, {"response_format": {"type": "json_object"}})
    outcomes = [
        outcome(chat, prompt(context), ContextPrecisionOutput, **values)
        for context in (USEFUL, USELESS)
        for values in formats
    ]
    assert {type(one) for one in outcomes} <= {ContextPrecisionOutput, *FAILURES}


def test_under_a_schema_it_says_nothing_else(chat: ChatOpenAI) -> None:
    structured = chat.with_structured_output(ContextRelevanceOutput)
    ratings = [structured.invoke(relevance_prompt(context)) for context in (USEFUL, USELESS)]
    assert {type(rating) for rating in ratings} == {ContextRelevanceOutput}


def test_it_says_the_same_again_and_counts_its_tokens(chat: ChatOpenAI) -> None:
    first, second = (chat.invoke("What is a robot?") for _ in range(2))
    assert first.text == second.text != ""
    assert first.usage_metadata is not None
    assert 0 < first.usage_metadata["output_tokens"] <= 64
