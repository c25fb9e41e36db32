"""Cohere's embeddings and reranking on the loopback, out of the words of a text, and the faults they may have."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.support.loopback import Fault, LoopbackServer, Reply, Request

DIMENSION = 32
KEY = "co-SECRET-0123456789"
RERANK = "/v2/rerank"
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


def relevance(query: str, text: str) -> float:
    """Return the share of words that query and text have in common, so that texts may tie."""
    asked, held = set(query.lower().split()), set(text.lower().split())
    return round(len(asked & held) / max(1, len(asked | held)), 6)


class CohereServer(LoopbackServer):
    """`POST /v1/embed` as api.cohere.com answers it, to anyone who sends `KEY`."""

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


class RerankServer(CohereServer):
    """`POST /v2/rerank` beside the embeddings."""

    def answer(self, request: Request) -> Reply:
        if (request.method, request.path) != ("POST", RERANK):
            return super().answer(request)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Reply.json({"message": MESSAGES[401]}, 401)
        query, texts = request.body["query"], request.body["documents"]
        return reranked([(place, relevance(query, text)) for place, text in enumerate(texts)])


def embedded(texts: Sequence[str], vectors: Sequence[Sequence[float]] | None = None) -> Reply:
    """Return the reply to an embed request."""
    return Reply.json(
        {
            "id": "0",
            "response_type": "embeddings_by_type",
            "embeddings": {"float": vectors if vectors is not None else [vector(text) for text in texts]},
            "texts": list(texts),
            "meta": {"api_version": {"version": "1"}, "billed_units": {"input_tokens": sum(map(len, texts))}},
        }
    )


def reranked(scored: Sequence[tuple[int, float]]) -> Reply:
    """Return the reply to a rerank request: places of the texts with their relevance, the most relevant first."""
    results = [{"index": place, "relevance_score": score} for place, score in sorted(scored, key=lambda one: -one[1])]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return Reply.json({"id": "0", "results": results, "meta": meta})


def refused(status: int, **headers: str) -> Fault:
    """Return an error with a status, as Cohere words it."""
    return Fault(reply=Reply.json({"message": MESSAGES[status]}, status, **headers))


BOTH = {
    **{str(status): refused(status) for status in MESSAGES},
    "502 HTML": Fault(reply=Reply.html("<html>502 Bad Gateway</html>", 502)),
    "reset": Fault(reset=True),
    "slow": Fault(slow=True),
    "html": Fault(reply=Reply.html("<html>a proxy's greeting</html>", 200)),
}
FAULTS: Mapping[str, Fault] = {
    **BOTH,
    "429 with Retry-After": refused(429, **{"Retry-After": "7"}),
    "torn": Fault(torn=True),
    "too few": Fault(reply=embedded(["a"])),
    "none": Fault(reply=embedded([], [])),
    "ragged": Fault(reply=embedded(["a", "b"], [[1.0, 0.0], [1.0]])),
    "nan": Fault(reply=embedded(["a", "b"], [[1.0, 0.0], [math.nan, 0.0]])),
    "truncated": Fault(reply=Reply(body=json.dumps({"embeddings": {"float": [[1.0]]}}).encode()[:-7])),
}
RERANK_FAULTS: Mapping[str, Fault] = {
    name: replace(fault, on=RERANK)
    for name, fault in {
        **BOTH,
        "truncated": Fault(reply=Reply(body=reranked([(0, 0.5)]).body[:-7])),
        "index too high": Fault(reply=reranked([(0, 0.5), (9, 0.4)])),
        "index twice": Fault(reply=reranked([(0, 0.5), (0, 0.4)])),
        "too few": Fault(reply=reranked([(0, 0.5)])),
        "too many": Fault(reply=reranked([(0, 0.5), (1, 0.4), (1, 0.3)])),
        "nan": Fault(reply=reranked([(0, math.nan), (1, 0.5)])),
    }.items()
}
"""For two texts."""
