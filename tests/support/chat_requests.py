"""What a chat model's server was asked: a request of Cohere's or OpenAI's, in the same terms."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.support.loopback import Request
from tests.support.ragas_prompts import Question, read_prompt


@dataclass(frozen=True)
class ChatRequest:
    """A view of a recorded request; what the request leaves out is None."""

    request: Request

    @property
    def body(self) -> Mapping[str, Any]:
        body: Mapping[str, Any] = self.request.body
        return body

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    @property
    def model(self) -> str:
        model: str = self.body["model"]
        return model

    @property
    def temperature(self) -> float | None:
        return self.body.get("temperature")

    @property
    def seed(self) -> int | None:
        return self.body.get("seed")

    @property
    def response_format(self) -> Mapping[str, Any] | None:
        return self.body.get("response_format")

    @cached_property
    def prompt(self) -> str:
        """All that was said so far, one message below the other."""
        return "\n\n".join(_text(message.get("content")) for message in self.body["messages"])

    @cached_property
    def question(self) -> Question | None:
        """Question, if it is a prompt of ragas' context metrics."""
        return read_prompt(self.prompt)


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)


def tokens(text: str) -> int:
    """Return tokens of a text as the servers count them: one for four characters, at least one."""
    return max(1, len(text) // 4)
