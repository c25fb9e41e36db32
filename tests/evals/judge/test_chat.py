"""The models that settings name: how they are built, asked once, and told apart."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict
from ragas.metrics.collections.context_recall.util import ContextRecallInput, ContextRecallPrompt
from ragas.metrics.collections.context_recall.util import ContextRecallOutput as Recall
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput as Rating
from syrupy.assertion import SnapshotAssertion

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.answers import MalformedError, read_verdict
from evals.judge.chat import Chat, make_chat
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict
from tests.support.chat_server import KEYS, MODEL, ChatServer, OpenAIChatServer
from tests.support.command import refusal
from tests.support.judged import RIGHT, observe, oracle, prompt, settings

USEFUL, USELESS = '{"reason": "", "verdict": 1}', '{"reason": "", "verdict": 0}'
FACTORY = """
import os
from langchain_core.language_models import FakeListChatModel
class Silent(FakeListChatModel):
    @property
    def _identifying_params(self):
        return {}
def telling():
    return FakeListChatModel(responses=[os.environ["SAID"]])
def silent():
    return Silent(responses=[os.environ["SAID"]])
"""


def make(model: str, env: Mapping[str, str] | None = None, **values: Any) -> Chat:
    return make_chat(JudgeConfig.model_validate({"model": model, **values}), env or {})


def asked(chat: Chat, *, structured: bool = True) -> Any:
    return asyncio.run(chat.ask(prompt(), Verdict, structured=structured))


def test_one_question_is_one_request_of_the_model_with_temperature_seed_and_limit(server: ChatServer) -> None:
    chat = make_chat(settings(server, max_output_tokens=99), KEYS)
    for structured in (True, False):
        answer = asked(chat, structured=structured)
        usage = answer.usage_metadata
        assert (answer.text, usage["input_tokens"] > 100, usage["output_tokens"] > 5) == (RIGHT, True, True)
    with_schema, without = server.chats
    assert (with_schema.model, with_schema.temperature, with_schema.seed) == (MODEL, 0, 0)
    assert 99 in (with_schema.body.get("max_tokens"), with_schema.body.get("max_completion_tokens"))
    assert "ContextPrecisionOutput" in str(with_schema.response_format) and without.response_format is None
    own = make_chat(settings(server, api_key_env="MINE"), {"MINE": server.key})
    assert asked(own).text == RIGHT
    assert server.key not in str(own.parameters) + str(own.arguments)


REFUSED = (
    "cohre:command-a", "cohere:command-a", "mistralai:m", "anthropic:m", "ollama:m", "python:nowhere:make",
    "python:os.path:join", "python:builtins:dict",
)  # fmt: skip


def test_a_model_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    for extra in ("anthropic", "ollama"):
        monkeypatch.setitem(sys.modules, f"langchain_{extra}", None)
    told = {model: refusal(JudgeError, make, model) for model in REFUSED}
    assert told == snapshot
    assert {said.count("judge.model") for said in told.values()} == {1}
    with pytest.raises(JudgeError, match="expected it in MINE, which is not set"):
        make("openai:m", base_url="http://127.0.0.1:1/v1", api_key_env="MINE")


def test_keys_are_those_under_which_verdicts_are_stored() -> None:
    """With another ragas, or others of these parts, verdicts are bought again.

    A server of one's own, at an address, needs no API key.
    """
    keys = {"COHERE_API_KEY": "x", "OPENAI_API_KEY": "x"}
    for chat, key in (
        (make("cohere:command-a", keys), "8079ce6f7622293c"),
        (make("openai:gpt", base_url="http://localhost:1/v1"), "1e34c6bf684d3913"),
        (make("openai:gpt", keys, temperature=None, max_output_tokens=99), "043d4152ea525706"),
    ):
        assert chat.key("prompt ü", Verdict).hex()[:16] == key


def judged(file: Path, env: Mapping[str, str] | None = None, **values: Any) -> tuple[int, int]:
    with closing(Judge.open(JudgeConfig.model_validate({"cache_path": file, **values}), env or {})) as judge:
        said = judge.judge([PRECISION], [observe("pose", ["forward"])])
    verdict = said.verdicts["pose", "forward"]
    assert isinstance(verdict, ChunkVerdict)
    return verdict.verdict, said.usage.calls


def test_a_class_that_tells_parameters_is_a_judge(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_judges.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)  # a script's path does not begin with the working folder
    for said, expected in ((USEFUL, (1, 1)), (USELESS, (0, 1)), (USEFUL, (1, 0))):
        monkeypatch.setenv("SAID", said)
        assert judged(file, model="python:two_judges:telling") == expected
    with pytest.raises(JudgeError, match="Silent does not tell its parameters; define its property"):
        make("python:two_judges:silent")


@pytest.mark.parametrize("name", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_an_address_in_the_environment_is_another_judge(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = partial(OpenAIChatServer, models=("m",))
    with serving(oracle()) as right, serving(oracle(false_useless=1.0)) as wrong:
        for server, expected in ((right, (1, 1)), (wrong, (0, 1)), (right, (1, 0))):
            monkeypatch.setenv(name, server.base_url)
            assert judged(file, {"OPENAI_API_KEY": server.key}, model="openai:m") == expected


# What counts as a verdict, and what does not

EXAMPLE = (
    "the provided context discusses the Andes mountain range, which, while impressive, does not include Mount Everest "
    "or directly relate to the question about the world's tallest mountain."
)


def claims(*attributed: int, statements: Sequence[str] = ("s",) * 9) -> str:
    said = zip(statements, attributed, strict=False)
    return json.dumps({"classifications": [{"statement": s, "reason": "r", "attributed": a} for s, a in said]})


def test_the_last_object_of_the_schema_is_the_verdict_whatever_stands_around_it() -> None:
    for text in (
        RIGHT,
        f"Sure! Here it is:\n\n{RIGHT}\n\nAnything else?",
        f"I'm sorry, here it is again: ```json\n{RIGHT}\n```",
        f"For the set {{a, b}} I say {RIGHT}, where {{a}} is the question.",
        f'<think>{prompt()}: {{"verdict": 0, "reason": "at first"}}</think>{RIGHT}',
        '{"verdict": "1", "reason": "a number in quotes"}',
        '{"reason": "a brace } in\na text {", "verdict": 1}',
    ):
        assert read_verdict(AIMessage(text), Verdict, prompt()).verdict == 1


NO_VERDICTS: list[tuple[Any, str, str]] = [
    *((Verdict, text, "") for text in ("  \n", "Looks useful to me.", '{"reason": "it he', "[1, 0]", "{" * 100_000)),
    *((Verdict, text, "") for text in ("{'reason': 'python', 'verdict': 1}", '{"answer": "yes"}')),
    *((Verdict, f'{{"reason": "r", "verdict": {value}}}', "") for value in ("0.5", "-1", "1" * 4_000, "1" * 5_000)),
    *((Verdict, RIGHT, finish) for finish in ("length", "max_tokens", "content_filter")),
    (Verdict, "I can't help.", "refusal"),
    (Verdict, f"<think>A draft: {RIGHT}</think> Not useful.", ""),
    (Rating, '{"rating": 3}', ""),
    (Recall, claims(), ""),
    (Recall, claims(1, 2), ""),
]


def test_what_is_no_verdict_says_why(snapshot: SnapshotAssertion) -> None:
    answers = [
        (AIMessage(text, response_metadata={"finish_reason": finish}), schema) for schema, text, finish in NO_VERDICTS
    ]
    told = [refusal(MalformedError, read_verdict, answer, schema, "") for answer, schema in answers]
    assert told == snapshot
    assert max(map(len, told)) < 400


def test_an_answer_that_echoes_its_prompt_is_no_verdict() -> None:
    for text in (
        f"{prompt()}\n{RIGHT}",
        prompt().replace("\n", " ")[: len(prompt()) // 2],
        json.dumps({"reason": EXAMPLE, "verdict": 0}),
    ):
        with pytest.raises(MalformedError, match="repeats its prompt, or an example in it"):
            read_verdict(AIMessage(text), Verdict, prompt())


def test_what_quotes_the_passages_of_its_prompt_is_no_echo() -> None:
    asked = "Judge the passage.\n" + "A sentence of the passage. " * 10
    said = json.dumps({"reason": "A sentence of the passage. " * 9, "verdict": 1})
    assert read_verdict(AIMessage(said), Verdict, asked).verdict == 1


EINSTEIN, NOBEL = "He published 4 papers in 1905", "he received the 1921 Nobel Prize in Physics"


def test_statements_of_the_examples_are_no_verdict_and_those_in_other_words_or_another_language_are_one() -> None:
    for reference, statements, is_copied in (
        ("Calibrate each encoder at the mark.", [EINSTEIN, NOBEL, "The encoder is calibrated."], True),
        ("Calibrate each encoder at the mark.", ["The encoder is calibrated.", "England"], False),
        ("England", ["England"], False),
        ("ROS 2 uses DDS.", ["DDS is the layer below ROS"], False),
        ("Die Batterie wird vor dem Ausbau getrennt.", ["You disconnect the pack first."], False),
        ("编码器需要校准", ["The encoder needs a calibration."], False),
    ):
        asked = ContextRecallPrompt().to_string(ContextRecallInput(question="q", context="c", answer=reference))
        answer = AIMessage(claims(1, 1, 1, statements=statements))
        if is_copied:
            with pytest.raises(MalformedError, match="most statements are of an example in the prompt, such as 'he"):
                read_verdict(answer, Recall, asked)
        else:
            assert [one.statement for one in read_verdict(answer, Recall, asked).classifications] == statements


def test_half_a_character_is_replaced() -> None:
    for half in ("\\ud83d", "\ud83d"):
        answer = AIMessage(f'{{"reason": "an {half}, \\ud83d\\ude00", "verdict": 1}}')
        assert read_verdict(answer, Verdict, prompt()).reason == "an ?, \U0001f600"
