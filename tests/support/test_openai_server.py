import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import OpenAIRefusalError
from ragas.metrics.collections import ContextPrecisionWithReference, ContextRelevance
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput

from tests.support.chat_faults import PROTOCOL, REFUSAL, SPOKEN, said
from tests.support.chat_server import MODEL
from tests.support.one_question import CLAIM, ORACLE, REASON, RIGHT, USEFUL, USELESS, prompt
from tests.support.openai_server import OpenAIChatServer
from tests.support.plain_judge import PlainJudge, scored


@pytest.fixture(scope="module")
def running() -> Iterator[OpenAIChatServer]:
    with OpenAIChatServer(ORACLE) as server:
        yield server


@pytest.fixture
def server(running: OpenAIChatServer) -> OpenAIChatServer:
    """Return a server that has seen nothing yet."""
    running.requests.clear()
    running.json_mode = True
    return running


@pytest.fixture(scope="module")
def chat(running: OpenAIChatServer) -> ChatOpenAI:
    return client(running)


def client(server: OpenAIChatServer, **values: Any) -> ChatOpenAI:
    given = {"model": MODEL, "api_key": server.key, "timeout": 20, "max_retries": 0, "seed": 7}
    return ChatOpenAI(base_url=server.base_url, temperature=0, **(given | values))


def ask(chat: ChatOpenAI, text: str, **values: Any) -> AIMessage:
    answer = chat.invoke(text, **values)
    assert isinstance(answer, AIMessage)
    return answer


def test_answers_a_prompt_of_ragas(server: OpenAIChatServer, chat: ChatOpenAI) -> None:
    answer = ask(chat, prompt())
    assert answer.text == RIGHT
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["total_tokens"] == len(prompt()) // 4 + len(RIGHT) // 4


def test_scores_of_ragas_own_classes_are_known(server: OpenAIChatServer, chat: ChatOpenAI) -> None:
    judge = PlainJudge(lambda text: ask(chat, text, response_format={"type": "json_object"}).text)
    given = {"user_input": "q", "retrieved_contexts": [USELESS, USEFUL]}
    precision = scored(ContextPrecisionWithReference(llm=judge), reference=CLAIM, **given)
    assert precision == pytest.approx(0.5, abs=1e-9)
    assert scored(ContextRelevance(llm=judge), **given) == 1.0


def test_records_what_was_asked(server: OpenAIChatServer, chat: ChatOpenAI) -> None:
    ask(chat, prompt(), response_format={"type": "json_object"})
    [asked] = server.chats
    assert (asked.prompt, asked.model, asked.temperature, asked.seed) == (prompt(), MODEL, 0, 7)
    assert asked.response_format == {"type": "json_object"}
    assert asked.headers["authorization"] == f"Bearer {server.key}"


METHODS = ("json_schema", "json_mode", "function_calling")


@pytest.mark.parametrize("method", METHODS)
def test_structured_output(server: OpenAIChatServer, chat: ChatOpenAI, method: Any) -> None:
    made = chat.with_structured_output(ContextPrecisionOutput, method=method).invoke(prompt())
    assert made == ContextPrecisionOutput(reason=REASON, verdict=1)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_without_structured_output_refuses_it(server: OpenAIChatServer, chat: ChatOpenAI, method: Any) -> None:
    server.json_mode = False
    with pytest.raises(openai.BadRequestError, match="is not supported by model"):
        chat.with_structured_output(ContextPrecisionOutput, method=method).invoke(prompt())


RAISED = {
    "401": openai.AuthenticationError,
    "404": openai.NotFoundError,
    "429": openai.RateLimitError,
    "429 seconds": openai.RateLimitError,
    "429 date": openai.RateLimitError,
    "500": openai.InternalServerError,
    "502 HTML": openai.InternalServerError,
    "503": openai.InternalServerError,
    "200 HTML": ValueError,
    "reset": openai.APIConnectionError,
    "torn": openai.APIConnectionError,
    "truncated": json.JSONDecodeError,
    "slow": openai.APITimeoutError,
}


@pytest.mark.parametrize("name", PROTOCOL)
def test_a_fault_of_the_protocol_is_raised_once_by_the_client(
    server: OpenAIChatServer, chat: ChatOpenAI, name: str
) -> None:
    with server.faulty(name) as fault, pytest.raises(RAISED[name]) as raised:
        ask(chat, prompt(), timeout=0.5 if name == "slow" else 20)
    assert fault.hits == [1]
    assert len(server.chats) == 1
    if isinstance(raised.value, openai.APIStatusError):
        assert raised.value.status_code == PROTOCOL[name].status
        assert ("retry-after" in raised.value.response.headers) == (name in ("429 seconds", "429 date"))
    assert ask(chat, prompt()).text == RIGHT


@pytest.mark.parametrize("name", SPOKEN)
def test_a_fault_of_the_model_is_seen_by_the_client(server: OpenAIChatServer, chat: ChatOpenAI, name: str) -> None:
    with server.faulty(name) as fault:
        answer = ask(chat, prompt())
    assert answer.text == said(name, RIGHT)
    assert answer.response_metadata["finish_reason"] == ("length" if name == "cut" else "stop")
    assert fault.hits == [1]


def test_a_refusal_under_a_schema_has_a_field_of_its_own(server: OpenAIChatServer, chat: ChatOpenAI) -> None:
    with server.faulty("refusal"), pytest.raises(OpenAIRefusalError, match=REFUSAL):
        chat.with_structured_output(ContextPrecisionOutput).invoke(prompt())


def test_a_cut_answer_in_a_format_is_an_error_of_the_client(server: OpenAIChatServer, chat: ChatOpenAI) -> None:
    with server.faulty("cut"), pytest.raises(openai.LengthFinishReasonError):
        ask(chat, prompt(), response_format={"type": "json_object"})


def test_a_wrong_key_an_unknown_model_and_a_path(server: OpenAIChatServer) -> None:
    with pytest.raises(openai.AuthenticationError, match="invalid api token"):
        ask(client(server, api_key="wrong"), prompt())
    with pytest.raises(openai.NotFoundError, match="model 'gpt-0' not found"):
        ask(client(server, model="gpt-0"), prompt())
    with openai.OpenAI(base_url=server.base_url, api_key=server.key, max_retries=0) as sdk:
        assert [model.id for model in sdk.models.list()] == [MODEL]
        with pytest.raises(openai.NotFoundError, match="no such path"):
            sdk.embeddings.create(input="x", model=MODEL)
