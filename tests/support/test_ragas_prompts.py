from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragas.metrics.collections.context_entity_recall.util import ExtractEntitiesInput, ExtractEntitiesPrompt
from ragas.metrics.collections.context_precision.util import ContextPrecisionInput, ContextPrecisionPrompt
from ragas.metrics.collections.context_recall.util import ContextRecallInput, ContextRecallPrompt
from ragas.metrics.collections.context_relevance.util import (
    ContextRelevanceInput,
    ContextRelevanceJudge1Prompt,
    ContextRelevanceJudge2Prompt,
)
from ragas.metrics.collections.faithfulness.util import NLIStatementInput, NLIStatementPrompt

from tests.support.ragas_prompts import INPUT, SCHEMA, Metric, Question, read_prompt

TRICKY = (
    'a "quoted" {brace} \\ and\n\ttabs, ü, 漢字 \u2028',
    f"{SCHEMA}\n{{}}",
    f'{INPUT} {{"question": "?", "context": "", "answer": ""}}\nOutput: ',
    "You are a world class expert. As a specially designed one, too",
    "null",
)
PROMPTS: dict[tuple[Metric, int], tuple[type, type, tuple[str, ...]]] = {
    (Metric.PRECISION, 0): (ContextPrecisionPrompt, ContextPrecisionInput, ("question", "context", "answer")),
    (Metric.RECALL, 0): (ContextRecallPrompt, ContextRecallInput, ("question", "context", "answer")),
    (Metric.RELEVANCE, 1): (ContextRelevanceJudge1Prompt, ContextRelevanceInput, ("user_input", "context")),
    (Metric.RELEVANCE, 2): (ContextRelevanceJudge2Prompt, ContextRelevanceInput, ("user_input", "context")),
    (Metric.ENTITIES, 0): (ExtractEntitiesPrompt, ExtractEntitiesInput, ("text",)),
}


def prompt_of(metric: Metric, judge: int, query: str, context: str, reference: str) -> str:
    prompt, given_as, names = PROMPTS[metric, judge]
    by_name = {"question": query, "user_input": query, "context": context, "text": context, "answer": reference}
    text: str = prompt().to_string(given_as(**{name: by_name[name] for name in names}))
    return text


def question(metric: Metric, judge: int, query: str, context: str, reference: str) -> Question:
    asks = metric in (Metric.PRECISION, Metric.RECALL)
    return Question(
        metric=metric,
        judge=judge,
        query=query if metric is not Metric.ENTITIES else "",
        context=context,
        reference=reference if asks else "",
    )


@pytest.mark.parametrize("which", PROMPTS)
@pytest.mark.parametrize("text", TRICKY)
def test_reads_a_real_prompt_whatever_is_in_it(which: tuple[Metric, int], text: str) -> None:
    assert read_prompt(prompt_of(*which, text, text, text)) == question(*which, text, text, text)


@pytest.mark.parametrize("which", PROMPTS)
@given(texts=st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=20)] * 3))
def test_reads_any_text(which: tuple[Metric, int], texts: tuple[str, str, str]) -> None:
    assert read_prompt(prompt_of(*which, *texts)) == question(*which, *texts)


def test_reads_past_what_an_adapter_puts_around() -> None:
    asked = prompt_of(Metric.PRECISION, 0, "q", "c", "r")
    repaired = f"You are a judge.\n\n{asked}\n\nyes\n\nThat was no JSON. Answer {{'verdict': 0 or 1}} as JSON."
    assert read_prompt(repaired) == question(Metric.PRECISION, 0, "q", "c", "r")


def other_prompt() -> str:
    text: str = NLIStatementPrompt().to_string(NLIStatementInput(context="c", statements=["s"]))
    return text


@pytest.mark.parametrize(
    "text",
    ["", "Reply with OK.", SCHEMA, f"{SCHEMA}\n[1]{INPUT} 2", f"{SCHEMA} {{broken", other_prompt()],
    ids=["empty", "small talk", "mark alone", "no objects", "broken", "another metric"],
)
def test_does_not_read_what_is_no_prompt_of_these(text: str) -> None:
    assert read_prompt(text) is None


def test_every_metric_is_read() -> None:
    asked: Any = {which for which, _ in PROMPTS}
    assert asked == set(Metric)
