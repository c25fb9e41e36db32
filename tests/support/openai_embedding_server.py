"""A loopback server that answers `POST /v1/embeddings` as api.openai.com does."""

import json

from tests.support.cohere_server import vector
from tests.support.loopback import Fault, LoopbackServer, Reply, Request

KEY = "sk-SECRET-0123456789"


class OpenAIEmbeddingServer(LoopbackServer):
    """Answers anyone who sends `KEY`; texts with common words get vectors that are near to each other."""

    def answer(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return refused(401, "Incorrect API key provided: sk-SECRET*****").reply or Reply()
        vectors = [vector(text)[: request.body.get("dimensions")] for text in request.body["input"]]
        return answered(vectors)


def answered(vectors: list[list[float]]) -> Reply:
    rows = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(vectors)]
    return Reply.json({"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


def refused(status: int, message: str, **headers: str) -> Fault:
    return Fault(reply=Reply.json({"error": {"message": message, "type": "t", "code": "c"}}, status, **headers))


FAULTS = {
    "401": refused(401, "Incorrect API key provided: sk-SECRET*****"),
    "404": refused(404, "The model `nope` does not exist"),
    "429": refused(429, "Rate limit reached", **{"Retry-After": "0"}),
    "500": refused(500, "The server had an error"),
    "slow": Fault(slow=True),
    "torn": Fault(torn=True),
    "truncated": Fault(reply=Reply(body=json.dumps({"object": "list"}).encode()[:-3])),
    "html": Fault(reply=Reply.html("<h1>a proxy</h1>", 200)),
    "nothing": Fault(reply=Reply.json({"object": "list", "data": []})),
    "too few": Fault(reply=answered([vector("a")])),
    "ragged": Fault(reply=answered([[1.0, 0.0], [1.0]])),
}
