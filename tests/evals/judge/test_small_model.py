"""The judge on a real model, which says the right thing, or in other words, in other keys, without end, or nothing."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_relevance.util import (
    ContextRelevanceInput,
    ContextRelevanceJudge1Prompt,
    ContextRelevanceOutput,
)

from evals.judge.chat import make_chat
from evals.judge.config import JudgeConfig
from evals.judge.engine import Engine, UnansweredError
from evals.records import Failure
from tests.support.one_question import USEFUL, USELESS, prompt
from tests.support.small_model import MODEL, absent, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(absent()), reason=absent())]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


def asked(url: str, structured: str, prompts: Sequence[str], schema: type[BaseModel]) -> list[Any]:
    """Verdict or failure for each prompt; every failure is counted."""
    settings = {"max_output_tokens": 48, "max_concurrency": 2, "timeout_s": 200.0, "deadline_s": 400.0}
    config = JudgeConfig.model_validate(
        {"model": f"openai:{MODEL}", "base_url": url, "structured": structured, **settings}
    )

    async def ask(engine: Engine, text: str) -> Any:
        try:
            return await engine.ask(text, schema)
        except UnansweredError as error:
            return error.outcome

    async def ask_all(engine: Engine) -> list[Any]:
        return await asyncio.gather(*(ask(engine, text) for text in prompts))

    with Engine(make_chat(config, {}), config, None) as engine:
        outcomes = asyncio.run(ask_all(engine))
        assert engine.usage.failed == sum(isinstance(one, Failure) for one in outcomes)
        assert engine.usage.calls >= len(prompts)
    return outcomes


def relevance_prompt(context: str) -> str:
    given = ContextRelevanceInput(user_input="How is a pose reached?", context=context)
    text: str = ContextRelevanceJudge1Prompt().to_string(given)
    return text


def test_of_free_text_comes_a_verdict_or_a_failure_that_says_why(url: str) -> None:
    outcomes = asked(url, "off", [prompt(USEFUL), prompt(USELESS)], ContextPrecisionOutput)
    for one in outcomes:
        assert isinstance(one, ContextPrecisionOutput | Failure)
        assert one.message if isinstance(one, Failure) else one.verdict in (0, 1)


def test_under_a_schema_comes_a_rating_of_the_scale(url: str) -> None:
    outcomes = asked(url, "on", [relevance_prompt(USEFUL), relevance_prompt(USELESS)], ContextRelevanceOutput)
    ratings = [one.rating if isinstance(one, ContextRelevanceOutput) else one for one in outcomes]
    assert all(one in (0, 1, 2) or (isinstance(one, Failure) and one.type == "OutOfRange") for one in ratings)


def test_the_same_prompt_gets_the_same_again(url: str) -> None:
    first, second = (asked(url, "on", [relevance_prompt(USEFUL)], ContextRelevanceOutput) for _ in range(2))
    assert first == second
