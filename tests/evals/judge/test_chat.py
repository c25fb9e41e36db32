import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.answers import Answer
from evals.judge.chat import Chat, make_chat
from tests.support.chat_faults import FILTERED, REFUSAL
from tests.support.chat_server import MODEL, ChatServer, CohereChatServer
from tests.support.judges import keys, settings
from tests.support.one_question import ORACLE, RIGHT, prompt
from tests.support.openai_server import OpenAIChatServer

SERVERS = (CohereChatServer, OpenAIChatServer)


def make(model: str, env: dict[str, str] | None = None, **values: Any) -> Any:
    return make_chat(JudgeConfig.model_validate({"model": model, **values}), env or {})


def asked(chat: Chat, *, structured: bool = True) -> Answer:
    return asyncio.run(chat.ask(prompt(), Verdict, structured=structured))


@pytest.fixture(scope="module", params=SERVERS, ids=lambda kind: kind.__name__)
def server(request: pytest.FixtureRequest) -> Any:
    with request.param(ORACLE) as running:
        yield running


def test_one_question_is_one_request_and_one_answer_with_its_tokens(server: ChatServer) -> None:
    server.requests.clear()
    answer = asked(make_chat(settings(server), keys(server)), structured=True)
    assert answer.text == RIGHT and answer.finish in ("COMPLETE", "stop")
    assert (answer.tokens_in or 0) > 100 and (answer.tokens_out or 0) > 5
    assert len(server.chats) == 1


def test_temperature_and_seed_are_sent_and_the_schema_where_asked(server: ChatServer) -> None:
    server.requests.clear()
    chat = make_chat(settings(server, temperature=0.0, max_output_tokens=99), keys(server))
    for structured in (True, False):
        asked(chat, structured=structured)
    with_schema, without = (request.body for request in server.chats)
    assert with_schema["temperature"] == 0 and with_schema["seed"] == 0
    assert 99 in (with_schema.get("max_tokens"), with_schema.get("max_completion_tokens"))
    assert "ContextPrecisionOutput" in str(with_schema["response_format"])
    assert "response_format" not in without


def test_a_parameter_that_is_left_out_is_not_sent(server: ChatServer) -> None:
    server.requests.clear()
    asked(make_chat(settings(server, temperature=None), keys(server)), structured=False)
    if isinstance(server, OpenAIChatServer):
        assert "temperature" not in server.chats[0].body


@pytest.mark.parametrize("fault", ["429", "500", "reset", "401", "502 HTML"])
def test_nothing_below_us_tries_again(server: ChatServer, fault: str) -> None:
    chat = make_chat(settings(server), keys(server))
    server.requests.clear()
    with server.faulty(fault), pytest.raises(Exception) as caught:
        asked(chat, structured=True)
    assert len(server.chats) == 1 and not isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("structured", [True, False])
def test_a_cut_answer_is_an_answer_with_its_tokens(server: ChatServer, structured: bool) -> None:
    chat = make_chat(settings(server), keys(server))
    with server.faulty("cut"):
        answer = asked(chat, structured=structured)
    assert answer.finish in ("MAX_TOKENS", "length") and answer.text == RIGHT[: len(RIGHT) // 2]
    assert answer.tokens_in == len(prompt()) // 4 and answer.tokens_out == len(answer.text) // 4


@pytest.mark.parametrize("structured", [True, False])
def test_a_filtered_answer_is_an_answer(server: ChatServer, structured: bool) -> None:
    chat = make_chat(settings(server), keys(server))
    with server.faulty(FILTERED):
        answer = asked(chat, structured=structured)
    assert answer.finish in ("ERROR_TOXIC", "content_filter") and answer.text == ""


def test_a_refusal_is_quoted(server: ChatServer) -> None:
    chat = make_chat(settings(server), keys(server))
    with server.faulty("refusal"):
        assert asked(chat, structured=True).text == REFUSAL


def test_what_an_answer_depends_on_is_in_the_parameters() -> None:
    one = make("openai:m", base_url="http://localhost:1/v1")
    assert one.parameters["base_url"] == "http://localhost:1/v1" and one.parameters["temperature"] == 0
    other = make("openai:m", base_url="http://localhost:1/v1", temperature=0.5)
    assert one.parameters != other.parameters


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("cohre:command-a", "unknown provider 'cohre'; did you mean 'cohere'"),
        ("nobody:model", "expected one of cohere, openai, anthropic"),
        ("cohere:command-a", "'cohere:command-a' needs an API key: expected it in COHERE_API_KEY, which is not set"),
        ("openai:gpt", "'openai:gpt' needs an API key: expected it in OPENAI_API_KEY, which is not set"),
        ("python:nowhere:make", "'python:nowhere:make' cannot be loaded: ModuleNotFoundError"),
        ("python:os.path:join", "cannot be loaded: TypeError"),
        ("python:builtins:dict", "expected a LangChain chat model (BaseChatModel), got dict"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_with_what_to_do(model: str, said: str) -> None:
    with pytest.raises(JudgeError) as caught:
        make(model)
    assert said in str(caught.value)
    assert str(caught.value).count("judge.model") <= 1


@pytest.mark.parametrize(("provider", "package"), [("anthropic", "anthropic"), ("ollama", "ollama")])
def test_a_package_that_is_missing_is_named(provider: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, f"langchain_{package}", None)
    with pytest.raises(JudgeError, match=rf"not installed: pip install 'retrieval-evals\[{package}\]'"):
        make(f"{provider}:m", {"ANTHROPIC_API_KEY": "x"})


def test_another_variable_may_hold_the_key(server: ChatServer) -> None:
    chat = make_chat(settings(server, api_key_env="MINE"), {"MINE": server.key})
    assert asked(chat, structured=False).text == RIGHT


def test_a_server_of_ones_own_needs_no_key() -> None:
    assert make("openai:local", base_url="http://localhost:1/v1").name == "local"


def test_a_class_of_the_users_is_a_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_judge.py").write_text(
        "from langchain_core.language_models import FakeListChatModel\n"
        "def make():\n    return FakeListChatModel(responses=['{\"verdict\": 1}'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    chat = make("python:my_judge:make")
    answer = asked(chat)
    assert answer.text == '{"verdict": 1}' and answer.tokens_in is None and chat.provider == "python"


def test_a_key_is_never_among_the_parameters(server: ChatServer) -> None:
    chat = make_chat(settings(server), keys(server))
    assert server.key not in str(chat.parameters) + str(chat.arguments)


def test_the_model_of_cohere_is_the_one_asked_for(server: ChatServer) -> None:
    server.requests.clear()
    asked(make_chat(settings(server), keys(server)), structured=False)
    assert server.chats[0].model == MODEL


def test_the_keys_of_verdicts_stay_so_that_what_was_bought_is_read() -> None:
    """Another key makes every user buy his verdicts again: then say so, with the price, before anything is bought."""
    parameters = {
        "temperature": 0.0, "seed": 0, "max_output_tokens": 2048, "base_url": None, "structured": "auto",
        "identity": None,
        "model": {
            "class": "langchain_cohere.chat_models.ChatCohere", "address": "",
            "digest": "8019ea001923c822e4bada4bcc816107",
        },
    }  # fmt: skip
    assert make("cohere:command-a-03-2025", {"COHERE_API_KEY": "x"}).parameters.keys() == parameters.keys()
    chat = Chat(provider="cohere", name="command-a-03-2025", parameters=parameters, model=cast(Any, None))
    assert chat.key("prompt", Verdict).hex() == "e19815e3e5dafe8dcc8305208cf912c826263e739d20118cc31c701bfa043d91"
