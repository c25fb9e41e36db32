from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievedChunk
from retrievers.search import selection
from retrievers.search.selection import BELOW_SHOWN, best_score
from tests.support.candidates import candidates_of
from tests.support.selecting import Selected
from tests.support.selecting import select as select_by_hand


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


def select(
    hits: Sequence[RetrievedChunk],
    top_k: int,
    threshold: float | None,
    *,
    on: Literal["each", "best", "final"] = "each",
    group_by: str | None = None,
) -> Selected:
    """What is selected from columns, as objects."""
    # A user's own retriever alone has no threshold unless one is given.
    own = {"python": "app:retriever"}
    given = {"mode": "hybrid", "fusion": "weighted", "threshold": threshold, "threshold_on": on, "group_by": group_by}
    settings = RetrieverConfig.model_validate({"top_k": top_k, **(own if threshold is None else given)})
    candidates = candidates_of(hits)
    kept, below = selection.select(candidates, settings)
    return Selected(
        chunks=tuple(candidates.at(kept)),
        below_threshold=tuple(candidates[place] for place in below[:BELOW_SHOWN]),
        filtered_out=len(below),
        highest_below=best_score(candidates, below, settings),
    )


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


@pytest.mark.parametrize(
    ("cosines", "threshold", "kept", "below"),
    [
        ((0.1, 0.5, 0.2, 0.9), 0.9, [1, 2, 3], []),
        ((0.1, 0.5, 0.2, 0.9), 0.91, [], [1, 2, 3]),
        ((), 0.3, [], []),
    ],
)
def test_on_the_best_cosine_a_query_gets_all_or_nothing(
    cosines: tuple[float, ...], threshold: float, kept: list[int], below: list[int]
) -> None:
    found = select(ranked(*cosines), 3, threshold, on="best")
    assert [c.rank for c in found.chunks] == kept
    assert [c.rank for c in found.below_threshold] == below
    assert found.highest_below == (0.9 if below else None)


COSINES = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.30000001192092896, 0.5, 1.0]), max_size=12).map(
    lambda values: sorted(values, reverse=True)
)


@given(COSINES, st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_a_larger_top_k_only_adds_at_the_end(cosines: list[float], a: int, b: int, threshold: float) -> None:
    candidates, less, more = ranked(*cosines), min(a, b), max(a, b)
    assert select(candidates, less, threshold).chunks == select(candidates, more, threshold).chunks[:less]


@given(
    pairs=st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.3, 0.5, 1.0])), max_size=8),
    top_k=st.integers(1, 9),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    on=st.sampled_from(["each", "best", "final"]),
    urls=st.none() | st.lists(st.sampled_from(["/a", "/b", None]), min_size=8, max_size=8),
)
def test_a_selection_is_that_by_brute_force(
    pairs: list[tuple[float, float]],
    top_k: int,
    threshold: float,
    on: Literal["each", "best", "final"],
    urls: list[str | None] | None,
) -> None:
    hits = [
        replace(hit, chunk=replace(hit.chunk, source_url=url))
        for hit, url in zip(scored(*pairs), urls or [None] * 8, strict=False)
    ]
    group_by = "source_url" if urls else None
    found = select(hits, top_k, threshold, on=on, group_by=group_by)
    expected = select_by_hand(hits, top_k, threshold, on=on, group_by=group_by)
    assert ranks(found.chunks) == ranks(expected.chunks)
    assert found[1:] == expected[1:]


# Other scores, and groups


def scored(*pairs: tuple[float, float]) -> list[RetrievedChunk]:
    """Candidates of (final score, cosine)."""
    return [
        replace(chunk, score=final, score_scale="weighted")
        for chunk, (final, _) in zip(ranked(*(cosine for _, cosine in pairs)), pairs, strict=True)
    ]


def ranks(found: Sequence[RetrievedChunk]) -> list[int]:
    """The places that chunks had among the candidates, which is in their ids."""
    return [int(chunk.chunk.chunk_id[1:]) for chunk in found]


@pytest.mark.parametrize(
    ("on", "kept", "below"),
    [("each", [1, 3], [2, 4]), ("final", [1, 2], [3, 4])],
)
def test_the_threshold_reads_the_score_it_is_told_to(
    on: Literal["each", "final"], kept: list[int], below: list[int]
) -> None:
    found = select(scored((0.9, 0.9), (0.6, 0.2), (0.4, 0.8), (0.1, 0.1)), 5, 0.5, on=on)
    assert (ranks(found.chunks), ranks(found.below_threshold), found.filtered_out) == (kept, below, 2)


def test_what_is_kept_is_ranked_anew_and_what_is_below_keeps_its_rank() -> None:
    found = select(scored((0.9, 0.1), (0.6, 0.7), (0.4, 0.8)), 5, 0.5)
    assert [chunk.rank for chunk in found.chunks] == [1, 2]
    assert [chunk.rank for chunk in found.below_threshold] == [1]


def paged(*urls: str | None, cosines: Sequence[float] | None = None) -> list[RetrievedChunk]:
    places = cosines or [1 - place / 100 for place in range(len(urls))]
    return [
        replace(chunk, chunk=replace(chunk.chunk, source_url=url))
        for chunk, url in zip(ranked(*places), urls, strict=True)
    ]


@pytest.mark.parametrize(
    ("urls", "top_k", "kept"),
    [
        (("/a", "/a", "/b", "/a", "/b"), 5, [1, 3]),
        (("/a", "/a", "/b", "/c"), 2, [1, 3]),  # grouped before the cut
        (("/a", "/a", "/a"), 3, [1]),
        ((None, None, "/a", "/a"), 5, [1, 2, 3]),  # without a page each stands alone
        (("/a", "/A", "/a/"), 5, [1, 2, 3]),
        ((), 5, []),
    ],
)
def test_a_group_is_returned_by_its_best_chunk(urls: tuple[str | None, ...], top_k: int, kept: list[int]) -> None:
    found = select(paged(*urls), top_k, 0, group_by="source_url")
    assert ranks(found.chunks) == kept
    assert [chunk.rank for chunk in found.chunks] == list(range(1, len(kept) + 1))
    assert select(paged(*urls), top_k, 0, group_by="url") == found, "an alias means the same field"


def test_the_best_of_a_group_is_the_best_that_reaches_the_threshold() -> None:
    """By the final score the first of /a leads, but its cosine is below."""
    found = select(paged("/a", "/b", "/a", cosines=[0.2, 0.9, 0.8]), 5, 0.5, group_by="source_url")
    assert (ranks(found.chunks), ranks(found.below_threshold), found.filtered_out) == ([2, 3], [1], 1)


def test_groups_may_be_of_lists_and_numbers() -> None:
    one, two, three = ranked(0.9, 0.8, 0.7)
    tagged = [
        replace(one, chunk=replace(one.chunk, tags=("a", "b"), sidebar_position=1.0)),
        replace(two, chunk=replace(two.chunk, tags=("a",), sidebar_position=1)),
        replace(three, chunk=replace(three.chunk, tags=("a", "b"), sidebar_position=2)),
    ]
    assert ranks(select(tagged, 5, 0, group_by="tags").chunks) == [1, 2]
    assert ranks(select(tagged, 5, 0, group_by="sidebar_position").chunks) == [1, 3]


URLS = st.lists(st.sampled_from(["/a", "/b", "/c", None]), max_size=10)


@given(URLS, st.integers(1, 10))
def test_groups_by_brute_force(urls: list[str | None], top_k: int) -> None:
    found = ranks(select(paged(*urls), top_k, 0, group_by="source_url").chunks)
    best = [place for place, url in enumerate(urls) if url is None or url not in urls[:place]]
    assert found == [place + 1 for place in best][:top_k]


@pytest.mark.parametrize("top_k", [1, 2, 3, 9])
def test_without_a_threshold_the_first_are_kept_whatever_they_score(top_k: int) -> None:
    found = tuple(
        RetrievedChunk(
            rank=n, score=None, score_scale="none", chunk=Chunk(chunk_id=f"c{n}", point_id=f"c{n}", text="t")
        )
        for n in (1, 2, 3)
    )
    assert select(found, top_k, None) == Selected(found[:top_k], (), 0, None)
