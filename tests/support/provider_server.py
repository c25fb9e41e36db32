"""Embeddings on the loopback as Ollama, Mistral, Azure OpenAI, Gemini and Bedrock's Titan answer."""

from typing import Any

from tests.support.cohere_server import vector
from tests.support.loopback import LoopbackServer, Reply, Request
from tests.support.openai_embedding_server import answered

KEY = "k-SECRET-0123456789"
# How each sends its key; Bedrock signs with it, and Ollama needs none.
KEY_HEADERS = ("authorization", "api-key", "x-goog-api-key")


class ProviderServer(LoopbackServer):
    """Answers by the path that is asked; texts with common words get vectors that are near to each other."""

    def answer(self, request: Request) -> Reply:
        body, path = request.body, request.path
        if path == "/api/embed":
            return Reply.json({"model": body["model"], "embeddings": [vector(text) for text in body["input"]]})
        if not any(KEY in request.headers.get(name, "") for name in KEY_HEADERS):
            return Reply.json({"message": "unauthorized"}, 401)
        if path.endswith("/embeddings"):
            return answered([vector(text) for text in body["input"]])
        if path.endswith(":batchEmbedContents"):
            return Reply.json({"embeddings": [{"values": vector(_gemini_text(one))} for one in body["requests"]]})
        if path.endswith("/invoke"):
            return Reply.json({"embedding": vector(body["inputText"]), "inputTextTokenCount": 3})
        return Reply.json({"message": f"no such path {path}"}, 404)


def _gemini_text(request: dict[str, Any]) -> str:
    return str(request["content"]["parts"][0]["text"])
