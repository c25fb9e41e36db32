import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
from cohere.core.api_error import ApiError
from cohere.errors import BadRequestError, InternalServerError, NotFoundError, TooManyRequestsError, UnauthorizedError
from langchain_cohere import ChatCohere, CohereRerank
from langchain_core.messages import AIMessage
from pydantic import ValidationError
from ragas.metrics.collections import ContextPrecisionWithReference, ContextRecall
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput

from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import make_embeddings
from tests.support.chat_faults import PROTOCOL, REFUSAL, SPOKEN, When, said, too_many
from tests.support.chat_server import MODEL, SMALL_TALK, CohereChatServer
from tests.support.cohere_server import KEY, vector
from tests.support.one_question import CLAIM, ORACLE, REASON, RIGHT, USEFUL, USELESS, prompt
from tests.support.plain_judge import PlainJudge, scored
from tests.support.ragas_prompts import Metric


@pytest.fixture(scope="module")
def running() -> Iterator[CohereChatServer]:
    with CohereChatServer(ORACLE) as server:
        yield server


@pytest.fixture
def server(running: CohereChatServer) -> CohereChatServer:
    """Return a server that has seen nothing yet."""
    running.requests.clear()
    running.peak, running.latency, running.capacity, running.json_mode = 0, 0.0, None, True
    return running


@pytest.fixture(scope="module")
def chat(running: CohereChatServer) -> ChatCohere:
    return client(running)


def client(server: CohereChatServer, **values: Any) -> ChatCohere:
    given = {"model": MODEL, "cohere_api_key": KEY, "timeout_seconds": 20.0} | values
    return ChatCohere(base_url=server.url, temperature=0, **given)


def ask(chat: ChatCohere, text: str, timeout: float = 20, **values: Any) -> AIMessage:
    """Return one attempt."""
    options = {"max_retries": 0, "timeout_in_seconds": timeout}
    answer = chat.invoke(text, request_options=options, **values)
    assert isinstance(answer, AIMessage)
    return answer


def test_answers_a_prompt_of_ragas(server: CohereChatServer, chat: ChatCohere) -> None:
    answer = ask(chat, prompt())
    assert answer.text == RIGHT
    assert answer.response_metadata["finish_reason"] == "COMPLETE"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] == len(prompt()) // 4
    assert answer.usage_metadata["output_tokens"] == len(RIGHT) // 4


def test_scores_of_ragas_own_classes_are_known(server: CohereChatServer, chat: ChatCohere) -> None:
    judge = PlainJudge(lambda text: ask(chat, text).text)
    given = {"user_input": "q", "reference": CLAIM, "retrieved_contexts": [USELESS, USEFUL]}
    assert scored(ContextPrecisionWithReference(llm=judge), **given) == pytest.approx(0.5, abs=1e-9)
    assert scored(ContextRecall(llm=judge), **given) == 1.0
    assert [chat.question.metric for chat in server.chats if chat.question] == [Metric.PRECISION] * 2 + [Metric.RECALL]


def test_records_what_was_asked(server: CohereChatServer, chat: ChatCohere) -> None:
    ask(chat, prompt(), seed=7, response_format={"type": "json_object"})
    [asked] = server.chats
    assert (asked.prompt, asked.model, asked.temperature, asked.seed) == (prompt(), MODEL, 0, 7)
    assert asked.response_format == {"type": "json_object"}
    assert asked.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
def test_structured_output(server: CohereChatServer, chat: ChatCohere, method: Any) -> None:
    made = chat.with_structured_output(ContextPrecisionOutput, method=method).invoke(prompt())
    assert made == ContextPrecisionOutput(reason=REASON, verdict=1)


def test_a_model_without_structured_output_refuses_it(server: CohereChatServer, chat: ChatCohere) -> None:
    server.json_mode = False
    with pytest.raises(BadRequestError, match="response_format is not supported by model"):
        chat.with_structured_output(ContextPrecisionOutput).invoke(prompt())
    assert ask(chat, prompt()).text == RIGHT


def test_small_talk(server: CohereChatServer, chat: ChatCohere) -> None:
    assert ask(chat, "Reply with OK.").text == SMALL_TALK


RAISED = {
    "401": UnauthorizedError,
    "404": NotFoundError,
    "429": TooManyRequestsError,
    "429 seconds": TooManyRequestsError,
    "429 date": TooManyRequestsError,
    "500": InternalServerError,
    "502 HTML": ApiError,
    "503": ApiError,
    "200 HTML": ApiError,
    "reset": httpx.HTTPError,
    "torn": httpx.HTTPError,
    "truncated": ApiError,
    "slow": httpx.ReadTimeout,
}


@pytest.mark.parametrize("name", PROTOCOL)
def test_a_fault_of_the_protocol_is_raised_once_by_the_client(
    server: CohereChatServer, chat: ChatCohere, name: str
) -> None:
    with server.faulty(name) as fault, pytest.raises(RAISED[name]) as raised:
        ask(chat, prompt(), timeout=0.5 if name == "slow" else 20)
    assert fault.hits == [1]
    assert len(server.chats) == 1
    if isinstance(raised.value, ApiError):
        assert raised.value.status_code == PROTOCOL[name].status or name == "truncated"
    assert ask(chat, prompt()).text == RIGHT


@pytest.mark.parametrize("as_date", [False, True])
def test_the_client_waits_as_long_as_it_is_told(server: CohereChatServer, chat: ChatCohere, as_date: bool) -> None:
    with server.faulty(too_many(0.1, as_date=as_date)), pytest.raises(TooManyRequestsError) as raised:
        ask(chat, prompt())
    headers = {name.lower(): value for name, value in (raised.value.headers or {}).items()}
    assert headers["retry-after"].endswith("GMT") if as_date else headers["retry-after"] == "0.1"


@pytest.mark.parametrize("name", SPOKEN)
def test_a_fault_of_the_model_is_seen_by_the_client(server: CohereChatServer, chat: ChatCohere, name: str) -> None:
    with server.faulty(name) as fault:
        answer = ask(chat, prompt())
    assert answer.text == said(name, RIGHT)
    assert answer.response_metadata["finish_reason"] == ("MAX_TOKENS" if name == "cut" else "COMPLETE")
    assert fault.hits == [1]


def test_a_refusal_is_prose(server: CohereChatServer, chat: ChatCohere) -> None:
    with server.faulty("refusal"):
        assert ask(chat, prompt()).text == REFUSAL


def test_ragas_alone_takes_a_verdict_of_7(server: CohereChatServer, chat: ChatCohere) -> None:
    judge = PlainJudge(lambda text: ask(chat, text).text)
    given = {"user_input": "q", "reference": CLAIM, "retrieved_contexts": [USEFUL]}
    with server.faulty("verdict 7"):
        assert scored(ContextPrecisionWithReference(llm=judge), **given) == pytest.approx(7)
    with server.faulty("fenced"), pytest.raises(ValidationError):
        scored(ContextPrecisionWithReference(llm=judge), **given)


def test_the_third_to_the_fifth_call_fail(server: CohereChatServer, chat: ChatCohere) -> None:
    with server.faulty("500", When(calls=range(3, 6))) as fault:
        failed = [number for number in range(1, 8) if _fails(chat)]
    assert failed == fault.hits == [3, 4, 5]


def _fails(chat: ChatCohere) -> bool:
    try:
        ask(chat, prompt())
    except ApiError:
        return True
    return False


def test_the_innermost_fault_befalls(server: CohereChatServer, chat: ChatCohere) -> None:
    with server.faulty("500"), server.faulty("empty", When(calls={1})):
        assert ask(chat, prompt()).text == ""
        with pytest.raises(InternalServerError):
            ask(chat, prompt())


def test_a_wrong_key_and_an_unknown_model(server: CohereChatServer) -> None:
    with pytest.raises(UnauthorizedError, match="invalid api token"):
        ask(client(server, cohere_api_key="wrong"), prompt())
    with pytest.raises(NotFoundError, match="model 'command-z' not found"):
        ask(client(server, model="command-z"), prompt())


@contextmanager
def kept_waiting(server: CohereChatServer, chat: ChatCohere, count: int) -> Iterator[list[Future[AIMessage]]]:
    """Yield so many requests that are in flight until the block ends."""
    with ThreadPoolExecutor(count) as pool, server.faulty("slow", When(calls=range(1, count + 1))):
        waiting = [pool.submit(ask, chat, prompt()) for _ in range(count)]
        deadline = monotonic() + 20
        while server.in_flight < count and monotonic() < deadline:
            sleep(0.005)
        yield waiting


def test_counts_those_in_flight_and_the_most_there_were(server: CohereChatServer, chat: ChatCohere) -> None:
    with kept_waiting(server, chat, 6) as waiting:
        assert server.in_flight == 6
    assert {one.result().text for one in waiting} == {RIGHT}
    ask(chat, prompt())
    assert (server.in_flight, server.peak) == (0, 6)


def test_more_than_its_capacity_is_told_to_wait(server: CohereChatServer, chat: ChatCohere) -> None:
    server.capacity = 2
    with kept_waiting(server, chat, 2) as waiting:
        with pytest.raises(TooManyRequestsError) as raised:
            ask(chat, prompt())
        assert (raised.value.headers or {})["retry-after"] == "1"
    assert {one.result().text for one in waiting} == {RIGHT}


def test_an_answer_takes_its_latency(server: CohereChatServer, chat: ChatCohere) -> None:
    server.latency = 0.3
    with pytest.raises(httpx.ReadTimeout):
        ask(chat, prompt(), timeout=0.1)
    assert ask(chat, prompt()).text == RIGHT


def test_asked_on_an_event_loop(server: CohereChatServer) -> None:
    async def all_at_once() -> list[AIMessage]:
        chat = client(server)
        return await asyncio.gather(*(chat.ainvoke(prompt()) for _ in range(4)))

    assert {answer.text for answer in asyncio.run(all_at_once())} == {RIGHT}


def test_one_address_also_embeds_and_reranks(server: CohereChatServer) -> None:
    embeddings = make_embeddings(EmbeddingConfig(provider="cohere", base_url=server.url), {"COHERE_API_KEY": KEY})
    reranker = CohereRerank(model="rerank-v3.5", cohere_api_key=KEY, base_url=server.url)
    with server.faulty("500"):
        assert embeddings.embed_query("joint angles") == pytest.approx(vector("joint angles"))
        assert reranker.rerank([USELESS, USEFUL], "joint angles.")[0]["index"] == 1
    assert server.chats == []
