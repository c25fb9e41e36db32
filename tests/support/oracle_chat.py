"""A chat model in this process that answers from an oracle: for what HTTP must have no part in, such as benchmarks."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ConfigDict, PrivateAttr

from tests.support.chat_requests import tokens
from tests.support.chat_server import SMALL_TALK
from tests.support.judging import Oracle


class OracleChat(BaseChatModel):
    """Answers after `latency` seconds, in threads as well as on an event loop; counts calls and the most at once."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    oracle: Oracle
    latency: float = 0.0
    model: str = "oracle"
    temperature: float = 0.0
    _calls: int = PrivateAttr(default=0)
    _in_flight: int = PrivateAttr(default=0)
    _peak: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=Lock)

    @property
    def calls(self) -> int:
        return self._calls

    @property
    def peak(self) -> int:
        return self._peak

    @property
    def _llm_type(self) -> str:
        return "oracle"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, "temperature": self.temperature}

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with self._counted():
            time.sleep(self.latency)
            return self._answer(messages)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with self._counted():
            await asyncio.sleep(self.latency)
            return self._answer(messages)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._calls += 1
            self._in_flight += 1
            self._peak = max(self._peak, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def _answer(self, messages: list[BaseMessage]) -> ChatResult:
        prompt = "\n\n".join(str(message.text) for message in messages)
        text = self.oracle.answer(prompt) or SMALL_TALK
        read, written = tokens(prompt), tokens(text)
        used = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        message = AIMessage(text, usage_metadata=used, response_metadata={"finish_reason": "stop"})
        return ChatResult(generations=[ChatGeneration(message=message)])
