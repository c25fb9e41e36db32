"""Embeddings on the loopback as OpenAI answers, and as Ollama, Mistral, Azure, Gemini and Bedrock's Titan do."""

from tests.support.cohere_server import vector
from tests.support.loopback import LoopbackServer, Reply, Request

KEY = "sk-SECRET-0123456789"
KEY_HEADERS = ("authorization", "api-key", "x-goog-api-key")
"""How each sends its key; Bedrock signs with it, and Ollama needs none."""
REFUSED = {"error": {"message": "Incorrect API key provided: sk-SECRET*****", "type": "t", "code": "c"}}


class EmbeddingServer(LoopbackServer):
    def answer(self, request: Request) -> Reply:
        body, path = request.body, request.path
        if path == "/api/embed":
            return Reply.json({"model": body["model"], "embeddings": [vector(text) for text in body["input"]]})
        if not any(KEY in request.headers.get(name, "") for name in KEY_HEADERS):
            return Reply.json(REFUSED if path == "/v1/embeddings" else {"message": "unauthorized"}, 401)
        if path.endswith("/embeddings"):
            return answered([vector(text)[: body.get("dimensions")] for text in body["input"]])
        if path.endswith(":batchEmbedContents"):
            texts = [one["content"]["parts"][0]["text"] for one in body["requests"]]
            return Reply.json({"embeddings": [{"values": vector(text)} for text in texts]})
        if path.endswith("/invoke"):
            return Reply.json({"embedding": vector(body["inputText"]), "inputTextTokenCount": 3})
        return super().answer(request)


def answered(vectors: list[list[float]]) -> Reply:
    rows = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(vectors)]
    return Reply.json({"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})
