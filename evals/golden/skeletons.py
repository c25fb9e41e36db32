"""Skeleton cases from a collection's own chunks, for a person to fill in. Pure, seeded."""

import random
from collections.abc import Sequence
from typing import Any

from evals.golden.prose import prose
from retrievers.records import Chunk

QUOTE_WORDS = 60


def skeletons(chunks: Sequence[Chunk], count: int, out_of_scope: int, seed: int) -> list[dict[str, Any]]:
    """Return cases with evidence but an empty query, spread over as many pages as possible.

    The evidence quotes prose of a chunk. Chunks without any, such as code and lists of references, are passed over, but
    in a collection that has no others.

    Args:
        chunks: Chunks of the collection.
        count: Number of in-scope cases; fewer if there are fewer chunks.
        out_of_scope: Number of out-of-scope cases to add, empty but for their id.
        seed: Seed of the choice.
    """
    readable = [chunk for chunk in chunks if prose(chunk.text)] or [chunk for chunk in chunks if chunk.text.strip()]
    chosen = _spread(readable, count, random.Random(seed))
    inside = [_in_scope(f"case-{number:03}", chunk) for number, chunk in enumerate(chosen, 1)]
    outside = [
        {"id": f"out-{number:03}", "query": "", "in_scope": False, "query_type": "near_domain"}
        for number in range(1, out_of_scope + 1)
    ]
    cases = inside + outside
    return [case | {"split": ("dev", "test")[index % 2]} for index, case in enumerate(cases)]


def _spread(chunks: Sequence[Chunk], count: int, rng: random.Random) -> list[Chunk]:
    pages: dict[str, list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda c: c.chunk_id):
        pages.setdefault(chunk.source_url or chunk.file_path or chunk.chunk_id, []).append(chunk)
    queues = [rng.sample(page, len(page)) for _, page in sorted(pages.items())]
    rng.shuffle(queues)
    rounds = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(rounds) for queue in queues if turn < len(queue)][:count]


def _in_scope(case_id: str, chunk: Chunk) -> dict[str, Any]:
    case: dict[str, Any] = {"id": case_id, "query": "", "reference_answer": None, "query_type": "factual"}
    quote = " ".join((prose(chunk.text) or chunk.text).split()[:QUOTE_WORDS])
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote, "grade": 3}
    return case | {"evidence": [{key: value for key, value in evidence.items() if value is not None}]}
