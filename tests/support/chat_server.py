"""Chat models on the loopback that answer ragas' prompts from an oracle: Cohere's and OpenAI's, and how they fail."""

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from time import sleep
from typing import Any

from tests.support.cohere_server import KEY, CohereServer
from tests.support.judging import Oracle, Question, drawn, read_prompt
from tests.support.loopback import LoopbackServer, Reply, Request

MODEL = "command-a-03-2025"
SMALL_TALK = "I judge passages. You have not given me one."
"""The answer to a prompt that is none of ragas' context metrics."""


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


# How it fails: at the protocol (429, torn, slow, …) or in what the model says


@dataclass(frozen=True, kw_only=True)
class Output:
    """What the model says, and why it ends: naturally, at the limit of tokens, by a refusal, or by a filter."""

    text: str
    cut: bool = False
    refused: bool = False
    filtered: bool = False


ChatFault = Callable[["ChatServer", ChatRequest, Output], Reply]
"""The reply in place of that with the right output."""


def says(change: Callable[[Output], Output]) -> ChatFault:
    return lambda server, asked, right: server.said(asked, change(right))


def fails(status: int, message: str, **headers: str) -> ChatFault:
    return lambda server, asked, right: server.error(status, message, headers)


def _late(server: "ChatServer", asked: ChatRequest, right: Output) -> Reply:
    server.wait()
    return server.said(asked, right)


def _wrong_verdict(right: Output) -> Output:
    def put(values: dict[str, Any]) -> dict[str, Any]:
        return {key: 7 if key in ("verdict", "attributed", "rating") else value for key, value in values.items()}

    return Output(text=json.dumps(json.loads(right.text, object_hook=put)))


FAULTS: Mapping[str, ChatFault] = {
    "401": fails(401, "invalid api token"),
    "429": fails(429, "rate limited"),
    "500": fails(500, "internal error"),
    "torn": lambda server, asked, right: replace(server.said(asked, right), sent=0.5),
    "slow": _late,
    "cut": says(lambda right: Output(text=right.text[: len(right.text) // 2], cut=True)),
    "verdict 7": says(_wrong_verdict),
    "refusal": says(lambda _: Output(text="I'm sorry, but I can't help with judging that passage.", refused=True)),
    "prose": says(lambda _: Output(text="The passage looks rather useful to me.")),
}

# The servers


class ChatServer(LoopbackServer):
    """A chat model behind HTTP, whose answers take `latency` seconds.

    `peak` are the most requests that were in flight at once.
    """

    path: str
    key: str
    provider: str

    def __init__(self, oracle: Oracle, *, latency: float = 0.0, models: Collection[str] = (MODEL,)) -> None:
        super().__init__()
        self.oracle, self.latency, self.models = oracle, latency, models
        self.peak = self.in_flight = 0
        self._faults: list[tuple[Callable[[str], bool], ChatFault]] = []

    @property
    def base_url(self) -> str:
        return self.url

    @property
    def flags(self) -> list[str]:
        return ["--judge.model", f"{self.provider}:{next(iter(self.models))}", "--judge.base-url", self.base_url]

    @property
    def chats(self) -> list[ChatRequest]:
        return [ChatRequest(request) for request in self.requests if request.path == self.path]

    @contextmanager
    def faulty(
        self, fault: ChatFault | str, calls: Container[int] | None = None, share: float = 1.0, seed: int = 0
    ) -> Iterator[list[int]]:
        """Fail inside the block, by a fault or its name in `FAULTS`; the innermost of several applies.

        It befalls of `calls`, counted from 1 since it was set (None: of all), a share, the same prompts whenever they
        are asked. Yields the numbers of those that it befell.
        """
        numbers, hits = count(1), list[int]()

        def is_due(prompt: str) -> bool:
            number = next(numbers)
            due = (calls is None or number in calls) and drawn(seed, "fault", prompt) < share
            hits.extend([number] * due)
            return due

        planned = is_due, FAULTS[fault] if isinstance(fault, str) else fault
        self._faults.insert(0, planned)
        try:
            yield hits
        finally:
            self._faults.remove(planned)
            self.release()

    def handle(self, request: Request) -> Reply:
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
            due = [fault for is_due, fault in self._faults if is_due(asked.prompt)]
        if asked.key != f"Bearer {self.key}":
            return self.error(401, "invalid api token", {})
        if asked.model not in self.models:
            return self.error(404, f"model '{asked.model}' not found", {})
        sleep(self.latency)
        right = Output(text=self.oracle.answer(asked.prompt) or SMALL_TALK)
        return due[0](self, asked, right) if due else self.said(asked, right)

    @abstractmethod
    def said(self, asked: ChatRequest, output: Output) -> Reply: ...

    @abstractmethod
    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply: ...


class CohereChatServer(ChatServer, CohereServer):
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
        choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}]
        read, written = tokens(asked.prompt), tokens(output.text)
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        about = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": asked.model}
        return Reply.json({**about, "choices": choices, "usage": usage})

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return Reply.json({"error": {"message": message, "type": kind, "param": None, "code": None}}, status, **headers)


KEYS = {"COHERE_API_KEY": CohereChatServer.key, "OPENAI_API_KEY": OpenAIChatServer.key}
