"""The models that settings name: how they are built, asked once, and told apart."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict
from syrupy.assertion import SnapshotAssertion

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.chat import Chat, make_chat
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict
from tests.support.chat_server import MODEL, ChatServer, OpenAIChatServer
from tests.support.judged import RIGHT, keys, observe, oracle, prompt, settings

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
    chat = make_chat(settings(server, max_output_tokens=99), keys(server))
    for structured in (True, False):
        answer = asked(chat, structured=structured)
        assert (answer.text, answer.tokens_in > 100, answer.tokens_out > 5) == (RIGHT, True, True)
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


def test_a_model_that_cannot_be_had_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    for extra in ("anthropic", "ollama"):
        monkeypatch.setitem(sys.modules, f"langchain_{extra}", None)
    told = {}
    for model in REFUSED:
        with pytest.raises(JudgeError) as caught:
            make(model)
        told[model] = str(caught.value)
    assert told == snapshot
    assert {said.count("judge.model") for said in told.values()} == {1}
    with pytest.raises(JudgeError, match="expected it in MINE, which is not set"):
        make("openai:m", base_url="http://127.0.0.1:1/v1", api_key_env="MINE")


# Which models are the same


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"model": "cohere:command-a"}, "8079ce6f7622293c"),
        ({"model": "openai:gpt", "base_url": "http://localhost:1/v1"}, "1e34c6bf684d3913"),
        ({"model": "openai:gpt", "temperature": None, "max_output_tokens": 99}, "043d4152ea525706"),
    ],
)
def test_keys_are_those_under_which_verdicts_are_stored(values: dict[str, Any], key: str) -> None:
    """With another ragas, or others of these parts, verdicts are bought again.

    A server of one's own, at an address, needs no API key.
    """
    env = {} if "base_url" in values else {"COHERE_API_KEY": "x", "OPENAI_API_KEY": "x"}
    assert make(values.pop("model"), env, **values).key("prompt ü", Verdict).hex()[:16] == key


def judged(file: Path, env: Mapping[str, str] | None = None, **values: Any) -> tuple[int, int]:
    """The verdict, and how many calls it took."""
    judge = Judge.open(JudgeConfig.model_validate({"cache_path": file, **values}), env or {})
    try:
        said = judge.judge([PRECISION], [observe("pose", ["forward"])])
    finally:
        judge.close()
    verdict = said.verdicts["pose", "forward"]
    assert isinstance(verdict, ChunkVerdict)
    return verdict.verdict, said.usage.calls


def test_a_class_of_the_users_is_a_judge_if_it_tells_its_parameters(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two_judges.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    for said, expected in ((USEFUL, (1, 1)), (USELESS, (0, 1)), (USEFUL, (1, 0))):
        monkeypatch.setenv("SAID", said)
        assert judged(file, model="python:two_judges:telling") == expected
    with pytest.raises(JudgeError, match="Silent does not tell its parameters; define its property"):
        make("python:two_judges:silent")


@pytest.mark.parametrize("name", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_another_address_in_the_environment_is_another_judge(
    name: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        OpenAIChatServer(oracle(), models=("m",)) as right,
        OpenAIChatServer(oracle(false_useless=1.0), models=("m",)) as wrong,
    ):
        for server, expected in ((right, (1, 1)), (wrong, (0, 1)), (right, (1, 0))):
            monkeypatch.setenv(name, server.base_url)
            assert judged(file, {"OPENAI_API_KEY": server.key}, model="openai:m") == expected
