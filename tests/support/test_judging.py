import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from ragas.metrics.collections import (
    ContextEntityRecall,
    ContextPrecisionWithReference,
    ContextRecall,
    ContextRelevance,
)

from tests.support.judging import Flaws, Labels, Oracle, average_precision
from tests.support.plain_judge import PlainJudge, scored
from tests.support.ragas_prompts import Metric, Question

QUERY = "How does an arm reach a pose?"
FORWARD = "Forward kinematics multiplies the transforms of Denavit and Hartenberg."
INVERSE = "Inverse kinematics searches joint angles."
TOPIC = "A topic is a named channel of ROS."
CLAIMS = {"The arm multiplies transforms.": [FORWARD], "It searches angles.": [INVERSE, TOPIC], "It flies.": []}
REFERENCE = " ".join(CLAIMS)
LABELS = {QUERY: Labels(useful={FORWARD, INVERSE}, claims=CLAIMS)}
ENTITIES = {"Denavit", "Hartenberg", "ROS", "France"}
MANY = [f"passage {number}" for number in range(4000)]


def oracle(**flaws: float) -> Oracle:
    return Oracle(LABELS, entities=ENTITIES, flaws=Flaws(**flaws))  # type: ignore[arg-type]


def judge(known: Oracle) -> PlainJudge:
    return PlainJudge(lambda prompt: known.answer(prompt) or "")


def precision(contexts: list[str], known: Oracle | None = None) -> float:
    metric = ContextPrecisionWithReference(llm=judge(known or oracle()))
    return scored(metric, user_input=QUERY, reference=REFERENCE, retrieved_contexts=contexts)


def recall(contexts: list[str], reference: str = REFERENCE) -> float:
    metric = ContextRecall(llm=judge(oracle()))
    return scored(metric, user_input=QUERY, reference=reference, retrieved_contexts=contexts)


@pytest.mark.parametrize(
    ("contexts", "value"),
    [
        ([FORWARD, INVERSE], 1.0),
        ([TOPIC, FORWARD, INVERSE], (1 / 2 + 2 / 3) / 2),
        ([FORWARD, TOPIC, TOPIC, INVERSE], (1 + 2 / 4) / 2),
        ([TOPIC], 0.0),
        ([FORWARD + " "], 0.0),
    ],
)
def test_precision_of_ragas_own_class_is_known(contexts: list[str], value: float) -> None:
    assert precision(contexts) == pytest.approx(value, abs=1e-9)
    assert average_precision(oracle().verdict(QUERY, text) for text in contexts) == pytest.approx(value, abs=1e-12)


def test_a_query_without_labels_has_no_use_for_anything() -> None:
    metric = ContextPrecisionWithReference(llm=judge(oracle()))
    assert scored(metric, user_input="onions?", reference="soup", retrieved_contexts=[FORWARD]) == 0


@pytest.mark.parametrize(
    ("contexts", "value"),
    [([FORWARD, INVERSE], 2 / 3), ([FORWARD], 1 / 3), ([TOPIC], 1 / 3), ([INVERSE, TOPIC], 1 / 3), (["nothing"], 0.0)],
)
def test_recall_of_ragas_own_class_is_known(contexts: list[str], value: float) -> None:
    assert recall(contexts) == pytest.approx(value, abs=1e-9)


def test_recall_asks_for_the_statements_of_the_reference_alone() -> None:
    assert recall([FORWARD], reference="The arm multiplies transforms.") == 1.0


def test_statements_come_in_the_order_of_the_reference_and_not_in_parts() -> None:
    known = Oracle({"q": Labels(claims={"two": [], "one and two": [], "three": []})})
    question = Question(metric=Metric.RECALL, query="q", reference="three. one and two.", context="c")
    assert known.claims(question) == ["three", "one and two"]


@pytest.mark.parametrize(
    ("contexts", "value"), [([TOPIC, FORWARD, INVERSE], 1.0), ([FORWARD, TOPIC], 0.5), ([TOPIC], 0.0)]
)
def test_relevance_of_ragas_own_class_is_known(contexts: list[str], value: float) -> None:
    assert scored(ContextRelevance(llm=judge(oracle())), user_input=QUERY, retrieved_contexts=contexts) == value


def test_entity_recall_of_ragas_own_class_is_known() -> None:
    metric = ContextEntityRecall(llm=judge(oracle()))
    value = scored(metric, reference=f"{FORWARD} {TOPIC}", retrieved_contexts=[TOPIC, "France"])
    assert value == pytest.approx(1 / 3, abs=1e-8)


@pytest.mark.parametrize(
    ("flaws", "on_useless", "on_useful"),
    [({}, 0.0, 1.0), ({"false_useful": 0.2}, 0.2, 1.0), ({"false_useless": 0.3}, 0.0, 0.7), ({"noise": 0.1}, 0.1, 0.9)],
)
def test_verdicts_err_by_the_share_that_was_set(flaws: dict[str, float], on_useless: float, on_useful: float) -> None:
    known = Oracle({"q": Labels(useful=MANY)}, flaws=Flaws(**flaws))  # type: ignore[arg-type]
    shares = [sum(known.verdict(query, text) for text in MANY) / len(MANY) for query in ("other", "q")]
    assert shares == pytest.approx([on_useless, on_useful], abs=0.03)


def test_bias_is_the_same_for_every_repeat_and_order() -> None:
    said = [answers(oracle(false_useful=0.5), texts) for texts in (MANY[:50], MANY[:50][::-1])]
    assert said[0] == said[1]
    assert set(said[0].values()) == {0, 1}


def answers(known: Oracle, texts: list[str]) -> dict[str, int]:
    questions = [Question(metric=Metric.PRECISION, query=QUERY, reference="r", context=text) for text in texts]
    for question in questions[::2]:
        known.reply(question)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(known.reply, questions))
    return {text: reply["verdict"] for text, reply in zip(texts, replies, strict=True)}


def test_noise_differs_from_repeat_to_repeat_and_is_told_beforehand() -> None:
    known = oracle(noise=0.5)
    question = Question(metric=Metric.PRECISION, query=QUERY, reference="r", context=TOPIC)
    said = [known.reply(question)["verdict"] for _ in range(20)]
    assert said == [known.verdict(QUERY, TOPIC, repeat) for repeat in range(20)]
    assert set(said) == {0, 1}
    assert said == [oracle(noise=0.5).verdict(QUERY, TOPIC, repeat) for repeat in range(20)]


def test_another_seed_errs_elsewhere() -> None:
    first, second = (
        [Oracle({}, flaws=Flaws(false_useful=0.5, seed=seed)).verdict("q", text) for text in MANY] for seed in (0, 1)
    )
    assert sum(a != b for a, b in zip(first, second, strict=True)) == pytest.approx(2000, abs=150)


def test_every_answer_errs_when_bias_is_complete() -> None:
    known = oracle(false_useful=1.0, false_useless=1.0)
    assert precision([FORWARD, TOPIC], known) == pytest.approx(0.5, abs=1e-9)
    assert (known.rating(QUERY, TOPIC, 1), known.rating(QUERY, FORWARD, 1)) == (2, 0)
    assert (known.attributed(QUERY, TOPIC, "It flies."), known.attributed(QUERY, FORWARD, next(iter(CLAIMS)))) == (1, 0)
    assert known.entities_of(TOPIC) == []


def test_the_two_judges_of_relevance_err_on_different_questions() -> None:
    known = Oracle({}, flaws=Flaws(false_useful=0.5))
    first, second = ([known.rating("q", text, judge) for text in MANY[:200]] for judge in (1, 2))
    assert set(first) == set(second) == {0, 2}
    assert first != second


def test_a_prompt_of_nobody_is_not_answered() -> None:
    assert oracle().answer("Reply with OK.") is None


def test_answers_with_a_reason() -> None:
    question = Question(metric=Metric.PRECISION, query="q", reference="r", context="c")
    assert json.dumps(oracle().reply(question)) == '{"reason": "The context is of no use for \'q\'.", "verdict": 0}'
