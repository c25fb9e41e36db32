"""Rankings to results: selecting from ids and scores is selecting from all the chunks, with less to read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from retrievers.rerank.reranking import Pool, Reranking, diversify
from retrievers.retriever.stages import check_scale, chosen_codes, every_place, ordered, reordered, shown

from retrievers.errors import RerankError
from retrievers.records import RetrievedChunk
from retrievers.search.candidates import Candidates, CandidateTable, joined, one_query
from retrievers.store.chunks import ChunkTable
from tests.support.collections import settings
from tests.support.selecting import select

POINTS = [str(number) for number in range(9)]
GRID = st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 1.0])


class Shelf(ChunkTable):
    """Chunks out of a table, numbered as their points, which notes what is asked for that it does not know yet."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(None, settings(collection="c"))  # type: ignore[arg-type]
        self.table = {point: {"page_content": point, "metadata": {"chunk_id": name}} for point, name in names.items()}
        self.codes(POINTS)
        self.requests: list[set[str]] = []

    def read(self, codes: Iterable[int]) -> None:
        known = {POINTS.index(point) for request in self.requests for point in request}
        wanted = sorted({*codes} - known)
        if wanted:
            self.requests.append({self.point(code) for code in wanted})
        for code in wanted:
            self.keep(code, self.table[self.point(code)])


Scores = Mapping[str, float]
Found = Sequence[tuple[Scores, Mapping[str, Scores]]]
"""Of each query the final scores, and the components."""


def fused(shelf: Shelf, *queries: tuple[Scores, Mapping[str, Scores]]) -> CandidateTable:
    """Candidates of queries as columns, from dicts by point: final scores and components."""
    rows = []
    for scores, components in queries:
        columns = {name: np.asarray([side.get(p, np.nan) for p in scores]) for name, side in components.items()}
        codes = np.asarray([POINTS.index(p) for p in scores], dtype=np.int32)
        values = np.asarray(list(scores.values()), dtype=float)
        rows.append(one_query(codes, values, columns, shelf, scale="weighted"))
    return joined(rows, shelf)


def by_point(found: Candidates, column: NDArray[np.float64]) -> dict[str, float]:
    """A column as a dict by point, without its gaps."""
    pairs = zip(found.codes.tolist(), column.tolist(), strict=True)
    return {POINTS[code]: value for code, value in pairs if not np.isnan(value)}


@st.composite
def rankings(draw: st.DrawFn) -> Found:
    """Candidates of some queries with scores that tie, each with a cosine for every candidate and a BM25 for some."""
    made = []
    for _ in range(draw(st.integers(0, 3))):
        points = draw(st.lists(st.sampled_from(POINTS), unique=True))
        some = draw(st.lists(st.sampled_from(points), unique=True)) if points else []
        components = {"semantic": {p: draw(GRID) for p in points}, "keyword": {p: draw(GRID) for p in some}}
        made.append(({p: draw(GRID) for p in points}, components))
    return made


DEPTHS = st.integers(1, 9)


def read_of(found: Found, depth: int, shelf: Shelf) -> list[tuple[RetrievedChunk, ...]]:
    """All candidates of each query, with their chunks."""
    return [tuple(candidates) for candidates in ordered(fused(shelf, *found), depth, shelf, every_place)]


NAMES = st.fixed_dictionaries({point: st.sampled_from(["x", "y", "z"]) for point in POINTS})


def plain(found: RetrievedChunk) -> RetrievedChunk:
    return replace(found, rank=1, retrieved_at=None)


@given(rankings(), DEPTHS, NAMES)
def test_candidates_are_all_points_in_the_total_order(found: Found, depth: int, names: dict[str, str]) -> None:
    shelf = Shelf(names)
    results = read_of(found, depth, shelf)
    for ranking, result in zip(fused(shelf, *found), results, strict=True):
        scores = by_point(ranking, ranking.scores)
        best = sorted(scores, key=lambda p, scores=scores: (-scores[p], names[p], p))[:depth]  # type: ignore[misc]
        assert [(c.rank, c.chunk.point_id, c.chunk.chunk_id, c.score) for c in result] == [
            (rank, p, names[p], scores[p]) for rank, p in enumerate(best, 1)
        ]
        sides = {name: by_point(ranking, column) for name, column in ranking.columns.items()}
        assert [dict(c.scores) for c in result] == [
            {name: side[p] for name, side in sides.items() if p in side} for p in best
        ]
    assert len(shelf.requests) <= 1


def shown_by(top_k: int, threshold: float, on: Literal["each", "final"]) -> Callable[[Candidates], list[int]]:
    """Return the candidates that an answer of those settings shows."""
    config = settings(mode="hybrid", fusion="weighted", top_k=top_k, threshold=threshold, threshold_on=on)
    return lambda found: shown(found, config)


def read_at(found: Candidates, places: Sequence[int]) -> list[RetrievedChunk]:
    """Return the candidates at some places."""
    return [plain(hit) for hit in found.at(places)]


@given(
    found=rankings(),
    depth=DEPTHS,
    names=NAMES,
    top_k=st.integers(1, 9),
    threshold=GRID,
    on=st.sampled_from(("each", "final")),
)
def test_what_is_shown_is_the_selection_of_all_candidates(
    found: Found, depth: int, names: dict[str, str], top_k: int, threshold: float, on: Literal["each", "final"]
) -> None:
    everything = read_of(found, depth, Shelf(names))
    shelf, answer = Shelf(names), shown_by(top_k, threshold, on)
    for scores, all_of_them in zip(ordered(fused(shelf, *found), depth, shelf, answer), everything, strict=True):
        expected = select(all_of_them, top_k, threshold, on=on)
        assert len(scores.codes) == len(all_of_them)
        read = read_at(scores, answer(scores))
        assert read == [plain(c) for c in (*expected.chunks, *expected.below_threshold)]
    assert len(shelf.requests) <= 1


@given(
    found=rankings(),
    depth=DEPTHS,
    names=NAMES,
    top_k=st.integers(1, 9),
    threshold=GRID,
    on=st.sampled_from(("each", "final")),
)
def test_of_a_diversified_list_that_is_shown_which_all_candidates_give(
    found: Found, depth: int, names: dict[str, str], top_k: int, threshold: float, on: Literal["each", "final"]
) -> None:
    """Vectors of three directions, so that points tie in score, in cosine and in likeness."""

    def diversified(found: Candidates, shelf: Shelf) -> Candidates:
        vectors = np.asarray([np.eye(3)[code % 3] for code in found.codes]).reshape(len(found.codes), 3)
        pool = Pool(query="q", cosines=found.column("semantic").tolist(), vectors=vectors)
        return reordered(found, diversify(pool, 0.7), None, shelf)

    full = Shelf(names)
    everything = [tuple(diversified(one, full)) for one in ordered(fused(full, *found), depth, full, every_place)]
    shelf, answer = Shelf(names), shown_by(top_k, threshold, on)
    moved = [diversified(one, shelf) for one in ordered(fused(shelf, *found), depth, shelf)]
    shelf.read(chosen_codes(moved, answer))
    for scores, all_of_them in zip(moved, everything, strict=True):
        expected = select(all_of_them, top_k, threshold, on=on)
        assert len(scores.codes) == len(all_of_them)
        read = read_at(scores, answer(scores))
        assert read == [plain(c) for c in (*expected.chunks, *expected.below_threshold)]
    assert len(shelf.requests) <= 2, "one for what ties, one for what is shown"


def test_nothing_is_read_but_what_is_shown_and_what_ties() -> None:
    scores = {"0": 0.9, "1": 0.8, "2": 0.7, "3": 0.7, "4": 0.6, "5": 0.5, "6": 0.4, "7": 0.3}
    semantic = {**dict.fromkeys(scores, 0.9), "4": 0.1}
    shelf, answer = Shelf({point: f"c{point}" for point in POINTS}), shown_by(1, 0.3, "each")
    (found,) = ordered(fused(shelf, (scores, {"semantic": semantic})), 8, shelf, answer)
    assert (answer(found), len(found.codes), shelf.requests) == ([0, 4], 8, [{"0", "4", "2", "3"}])


def test_of_what_is_whole_nothing_is_read_beyond_the_depth_but_what_ties() -> None:
    shelf = Shelf({point: f"c{point}" for point in POINTS})
    (found,) = ordered(fused(shelf, ({"3": 0.9, "2": 0.5, "1": 0.5, "0": 0.1}, {})), 2, shelf, every_place)
    assert (found.codes.tolist(), shelf.requests) == ([3, 1], [{"3", "2", "1"}])


def test_no_query_has_no_result() -> None:
    shelf = Shelf({})
    assert ordered(fused(shelf), 5, shelf, every_place) == []


# Reranked


def test_equal_scores_of_a_reranker_are_ordered_by_chunk_id() -> None:
    shelf = Shelf(dict(zip("012", "zyx", strict=True)))
    (found,) = ordered(fused(shelf, ({"0": 0.9, "1": 0.8, "2": 0.7}, {"semantic": {}})), 3, shelf, every_place)
    reranking = Reranking(order=(0, 1, 2), scores=(0.5, 0.25, 0.5), components={"extra": (1.0, 2.0, 3.0)})
    moved = reordered(found, reranking, "rerank", shelf)
    assert [(c.chunk.chunk_id, c.score, c.original_rank, c.original_score) for c in moved] == [
        ("x", 0.5, 3, 0.7),
        ("z", 0.5, 1, 0.9),
        ("y", 0.25, 2, 0.8),
    ]
    assert [dict(c.scores) for c in moved] == [
        {"rerank": score, "extra": extra} for score, extra in ((0.5, 3.0), (0.5, 1.0), (0.25, 2.0))
    ]
    assert list(found.columns) == ["semantic"], "what is given is not changed"


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((), "the own gives no scores, which threshold_on: final would read"),
        ((0.4, None), "the own gives no scores"),
        ((0.4, 3.5), r"the own's scores are not within 0 and 1 \(one is 3\.5\)"),
    ],
)
def test_a_threshold_on_final_needs_scores_from_0_to_1(scores: tuple[float | None, ...], said: str) -> None:
    shelf = Shelf(dict(zip("01", "ab", strict=True)))
    (found,) = ordered(fused(shelf, ({"0": 0.9, "1": 0.8}, {})), 2, shelf, every_place)
    with pytest.raises(RerankError, match=said):
        check_scale(reordered(found, Reranking(order=(0, 1), scores=scores), "rerank", shelf), "own")
    check_scale(reordered(found, Reranking(order=(0, 1), scores=(0.0, 1.0)), "rerank", shelf), "own")
