"""OpenAI's `POST /v1/chat/completions` on the loopback, as llama.cpp, vLLM and many others speak it too."""

from collections.abc import Mapping
from typing import Any

from tests.support.chat_faults import Output
from tests.support.chat_requests import ChatRequest, tokens
from tests.support.chat_server import ChatServer
from tests.support.loopback import Reply, Request

TYPES = {401: "authentication_error", 429: "rate_limit_error"}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class OpenAIChatServer(ChatServer):
    """Answers as api.openai.com does; its clients' base URL is `base_url`."""

    path = "/v1/chat/completions"
    key = "sk-SECRET-0123456789"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def answer(self, request: Request) -> Reply:
        if (request.method, request.path) == ("POST", self.path):
            return self.chat(request)
        if (request.method, request.path) == ("GET", "/v1/models"):
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in self.models]
            return Reply.json({"object": "list", "data": listed})
        return self.error(404, f"no such path {request.path}", {})

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        message, reason = _message(asked, output)
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


def _message(asked: ChatRequest, output: Output) -> tuple[dict[str, Any], str]:
    """Return the message and its finish reason; under a schema OpenAI's refusals have a field of their own."""
    reason = "content_filter" if output.filtered else "length" if output.cut else "stop"
    apart = output.refused and (asked.response_format or {}).get("type") == "json_schema"
    content, refusal = (None, output.text) if apart else (output.text, None)
    return {"role": "assistant", "content": content, "refusal": refusal}, reason
