"""Chat models on the loopback that answer ragas' prompts from an oracle: Cohere's and OpenAI's, and how they fail."""

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import sleep
from typing import Any

from tests.support.cohere_server import KEY, RerankServer
from tests.support.judging import Oracle, Question, drawn, read_prompt
from tests.support.loopback import LoopbackServer, Reply, Request

MODEL = "command-a-03-2025"
SMALL_TALK = "I judge passages. You have not given me one."
"""The answer to a prompt that is none of ragas' context metrics."""
PATIENCE_S = 30.0

# What is asked


class ChatRequest:
    """A request of Cohere's or OpenAI's, in the same terms; what the request leaves out is None."""

    def __init__(self, request: Request) -> None:
        body = self.body = request.body
        self.model, self.temperature, self.seed = body["model"], body.get("temperature"), body.get("seed")
        self.response_format: Mapping[str, Any] | None = body.get("response_format")
        self.key = request.headers.get("authorization")

    @cached_property
    def prompt(self) -> str:
        return "\n\n".join(_text(message.get("content")) for message in self.body["messages"])

    @cached_property
    def question(self) -> Question | None:
        return read_prompt(self.prompt)


def _text(content: str | Sequence[Mapping[str, str]] | None) -> str:
    return "".join(part if isinstance(part, str) else part.get("text", "") for part in content or "")


def tokens(text: str) -> int:
    """Return tokens of a text as the servers count them: one for four characters, at least one."""
    return max(1, len(text) // 4)


# How it fails: at the protocol (429, torn, slow, …) or in what the model says; and when


@dataclass(frozen=True, kw_only=True)
class Output:
    """What the model says, and why it ends: naturally, at the limit of tokens, by a refusal, or by a filter."""

    text: str
    cut: bool = False
    refused: bool = False
    filtered: bool = False


@dataclass(frozen=True, kw_only=True)
class ChatFault:
    """One way to fail: by an HTTP status with an error as the provider words it, or with `message`; a part of the right
    answer alone; a client that is kept waiting until the fault is over; or something else that the model says.
    """

    status: int | None = None
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: float = 1.0
    stall: bool = False
    says: Callable[[Output], Output] | None = None


@dataclass(frozen=True, kw_only=True)
class When:
    """Which chat requests a fault befalls: of `calls`, counted from 1 since it was set (None: of all), that share.

    It is drawn by what is asked, so that the same request fails whenever it is repeated, or else by number.
    """

    calls: Container[int] | None = None
    share: float = 1.0
    by_prompt: bool = False
    seed: int = 0

    def due(self, number: int, prompt: str) -> bool:
        if self.calls is not None and number not in self.calls:
            return False
        return drawn(self.seed, "fault", prompt if self.by_prompt else str(number)) < self.share


ALWAYS = When()


@dataclass(kw_only=True)
class Planned:
    """A fault with its time; `requests` are those that came since it was set, `hits` those that it befell."""

    fault: ChatFault
    when: When
    requests: int = 0
    hits: list[int] = field(default_factory=list)

    def falls_due(self, prompt: str) -> bool:
        self.requests += 1
        due = self.when.due(self.requests, prompt)
        if due:
            self.hits.append(self.requests)
        return due


def says(text: str, *, refused: bool = False) -> ChatFault:
    return ChatFault(says=lambda _: Output(text=text, refused=refused))


def _cut(right: Output) -> Output:
    return Output(text=right.text[: len(right.text) // 2], cut=True)


def _wrong_verdict(right: Output) -> Output:
    def put(values: dict[str, Any]) -> dict[str, Any]:
        return {key: 7 if key in ("verdict", "attributed", "rating") else value for key, value in values.items()}

    return Output(text=json.dumps(json.loads(right.text, object_hook=put)))


FAULTS: Mapping[str, ChatFault] = {
    "401": ChatFault(status=401),
    "429": ChatFault(status=429),
    "500": ChatFault(status=500),
    "torn": ChatFault(sent=0.5),
    "slow": ChatFault(stall=True),
    "cut": ChatFault(says=_cut),
    "verdict 7": ChatFault(says=_wrong_verdict),
    "refusal": says("I'm sorry, but I can't help with judging that passage.", refused=True),
    "prose": says("The passage looks rather useful to me."),
}
MESSAGES = {
    400: "bad request",
    401: "invalid api token",
    404: "model 'nope' not found",
    429: "rate limited",
    500: "internal error",
}

# The servers


class ChatServer(LoopbackServer):
    """A chat model behind HTTP, whose answers take `latency` seconds; an error is told at once.

    `peak` are the most chat requests that were in flight at once.
    """

    path: str
    key: str
    provider: str

    def __init__(self, oracle: Oracle, *, latency: float = 0.0, models: Collection[str] = (MODEL,)) -> None:
        super().__init__()
        self.oracle, self.latency, self.models = oracle, latency, models
        self.json_mode = True
        self.peak = self.in_flight = 0
        self._planned: list[Planned] = []

    @property
    def base_url(self) -> str:
        return self.url

    @property
    def chats(self) -> list[ChatRequest]:
        return [ChatRequest(request) for request in self.requests if request.path == self.path]

    @contextmanager
    def faulty(self, fault: ChatFault | str, when: When = ALWAYS) -> Iterator[Planned]:
        """Fail inside the block, by a fault or its name in `FAULTS`; the innermost of several applies."""
        planned = Planned(fault=FAULTS[fault] if isinstance(fault, str) else fault, when=when)
        self._planned.insert(0, planned)
        try:
            yield planned
        finally:
            self._planned.remove(planned)
            self.release()

    def handle(self, request: Request) -> Reply:
        if request.path != self.path:
            return super().handle(request)
        with self._lock:
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
        try:
            return super().handle(request)
        finally:
            with self._lock:
                self.in_flight -= 1

    def answer(self, request: Request) -> Reply:
        if (request.method, request.path) == ("GET", "/v1/models"):
            return Reply.json({"models": [*self.models]})
        if (request.method, request.path) != ("POST", self.path):
            return super().answer(request)
        asked = ChatRequest(request)
        with self._lock:
            due = [one.fault for one in self._planned if one.falls_due(asked.prompt)]
            released = self._released
        fault = due[0] if due else ChatFault()
        if fault.status is not None:
            said = fault.message or MESSAGES.get(fault.status, "service unavailable")
            return self.error(fault.status, said, fault.headers)
        if refused := self._refused(asked):
            return refused
        if fault.stall:
            released.wait(PATIENCE_S)
        sleep(self.latency)
        right = Output(text=self.oracle.answer(asked.prompt) or SMALL_TALK)
        return replace(self.said(asked, fault.says(right) if fault.says else right), sent=fault.sent)

    @abstractmethod
    def said(self, asked: ChatRequest, output: Output) -> Reply: ...

    @abstractmethod
    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply: ...

    def _refused(self, asked: ChatRequest) -> Reply | None:
        if asked.key != f"Bearer {self.key}":
            return self.error(401, MESSAGES[401], {})
        if asked.model not in self.models:
            return self.error(404, f"model '{asked.model}' not found", {})
        if not self.json_mode and asked.response_format:
            return self.error(400, f"response_format is not supported by model '{asked.model}'", {})
        return None


class CohereChatServer(ChatServer, RerankServer):
    """Cohere's `POST /v2/chat`, beside `/v1/embed` and `/v2/rerank`."""

    path = "/v2/chat"
    key = KEY
    provider = "cohere"

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        message = {"role": "assistant", "content": [{"type": "text", "text": output.text}]}
        reason = "ERROR_TOXIC" if output.filtered else "MAX_TOKENS" if output.cut else "COMPLETE"
        used = {"input_tokens": tokens(asked.prompt), "output_tokens": tokens(output.text)}
        usage = {"billed_units": used, "tokens": used}
        return Reply.json({"id": "0", "finish_reason": reason, "message": message, "usage": usage})

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        return Reply.json({"message": message}, status, **headers)


TYPES = {401: "authentication_error", 429: "rate_limit_error"}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class OpenAIChatServer(ChatServer):
    """OpenAI's `POST /v1/chat/completions`, as llama.cpp, vLLM and many others speak it too."""

    path = "/v1/chat/completions"
    key = "sk-SECRET-0123456789"
    provider = "openai"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        reason = "content_filter" if output.filtered else "length" if output.cut else "stop"
        # Under a schema OpenAI's refusals have a field of their own.
        apart = output.refused and (asked.response_format or {}).get("type") == "json_schema"
        content, refusal = (None, output.text) if apart else (output.text, None)
        message = {"role": "assistant", "content": content, "refusal": refusal}
        read, written = tokens(asked.prompt), tokens(output.text)
        return Reply.json(
            {
                "id": "chatcmpl-0",
                "object": "chat.completion",
                "created": 0,
                "model": asked.model,
                "system_fingerprint": "fp_0",
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
                "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
            }
        )

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        body = {"error": {"message": message, "type": kind, "param": None, "code": CODES.get(status)}}
        return Reply.json(body, status, **headers)
