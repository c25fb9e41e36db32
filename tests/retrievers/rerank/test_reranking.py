"""The declarations of rerankers, and the candidates that they move."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrievers.rerank.reranking import Pool, make_reranker
from retrievers.retriever.stages import reordered

from retrievers.config import RERANKERS, RetrieverConfig
from retrievers.records import RetrievedChunk
from retrievers.store.chunks import ChunkTable
from tests.support.candidates import found_candidates

QUERY = "red robot arm"
OWN = "tests.support.rerankers:"


def chunks_of(texts: Sequence[str]) -> ChunkTable:
    """Chunks whose ids fall from c8."""
    chunks = ChunkTable(None, RetrieverConfig())  # type: ignore[arg-type]
    payloads = [{"page_content": text, "metadata": {"chunk_id": f"c{8 - n}"}} for n, text in enumerate(texts)]
    for code, payload in zip(chunks.codes(range(len(texts))).tolist(), payloads, strict=True):
        chunks.keep(code, payload)
    return chunks


def moved_by(name: str, *texts: str) -> tuple[RetrievedChunk, ...]:
    """Candidates of scores 1, 1/2, 1/3, ... in the order of a user's own cross-encoder."""
    model = {"provider": "python", "model": OWN + name}
    settings = RetrieverConfig.model_validate({"rerank": "cross-encoder", "cross_encoder": model})
    rerank = make_reranker(settings, {})
    assert rerank
    count, chunks = len(texts), chunks_of(texts)
    scores = 1 / np.arange(1.0, count + 1)
    columns = {"semantic": np.full(count, 0.5), "fused": scores}
    before = found_candidates(range(count), scores.tolist(), columns, chunks=chunks, scale="weighted")
    pool = Pool(query=QUERY, cosines=[0.5] * count, texts=texts)
    return tuple(reordered(before, rerank(pool), settings.reranker.scale, chunks))


def test_scores_and_ranks_from_before_stay_visible() -> None:
    moved = moved_by("Scorer", "blue sea", "red arm", "red robot arm")
    shown = [(c.rank, c.chunk.text, c.score, c.score_scale, c.original_rank, c.original_score) for c in moved]
    assert shown == [
        (1, "red robot arm", 1.0, "rerank", 3, 1 / 3),
        (2, "red arm", 2 / 3, "rerank", 2, 1 / 2),
        (3, "blue sea", 0.0, "rerank", 1, 1.0),
    ]
    assert [c.scores for c in moved] == [
        {"semantic": 0.5, "fused": 1 / 3, "rerank": 1.0},
        {"semantic": 0.5, "fused": 1 / 2, "rerank": 2 / 3},
        {"semantic": 0.5, "fused": 1.0, "rerank": 0.0},
    ]


def test_equal_scores_are_ordered_by_chunk_id() -> None:
    moved = moved_by("Scorer", "red", "robot", "arm")
    assert [c.chunk.chunk_id for c in moved] == ["c6", "c7", "c8"]
    assert [c.original_rank for c in moved] == [3, 2, 1]


def test_without_scores_candidates_keep_theirs_in_the_new_order() -> None:
    moved = moved_by("ReversingCompressor", "red", "robot", "arm")
    assert [(c.rank, c.chunk.text, c.score, c.score_scale) for c in moved] == [
        (1, "arm", 1 / 3, "weighted"),
        (2, "robot", 1 / 2, "weighted"),
        (3, "red", 1.0, "weighted"),
    ]
    assert [c.original_rank for c in moved] == [3, 2, 1]
    assert all("rerank" not in c.scores for c in moved)


def test_candidates_left_out_are_gone() -> None:
    moved = moved_by("FilteringCompressor", "red", "sea", "arm")
    assert [(c.rank, c.chunk.text, c.original_rank) for c in moved] == [(1, "red", 1), (2, "arm", 3)]
    assert moved_by("FilteringCompressor", "sea") == ()


WORDS = st.lists(st.sampled_from(["red", "robot", "arm", "sea", "sky"]), max_size=3).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_reranking_is_a_permutation_in_the_total_order(texts: list[str]) -> None:
    after = moved_by("Scorer", *texts)
    assert sorted(c.chunk.chunk_id for c in after) == sorted(f"c{8 - n}" for n in range(len(texts)))
    keys = [(-c.known_score, c.chunk.chunk_id) for c in after]
    assert keys == sorted(keys)
    assert [c.rank for c in after] == list(range(1, len(texts) + 1))


@pytest.mark.parametrize("name", RERANKERS)
def test_every_declared_reranker_can_be_made_and_names_settings_that_exist(name: str) -> None:
    env: Mapping[str, str] = {"COHERE_API_KEY": "k"}
    settings = RetrieverConfig.model_validate({"mode": "hybrid", "rerank": name})
    assert (make_reranker(settings, env) is None) == (settings.reranker.make is None)
    assert {*settings.reranker.settings} <= {*RetrieverConfig.model_fields}
