"""Cohere's `POST /v2/rerank` on the loopback, beside the embeddings; and the faults it may have."""

import math
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from tests.support.cohere_server import FAULTS as EMBED_FAULTS
from tests.support.cohere_server import KEY, MESSAGES, CohereServer
from tests.support.loopback import Fault, Reply, Request

PATH = "/v2/rerank"


def relevance(query: str, text: str) -> float:
    """Return the share of words that query and text have in common, so that texts may tie."""
    asked, held = set(query.lower().split()), set(text.lower().split())
    return round(len(asked & held) / max(1, len(asked | held)), 6)


class RerankServer(CohereServer):
    """Answers as api.cohere.com does, to anyone who sends `KEY`."""

    def answer(self, request: Request) -> Reply:
        if (request.method, request.path) != ("POST", PATH):
            return super().answer(request)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Reply.json({"message": MESSAGES[401]}, 401)
        texts = request.body["documents"]
        return reranked([(place, relevance(request.body["query"], text)) for place, text in enumerate(texts)])


def reranked(scored: Sequence[tuple[int, float]]) -> Reply:
    """Return the reply to a rerank request: places of the texts with their relevance, the most relevant first."""
    results = [{"index": place, "relevance_score": score} for place, score in sorted(scored, key=lambda one: -one[1])]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return Reply.json({"id": "0", "results": results, "meta": meta})


SHARED = ("401", "403", "404", "429", "500", "502 HTML", "reset", "slow", "html")
FAULTS = MappingProxyType(
    {name: replace(EMBED_FAULTS[name], on=PATH) for name in SHARED}
    | {
        "truncated": Fault(reply=Reply(body=reranked([(0, 0.5)]).body[:-7]), on=PATH),
        "index too high": Fault(reply=reranked([(0, 0.5), (9, 0.4)]), on=PATH),
        "index twice": Fault(reply=reranked([(0, 0.5), (0, 0.4)]), on=PATH),
        "too few": Fault(reply=reranked([(0, 0.5)]), on=PATH),
        "too many": Fault(reply=reranked([(0, 0.5), (1, 0.4), (1, 0.3)]), on=PATH),
        "nan": Fault(reply=reranked([(0, math.nan), (1, 0.5)]), on=PATH),
    }
)
"""For two texts."""
