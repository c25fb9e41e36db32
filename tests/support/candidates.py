"""Candidates of one query from chunks put together by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrievers.records import RetrievedChunk, StageTimings
from retrievers.search.candidates import Candidates, ChunkList, Facts, Hits

NAN = float("nan")


def candidates_of(hits: Sequence[RetrievedChunk], text: str = "query", **facts: Any) -> Hits:
    """Return candidates of a query that took 1 ms, with further facts of it (`no_cosine`, `distance`, ...)."""
    return found_candidates(hits, **{"text": text, "timings": StageTimings(total_ms=1.0), **facts})[0]


def found_candidates(hits: Sequence[RetrievedChunk], chunks: ChunkList | None = None, **facts: Any) -> Candidates:
    """Return what a search found for one query, in the order that is given; their chunks are added to `chunks`."""
    chunks = ChunkList() if chunks is None else chunks
    own = [
        {"score": hit.score, "original_rank": hit.original_rank, "original_score": hit.original_score, **hit.scores}
        for hit in hits
    ]
    columns = {
        name: np.asarray([[NAN if (value := each.get(name)) is None else value for each in own]], dtype=np.float64)
        for name in dict.fromkeys(["score", *(name for each in own for name in each)])
    }
    distance = facts.get("distance", "cosine")
    told = {"scale": hits[0].score_scale if hits else distance, **facts}
    codes = np.asarray([[chunks.code(hit.chunk) for hit in hits]], dtype=np.int64)
    return Candidates(codes=codes, columns=columns, chunks=chunks, facts=(Facts(**told),))
