"""Cohere's embeddings and reranking on the loopback, out of the words of a text."""

import hashlib
import math
from collections.abc import Sequence

from tests.support.loopback import LoopbackServer, Reply, Request

DIMENSION = 32
KEY = "co-SECRET-0123456789"


def vector(text: str) -> list[float]:
    """Return a unit vector: the sum of a pseudo-random vector for each word, near for texts with common words."""
    total = [0.0] * DIMENSION
    for word in text.lower().split() or [""]:
        digest = hashlib.sha512(word.encode()).digest()
        total = [a + b - 127.5 for a, b in zip(total, digest, strict=False)]
    length = math.sqrt(sum(value * value for value in total))
    return [value / length for value in total]


def relevance(query: str, text: str) -> float:
    asked, held = set(query.lower().split()), set(text.lower().split())
    return round(len(asked & held) / max(1, len(asked | held)), 6)


class CohereServer(LoopbackServer):
    """`POST /v1/embed` and `/v2/rerank` as api.cohere.com answers them, to anyone who sends `KEY`."""

    def answer(self, request: Request) -> Reply:
        if request.method != "POST" or request.path not in ("/v1/embed", "/v2/rerank"):
            return super().answer(request)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Reply.json({"message": "invalid api token"}, 401)
        if request.path == "/v1/embed":
            return embedded(request.body["texts"])
        query, texts = request.body["query"], request.body["documents"]
        return reranked([(place, relevance(query, text)) for place, text in enumerate(texts)])

    @property
    def inputs(self) -> list[tuple[str, list[str]]]:
        return [(request.body["input_type"], request.body["texts"]) for request in self.requests]


def embedded(texts: Sequence[str]) -> Reply:
    return Reply.json(
        {
            "id": "0",
            "response_type": "embeddings_by_type",
            "embeddings": {"float": [vector(text) for text in texts]},
            "texts": list(texts),
            "meta": {"api_version": {"version": "1"}, "billed_units": {"input_tokens": sum(map(len, texts))}},
        }
    )


def reranked(scored: Sequence[tuple[int, float]]) -> Reply:
    results = [{"index": place, "relevance_score": score} for place, score in sorted(scored, key=lambda one: -one[1])]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return Reply.json({"id": "0", "results": results, "meta": meta})
