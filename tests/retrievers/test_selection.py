import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrievers.records import Chunk, RetrievedChunk
from retrievers.selection import BELOW_SHOWN, select


def ranked(*cosines: float) -> list[RetrievedChunk]:
    return [
        RetrievedChunk(
            rank=rank,
            score=cosine,
            score_scale="cosine",
            scores={"semantic": cosine},
            chunk=Chunk(chunk_id=f"c{rank}", point_id=f"p{rank}", text="t"),
        )
        for rank, cosine in enumerate(cosines, 1)
    ]


@pytest.mark.parametrize(
    ("cosines", "top_k", "threshold", "kept", "below", "filtered"),
    [
        ((0.9, 0.5, 0.2), 5, 0.3, [1, 2], [3], 1),
        ((0.9, 0.5, 0.2), 1, 0.3, [1], [3], 1),  # the cut is not the threshold's doing
        ((0.9, 0.3, 0.3), 5, 0.3, [1, 2, 3], [], 0),  # inclusive
        ((0.2, 0.1, 0.1, 0.1), 5, 0.3, [], [1, 2, 3], 4),  # the best three are shown
        ((0.0,), 5, 0.0, [1], [], 0),
        ((1.0, 0.999), 5, 1.0, [1], [2], 1),
        ((), 5, 0.3, [], [], 0),
    ],
)
def test_the_threshold_comes_before_the_cut(
    cosines: tuple[float, ...], top_k: int, threshold: float, kept: list[int], below: list[int], filtered: int
) -> None:
    found = select(ranked(*cosines), top_k, threshold)
    assert [c.rank for c in found.chunks] == kept
    assert [c.rank for c in found.below_threshold] == below
    assert found.filtered_out == filtered


def test_the_threshold_reads_the_cosine_whatever_the_score() -> None:
    chunk = Chunk(chunk_id="c", point_id="p", text="t")
    fused = RetrievedChunk(rank=1, score=0.02, score_scale="rrf", scores={"semantic": 0.8}, chunk=chunk)
    assert select([fused], 5, 0.5).chunks == (fused,)


COSINES = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.30000001192092896, 0.5, 1.0]), max_size=12).map(
    lambda values: sorted(values, reverse=True)
)


@given(COSINES, st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_a_larger_top_k_only_adds_at_the_end(cosines: list[float], a: int, b: int, threshold: float) -> None:
    candidates, less, more = ranked(*cosines), min(a, b), max(a, b)
    assert select(candidates, less, threshold).chunks == select(candidates, more, threshold).chunks[:less]


@given(COSINES, st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_kept_and_filtered_are_all_there_is(cosines: list[float], top_k: int, threshold: float) -> None:
    found = select(ranked(*cosines), top_k, threshold)
    kept = sum(cosine >= threshold for cosine in cosines)
    assert len(found.chunks) == min(kept, top_k)
    assert found.filtered_out == len(cosines) - kept
    assert len(found.below_threshold) == min(BELOW_SHOWN, found.filtered_out)
