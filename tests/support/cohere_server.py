"""Cohere's `POST /v1/embed` on the loopback: deterministic vectors out of the words of a text, faults on demand."""

import hashlib
import json
import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from tests.support.loopback import Fault, LoopbackServer, Reply, Request

DIMENSION = 32
KEY = "co-SECRET-0123456789"
MESSAGES = {
    401: "invalid api token",
    403: "not allowed",
    404: "model 'nope' not found",
    429: "rate limited",
    500: "internal error",
}


def vector(text: str) -> list[float]:
    """Return a unit vector: the sum of a pseudo-random vector for each word, near for texts with common words."""
    total = [0.0] * DIMENSION
    for word in text.lower().split() or [""]:
        digest = hashlib.sha512(word.encode()).digest()
        total = [a + b - 127.5 for a, b in zip(total, digest, strict=False)]
    length = math.sqrt(sum(value * value for value in total))
    return [value / length for value in total]


class CohereServer(LoopbackServer):
    """Answers as api.cohere.com does, to anyone who sends `KEY`."""

    def answer(self, request: Request) -> Reply:
        if (request.method, request.path) != ("POST", "/v1/embed"):
            return Reply.json({"message": f"no such path {request.path}"}, 404)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Reply.json({"message": MESSAGES[401]}, 401)
        return embedded(request.body["texts"])

    @property
    def inputs(self) -> list[tuple[str, list[str]]]:
        """Input type and texts of every request."""
        return [(request.body["input_type"], request.body["texts"]) for request in self.requests]


def embedded(texts: Sequence[str], vectors: Sequence[Sequence[float]] | None = None) -> Reply:
    """Return the reply to an embed request."""
    body: dict[str, Any] = {
        "id": "0",
        "response_type": "embeddings_by_type",
        "embeddings": {"float": vectors if vectors is not None else [vector(text) for text in texts]},
        "texts": list(texts),
        "meta": {"api_version": {"version": "1"}, "billed_units": {"input_tokens": sum(map(len, texts))}},
    }
    return Reply.json(body)


def refused(status: int) -> Fault:
    """Return an error with a status, as Cohere words it."""
    return Fault(reply=Reply.json({"message": MESSAGES[status]}, status))


FAULTS = MappingProxyType(
    {
        "401": refused(401),
        "403": refused(403),
        "404": refused(404),
        "429": refused(429),
        "429 with Retry-After": Fault(reply=Reply.json({"message": MESSAGES[429]}, 429, **{"Retry-After": "7"})),
        "500": refused(500),
        "502 HTML": Fault(reply=Reply.html("<html>502 Bad Gateway</html>", 502)),
        "reset": Fault(reset=True),
        "torn": Fault(torn=True),
        "slow": Fault(slow=True),
        "too few": Fault(reply=embedded(["a"])),
        "none": Fault(reply=embedded([], [])),
        "ragged": Fault(reply=embedded(["a", "b"], [[1.0, 0.0], [1.0]])),
        "nan": Fault(reply=embedded(["a", "b"], [[1.0, 0.0], [math.nan, 0.0]])),
        "truncated": Fault(reply=Reply(body=json.dumps({"embeddings": {"float": [[1.0]]}}).encode()[:-7])),
        "html": Fault(reply=Reply.html("<html>a proxy's greeting</html>", 200)),
    }
)
