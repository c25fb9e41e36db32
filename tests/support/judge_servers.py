"""Servers of chat models beside OpenAI's own: llama.cpp's and vLLM's answers by their schemas, Cohere's for its client.

llama.cpp: tools/server; vLLM: entrypoints/openai (`ChatCompletionResponse`, `ErrorResponse`). Both are asked by the
client of OpenAI, and differ from api.openai.com in what stands beside text and usage, and in their errors.
"""

from collections.abc import Mapping
from typing import Any

from tests.support.chat_faults import Output
from tests.support.chat_requests import ChatRequest, tokens
from tests.support.chat_server import ChatServer, CohereChatServer
from tests.support.loopback import Reply
from tests.support.openai_server import OpenAIChatServer

THOUGHT = "The passage names joint angles; that may help."


class LlamaCppServer(OpenAIChatServer):
    """`llama-server` with a model that thinks: reasoning apart, timings, errors with a number for a code."""

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        read, written = tokens(asked.prompt), tokens(output.text)
        message = {"role": "assistant", "content": output.text, "reasoning_content": THOUGHT}
        rates = {"prompt_n": read, "prompt_ms": 12.5, "predicted_n": written, "predicted_ms": 80.0, "cache_n": 0}
        return Reply.json(
            {
                "choices": [{"finish_reason": "length" if output.cut else "stop", "index": 0, "message": message}],
                "created": 1764086400,
                "model": asked.model,
                "system_fingerprint": "b6999-0123abcd",
                "object": "chat.completion",
                "usage": {"completion_tokens": written, "prompt_tokens": read, "total_tokens": read + written},
                "id": "chatcmpl-0",
                "timings": rates,
            }
        )

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        types = {401: "authentication_error", 404: "not_found_error", 503: "unavailable_error"}
        described: Mapping[str, Any] = {"message": message, "type": types.get(status, "invalid_request_error")}
        if message == TOO_LONG:
            message = "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it"
            kind = "exceed_context_size_error"
            described = {"message": message, "type": kind, "n_prompt_tokens": 9412, "n_ctx": 8192}
        return Reply.json({"error": {"code": status, **described}}, status, **headers)


class VllmServer(OpenAIChatServer):
    """`vllm serve`: every field of its schema, empty where unused; errors at the top or within `error`."""

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        read, written = tokens(asked.prompt), tokens(output.text)
        message: dict[str, Any] = {
            "role": "assistant", "content": output.text, "refusal": None, "annotations": None, "audio": None,
            "function_call": None, "tool_calls": [], "reasoning_content": None,
        }  # fmt: skip
        choice = {
            "index": 0, "message": message, "logprobs": None, "finish_reason": "length" if output.cut else "stop",
            "stop_reason": None, "token_ids": None,
        }  # fmt: skip
        usage = {
            "prompt_tokens": read, "total_tokens": read + written, "completion_tokens": written,
            "prompt_tokens_details": None,
        }  # fmt: skip
        return Reply.json(
            {
                "id": "chatcmpl-0",
                "object": "chat.completion",
                "created": 1764086400,
                "model": asked.model,
                "choices": [choice],
                "service_tier": None,
                "system_fingerprint": None,
                "usage": usage,
                "prompt_logprobs": None,
                "prompt_token_ids": None,
                "kv_transfer_params": None,
            }
        )

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        if status == 401:  # of its middleware
            return Reply.json({"error": "Unauthorized"}, status, **headers)
        if message == TOO_LONG:
            message = (
                "This model's maximum context length is 8192 tokens. However, you requested 9412 tokens in the "
                "messages. Please reduce their length."
            )
        kind = "NotFoundError" if status == 404 else "BadRequestError"
        described = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
        return Reply.json(described if status == 400 else {"error": described}, status, **headers)


class CohereServer(CohereChatServer):
    """Cohere's `/v2/chat`, asked by langchain_cohere's own client."""

    def error(self, status: int, message: str, headers: Mapping[str, str]) -> Reply:
        if message == TOO_LONG:
            message = "too many tokens: total number of tokens in the prompt cannot exceed 8192 - received 9412"
        return super().error(status, message, headers)


TOO_LONG = "too long"
"""The message that each server words in its own way."""
SERVERS: Mapping[str, type[ChatServer]] = {
    "llama.cpp": LlamaCppServer,
    "vLLM": VllmServer,
    "Cohere": CohereServer,
}
