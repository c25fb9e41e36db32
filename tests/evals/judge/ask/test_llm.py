import asyncio

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict

from evals.collect.observations import Failure
from evals.judge.ask.engine import UnansweredError
from evals.judge.ask.llm import RagasJudge
from tests.support.judged import Known
from tests.support.one_question import ORACLE, USELESS, prompt

BROKEN = Failure(type="Timeout", message="no answer in time")


def test_it_hands_prompts_on_and_remembers_the_answers() -> None:
    asker = Known(ORACLE)
    judge = RagasJudge(asker)
    said = [asyncio.run(judge.agenerate(text, Verdict)) for text in (prompt(), prompt(USELESS))]
    assert asker.prompts == [prompt(), prompt(USELESS)]
    assert judge.answers == said and [one.verdict for one in said] == [1, 0]
    assert judge.unanswered is None


def test_it_remembers_that_there_was_no_answer() -> None:
    judge = RagasJudge(Known(ORACLE, {2: BROKEN}))
    asyncio.run(judge.agenerate(prompt(), Verdict))
    with pytest.raises(UnansweredError):
        asyncio.run(judge.agenerate(prompt(USELESS), Verdict))
    assert judge.unanswered is not None and judge.unanswered.outcome == BROKEN
    assert len(judge.answers) == 1


def test_it_is_asked_asynchronously_alone() -> None:
    with pytest.raises(NotImplementedError, match="agenerate"):
        RagasJudge(Known(ORACLE)).generate(prompt(), Verdict)
