"""Chat models on the loopback that answer ragas' prompts from an oracle; here Cohere's, with embeddings and rerank.

`ChatServer` is what Cohere's and OpenAI's have in common: latency, faults, limits, and a record of what was asked.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from time import sleep
from typing import Any

from tests.support.chat_faults import ALWAYS, FAULTS, HTML, ChatFault, Output, Planned, When, too_many
from tests.support.chat_requests import ChatRequest, tokens
from tests.support.cohere_server import KEY
from tests.support.judging import Oracle
from tests.support.loopback import LoopbackServer, Reply, Request
from tests.support.rerank_server import RerankServer

MODEL = "command-a-03-2025"
SMALL_TALK = "I judge passages. You have not given me one."
"""The answer to a prompt that is none of ragas' context metrics."""
PATIENCE_S = 30.0


class ChatServer(LoopbackServer):
    """A chat model behind HTTP.

    Attributes:
        in_flight: Chat requests that have come and are not answered yet.
        peak: Most chat requests that were in flight at once.
        key: The key that is accepted; any other is 401.

    Args:
        oracle: Who knows the answers.
        latency: Seconds that an answer takes; an error is told at once.
        models: The models there are; any other is 404.
        capacity: Most requests in flight; one above it is 429 with `Retry-After: 1`.
        json_mode: True if the model has structured output; without, a request for it is 400.
    """

    path: str
    """Where chat requests go."""
    key: str

    def __init__(
        self,
        oracle: Oracle,
        *,
        latency: float = 0.0,
        models: Collection[str] = (MODEL,),
        capacity: int | None = None,
        json_mode: bool = True,
    ) -> None:
        super().__init__()
        self.oracle = oracle
        self.latency = latency
        self.models = models
        self.capacity = capacity
        self.json_mode = json_mode
        self.peak = 0
        self._planned: list[Planned] = []
        self.in_flight = 0

    @property
    def chats(self) -> list[ChatRequest]:
        """All chat requests so far, in the order in which they came."""
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

    def chat(self, request: Request) -> Reply:
        """Return the reply to a chat request."""
        asked = ChatRequest(request)
        with self._lock:
            crowded = self.capacity is not None and self.in_flight > self.capacity
            due = [one.fault for one in self._planned if not crowded and one.falls_due(asked.prompt)]
            released = self._released
        fault = too_many(1) if crowded else due[0] if due else ChatFault()
        if fault.status is not None:
            return self._failed(fault)
        if refused := self._refused(asked):
            return refused
        if fault.stall:
            released.wait(PATIENCE_S)
        sleep(self.latency)
        right = Output(text=self.oracle.answer(asked.prompt) or SMALL_TALK)
        reply = self.said(asked, fault.says(right) if fault.says else right)
        return replace(
            reply, body=reply.body[: int(len(reply.body) * fault.body)], sent=fault.sent, drip_s=fault.drip_s
        )

    @abstractmethod
    def said(self, asked: ChatRequest, output: Output) -> Reply:
        """Return a reply with the model's answer."""

    @abstractmethod
    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        """Return an error as the provider words it."""

    def _failed(self, fault: ChatFault) -> Reply:
        status = fault.status or 500
        if fault.html:
            return Reply.html(HTML, status)
        return self.error(status, fault.message or MESSAGES.get(status, "service unavailable"), fault.headers())

    def _refused(self, asked: ChatRequest) -> Reply | None:
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return self.error(401, MESSAGES[401], {})
        if asked.model not in self.models:
            return self.error(404, f"model '{asked.model}' not found", {})
        if asked.body.get("stream"):
            return self.error(400, "this server does not stream", {})
        if not self.json_mode and asked.response_format:
            return self.error(400, f"response_format is not supported by model '{asked.model}'", {})
        return None


MESSAGES = {
    400: "bad request",
    401: "invalid api token",
    404: "model 'nope' not found",
    429: "rate limited",
    500: "internal error",
    503: "service unavailable",
}


class CohereChatServer(ChatServer, RerankServer):
    """Cohere's `POST /v2/chat`, beside `/v1/embed` and `/v2/rerank`."""

    path = "/v2/chat"
    key = KEY

    def answer(self, request: Request) -> Reply:
        if (request.method, request.path) == ("POST", self.path):
            return self.chat(request)
        if (request.method, request.path) == ("GET", "/v1/models"):
            return Reply.json({"models": [{"name": name, "endpoints": ["chat"]} for name in self.models]})
        return super().answer(request)

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": output.text}]}
        reason = "ERROR_TOXIC" if output.filtered else "MAX_TOKENS" if output.cut else "COMPLETE"
        used = {"input_tokens": tokens(asked.prompt), "output_tokens": tokens(output.text)}
        return Reply.json(
            {
                "id": "0",
                "finish_reason": reason,
                "message": message,
                "usage": {"billed_units": used, "tokens": used},
            }
        )

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        return Reply.json({"message": message}, status, **headers)
