import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

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
PARAMETERS = {"collection": "pages", "mode": "semantic", "top_k": 5, "threshold": 0.3, "candidates": 100}
SESSION = RetrievalSession(
    session_id="s1",
    query="what is a topic?",
    parameters=PARAMETERS,
    status="success",
    chunks=(FOUND,),
    below_threshold=(replace(FOUND, rank=2, score=0.2, retrieved_at=None),),
    candidates_found=5,
    filtered_out=4,
    embedding={"provider": "wordllama", "model": "m", "dimension": 2, "vector": (0.6, 0.8)},
    timings=StageTimings(embed_ms=1.25, search_ms=2.5, total_ms=3.75),
    confidence=Confidence(
        average=0.6128, minimum=0.6128, maximum=0.6128, deviation=0.0, coverage=0.2, level="medium",
        reason="best score 0.61 ≥ 0.47, 1 of 5 places filled",
    ),
)  # fmt: skip
SUMMARY = [
    "1 returned of 5 found, 4 below the threshold · semantic · top_k 5 · threshold 0.3 on the cosine · pages",
    "3.8 ms (embed 1.2 ms, search 2.5 ms)",
    "Confidence medium: best score 0.61 ≥ 0.47, 1 of 5 places filled; average 0.61",
    "From /docs/topics (1)",
]


def test_a_session_reads_as_ranked_results_and_a_summary() -> None:
    assert session_text(SESSION).splitlines() == [
        " 1  0.613  ros2/topics.md:6-8",
        "           ros2 › topics › Topics",
        "           A topic is a bus.",
        "",
        *SUMMARY,
    ]


def test_a_verbose_session_has_whole_texts_all_scores_and_what_was_before_reranking() -> None:
    scores = {"semantic": 0.6128, "keyword": 7.25, "rerank": 0.9}
    moved = replace(FOUND, score=0.9, score_scale="rerank", scores=scores, original_rank=7, original_score=0.6128)
    session = replace(SESSION, chunks=(moved,))
    assert session_text(session, verbose=True).splitlines() == [
        " 1  0.900 rerank (cosine 0.613)  ros2/topics.md:6-8  (before reranking: 7, 0.613)",
        "           ros2 › topics › Topics",
        "           semantic 0.613, keyword 7.250, rerank 0.900",
        "           A topic",
        "           is a bus.",
        "",
        *SUMMARY,
    ]
    (chunk,) = session_json(session)["chunks"]
    assert (chunk["score"], chunk["original_rank"], chunk["original_score"]) == (0.9, 7, 0.6128)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"mode": "hybrid", "fusion": "weighted"}, "hybrid, weighted · top_k 5 · threshold 0.3 on the cosine"),
        ({"threshold_on": "final"}, "semantic · top_k 5 · threshold 0.3 on the final score"),
        ({"threshold_on": "best"}, "semantic · top_k 5 · threshold 0.3 on the best cosine"),
        ({"rerank": "mmr"}, "semantic, mmr · top_k 5 · threshold 0.3 on the cosine"),
        ({"filters": "n = 5", "group_by": "source_url", "threshold": None},
         "semantic, where n = 5, one for each source_url · top_k 5 · no threshold"),
    ],
)  # fmt: skip
def test_the_summary_says_how_it_was_searched(changes: dict[str, Any], shown: str) -> None:
    text = session_text(replace(SESSION, parameters={**PARAMETERS, **changes}))
    assert f"below the threshold · {shown} · pages\n" in text


def test_an_empty_session_shows_the_best_below_the_threshold_as_such() -> None:
    empty = replace(SESSION, chunks=(), confidence=None, warnings=("all are below",), suggestions=("lower it",))
    lines = session_text(empty).splitlines()
    assert lines[:4] == [
        "No result.",
        "",
        "Best matches below the threshold (not part of the result):",
        " 2  0.200  ros2/topics.md:6-8",
    ]
    assert lines[-2:] == ["Warning: all are below", "Try: lower it"]
    assert not any(line.startswith("Confidence") for line in lines)


def test_the_json_of_a_session_holds_every_field() -> None:
    document = json.loads(json.dumps(session_json(SESSION)))
    assert set(document) == {field.name for field in fields(RetrievalSession)} | {"sources"}
    assert document["embedding"]["vector"] == [0.6, 0.8]
    assert document["timings"] == {"embed_ms": 1.25, "search_ms": 2.5, "rerank_ms": None, "total_ms": 3.75}
    assert document["confidence"]["level"] == "medium"
    (chunk,) = document["chunks"]
    assert (chunk["rank"], chunk["score"], chunk["scores"]) == (1, 0.6128, {"semantic": 0.6128})
    assert (chunk["source"], chunk["breadcrumb"]) == ("ros2/topics.md:6-8", "ros2 › topics › Topics")
    assert (chunk["point_id"], chunk["text"]) == ("p1", "A topic\nis a bus.")
    assert (chunk["metadata"]["tags"], chunk["metadata"]["chunk_text_preview"]) == (["a", "b"], "A topic is a bus.")
    assert chunk["problems"] == ["title: expected text, got 5"]
    assert chunk["retrieved_at"] == "2026-01-02T03:04:05+00:00"
    assert document["below_threshold"][0]["retrieved_at"] is None
    failed = RetrievalSession(session_id="s", query="q", parameters={}, status="timeout", error="no answer within 1 s")
    assert session_text(failed) == "timeout: no answer within 1 s"
    assert json.dumps(session_json(failed), allow_nan=False)
