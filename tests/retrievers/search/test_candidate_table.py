"""Candidates as columns give back the objects that they were made of."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrievers.records import Chunk, RetrievedChunk, StageTimings
from retrievers.search.candidates import Candidates, CandidateTable, ChunkList, TableBuilder, table_of, table_of_hits
from tests.support.candidates import candidates_of

TIMINGS = StageTimings(embed_ms=1, search_ms=2, rerank_ms=None, total_ms=3)
SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
NAMES = st.sampled_from(["semantic", "keyword", "fused"])


def hit(rank: int, name: str, score: float | None = None, before: int | None = None, **scores: float) -> RetrievedChunk:
    chunk = Chunk(chunk_id=name, point_id=name, text=name)
    return RetrievedChunk(
        rank=rank, score=score, score_scale="rrf", scores=scores, chunk=chunk, original_rank=before,
        original_score=None if before is None else 0.5,
    )  # fmt: skip


def found(*hits: RetrievedChunk) -> Candidates:
    return candidates_of(hits, f"q{len(hits)}", timings=TIMINGS)


FIRST = (hit(1, "a", 0.9, 2, semantic=0.5), hit(2, "b", 0.8, 1, keyword=3.0), hit(3, "a"))
TABLE = table_of([found(*FIRST), found(), found(hit(1, "b", semantic=0.1))])


def test_rows_are_the_candidates() -> None:
    assert (TABLE[0].text, TABLE[0].timings, tuple(TABLE[0])) == ("q3", TIMINGS, FIRST)
    assert TABLE.texts == ("q3", "q0", "q1")
    assert [len(row) for row in TABLE[:]] == [3, 0, 1]
    assert TABLE[-1][0].scores == {"semantic": 0.1}
    with pytest.raises(IndexError, match="expected a query from 0 to 2, got 3"):
        TABLE[3]
    assert table_of(list(TABLE)) is TABLE
    assert TABLE.codes.tolist() == [0, 1, 0, 1], "an equal chunk is kept once"


def test_candidates_are_a_sequence() -> None:
    hits = TABLE[0]
    assert (hits[-1], hits[1:]) == (FIRST[2], FIRST[1:])
    assert hits == FIRST == tuple(hits) and hits != FIRST[1:]
    assert [chunk.text for chunk in hits.chunks] == ["a", "b", "a"]
    assert hits.chunk_ids == ("a", "b", "a")
    with pytest.raises(IndexError, match="expected a candidate from 0 to 2, got 3"):
        hits[3]
    assert hits.column("semantic") == pytest.approx([0.5, np.nan, np.nan], nan_ok=True)
    chosen = hits.at([2, 1]).at([1])
    assert [(c.rank, c.chunk.chunk_id, c.original_rank) for c in chosen] == [(1, "b", 1)]
    assert (chosen.column("keyword").tolist(), chosen.column("score").tolist()) == ([3.0], [0.8])
    assert np.isnan(chosen.column("unknown")).all()


def test_a_column_is_laid_out_by_query_and_place() -> None:
    assert TABLE.matrix(TABLE.codes, -1).tolist() == [[0, 1, 0], [-1, -1, -1], [1, -1, -1]]


def joined(chunks: ChunkList, *batches: Sequence[RetrievedChunk]) -> CandidateTable:
    whole = TableBuilder(chunks)
    for batch in batches:
        whole.extend(table_of_hits(batch, chunks=chunks))
    return whole.table()


def test_a_column_that_only_some_batches_have_is_empty_in_the_others() -> None:
    batches = [(hit(1, "a", semantic=0.5),), (hit(1, "b", keyword=2.0),), (hit(1, "c", semantic=0.1),)]
    table = joined(ChunkList(), *batches)
    assert [tuple(row) for row in table] == batches
    assert table.column("keyword") == pytest.approx([np.nan, 2.0, np.nan], nan_ok=True)


HITS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | SCORES, st.none() | st.integers(1, 9), st.dictionaries(NAMES, SCORES))
).map(lambda rows: tuple(hit(n, name, s, before, **c) for n, (name, s, before, c) in enumerate(rows, 1)))


@given(st.lists(HITS, max_size=4))
def test_objects_come_back_as_they_were(lists: list[tuple[RetrievedChunk, ...]]) -> None:
    assert [tuple(row) for row in table_of([found(*hits) for hits in lists])] == lists
    assert [tuple(row) for row in joined(ChunkList(), *lists)] == lists
