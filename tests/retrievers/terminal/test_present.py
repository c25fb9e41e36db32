"""A session for a person, and as JSON: what is shown stands in the snapshots, and nowhere else."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from syrupy.assertion import SnapshotAssertion

from retrievers.records import Chunk, Confidence, RetrievalSession, RetrievedChunk, StageTimings
from retrievers.terminal.present import session_json, session_text

CHUNK = Chunk(
    chunk_id="c1", point_id="p1", text="A topic\nis a bus.", source_url="/docs/topics", module="ros2", chapter="topics",
    heading="Topics", tags=("a", "b"), file_path="ros2/topics.md", start_line=6, end_line=8,
    problems=("title: expected text, got 5",),
)  # fmt: skip
FOUND = RetrievedChunk(
    rank=1, score=0.6128, score_scale="cosine", scores={"semantic": 0.6128}, chunk=CHUNK,
    retrieved_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)  # fmt: skip
BELOW = replace(FOUND, rank=2, score=0.2, retrieved_at=None)
RERANKED = replace(
    FOUND, score=0.9, score_scale="rerank", scores={"semantic": 0.6128, "keyword": 7.25, "rerank": 0.9},
    original_rank=7, original_score=0.6128,
)  # fmt: skip
PARAMETERS = {"collection": "pages", "mode": "semantic", "top_k": 5, "threshold": 0.3, "candidates": 100}
SESSION = RetrievalSession(
    session_id="s1", query="what is a topic?", parameters=PARAMETERS, status="success",
    chunks=(FOUND,), below_threshold=(BELOW,), candidates_found=5, filtered_out=4,
    embedding={"provider": "wordllama", "model": "m", "dimension": 2, "vector": (0.6, 0.8)},
    timings=StageTimings(embed_ms=1.25, search_ms=2.5, total_ms=3.75),
    confidence=Confidence(
        average=0.6128, level="medium",
        reason="best score 0.61 ≥ 0.47, 1 of 5 places filled",
    ),
)  # fmt: skip
SESSIONS = {
    "found": SESSION,
    "reranked": replace(SESSION, chunks=(RERANKED,)),
    "nothing": replace(SESSION, chunks=(), confidence=None, warnings=("all are below",), suggestions=("lower it",)),
    "timeout": RetrievalSession(
        session_id="s", query="q", parameters={}, status="timeout", error="no answer within 1 s"
    ),
}


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_a_session_as_text_and_as_json(session: RetrievalSession, snapshot: SnapshotAssertion) -> None:
    assert session_text(session) == snapshot(name="text")
    assert session_text(session, verbose=True) == snapshot(name="verbose")
    document = json.dumps(session_json(session), allow_nan=False)
    assert json.loads(document) == snapshot(name="JSON")
    assert set(json.loads(document)) == {field.name for field in fields(RetrievalSession)} | {"sources"}


def test_the_summary_says_how_it_was_searched(snapshot: SnapshotAssertion) -> None:
    for changes in (
        {"mode": "hybrid", "fusion": "weighted"},
        {"threshold_on": "final"},
        {"threshold_on": "best"},
        {"rerank": "mmr"},
        {"filters": "n = 5", "group_by": "source_url", "threshold": None},
    ):
        text = session_text(replace(SESSION, parameters={**PARAMETERS, **changes}))
        assert text.splitlines()[4] == snapshot
