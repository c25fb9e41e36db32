"""Rankings to results: selecting from ids and scores is selecting from all the chunks, with less to read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retrievers.records import RetrievedChunk
from retrievers.rerank.mmr import diversify, mmr_order
from retrievers.search.ranking import Ranking
from retrievers.search.retrieved import candidates, diversified, selections, total_orders
from retrievers.search.selection import cut, select
from retrievers.store.stored_chunks import Chunks
from tests.support.collections import settings

POINTS = [str(number) for number in range(9)]
GRID = st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 1.0])


class Shelf(Chunks):
    """Chunks out of a table, which notes what is read of it."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(None, settings(collection="c"))  # type: ignore[arg-type]
        self.table = {point: {"page_content": point, "metadata": {"chunk_id": name}} for point, name in names.items()}
        self.requests: list[set[str]] = []

    def read(self, points: Iterable[str]) -> None:
        wanted = set(points)
        self.requests.append(wanted)
        self.keep({point: self.table[point] for point in wanted})


@st.composite
def rankings(draw: st.DrawFn) -> list[Ranking]:
    """Some rankings of scores that tie, each with a cosine for every candidate and a BM25 for some."""
    made = []
    for _ in range(draw(st.integers(0, 3))):
        points = draw(st.lists(st.sampled_from(POINTS), unique=True))
        some = draw(st.lists(st.sampled_from(points), unique=True)) if points else []
        components = {"semantic": {p: draw(GRID) for p in points}, "keyword": {p: draw(GRID) for p in some}}
        scores = {p: draw(GRID) for p in points}
        made.append(Ranking(scale="weighted", scores=scores, components=components, depth=draw(st.integers(1, 9))))
    return made


NAMES = st.fixed_dictionaries({point: st.sampled_from(["x", "y", "z"]) for point in POINTS})


def untimed(found: RetrievedChunk) -> RetrievedChunk:
    return replace(found, retrieved_at=None)


@given(rankings(), NAMES)
def test_candidates_are_all_points_in_the_total_order(found: list[Ranking], names: dict[str, str]) -> None:
    shelf = Shelf(names)
    results = candidates(found, shelf)
    assert len(results) == len(found)
    for ranking, result in zip(found, results, strict=True):
        best = sorted(ranking.scores, key=lambda p: (-ranking.scores[p], names[p], p))[: ranking.depth]
        assert [(c.rank, c.chunk.point_id, c.chunk.chunk_id, c.score) for c in result] == [
            (rank, p, names[p], ranking.scores[p]) for rank, p in enumerate(best, 1)
        ]
        assert [dict(c.scores) for c in result] == [
            {name: side[p] for name, side in ranking.components.items() if p in side} for p in best
        ]
    assert len(shelf.requests) == 1


@given(
    found=rankings(),
    names=NAMES,
    top_k=st.integers(1, 9),
    threshold=GRID,
    on=st.sampled_from(("semantic", "final")),
)
def test_a_selection_is_that_of_all_candidates(
    found: list[Ranking], names: dict[str, str], top_k: int, threshold: float, on: Literal["semantic", "final"]
) -> None:
    everything = candidates(found, Shelf(names))
    shelf = Shelf(names)
    chosen = selections(found, shelf, lambda scores: cut(scores, top_k, threshold), on)
    for (selection, count), all_of_them in zip(chosen, everything, strict=True):
        expected = select(all_of_them, top_k, threshold, on=on)
        assert count == len(all_of_them)
        assert [untimed(c) for c in selection.chunks] == [untimed(c) for c in expected.chunks]
        assert [untimed(c) for c in selection.below_threshold] == [untimed(c) for c in expected.below_threshold]
        assert (selection.filtered_out, selection.highest_below) == (expected.filtered_out, expected.highest_below)
    assert len(shelf.requests) == 1


@given(
    found=rankings(), names=NAMES, top_k=st.integers(1, 9), threshold=GRID, on=st.sampled_from(("semantic", "final"))
)
def test_a_diversified_selection_is_that_of_all_candidates(
    found: list[Ranking], names: dict[str, str], top_k: int, threshold: float, on: Literal["semantic", "final"]
) -> None:
    """Vectors of three directions, so that points tie in score, in cosine and in likeness."""

    def vectors(points: Sequence[str]) -> NDArray[np.float64]:
        return np.asarray([np.eye(3)[int(point) % 3] for point in points]).reshape(len(points), 3)

    everything = [
        diversify(one, vectors([c.chunk.point_id for c in one]), 0.7) for one in candidates(found, Shelf(names))
    ]
    shelf = Shelf(names)
    orders = total_orders(found, shelf)
    picks = [
        mmr_order([ranking.components["semantic"][point] for point in order], vectors(order), 0.7)
        for ranking, order in zip(found, orders, strict=True)
    ]
    chosen = diversified(found, orders, picks, shelf, lambda scores: cut(scores, top_k, threshold), on)
    for (selection, count), all_of_them in zip(chosen, everything, strict=True):
        expected = select(all_of_them, top_k, threshold, on=on)
        assert count == len(all_of_them)
        assert [untimed(c) for c in selection.chunks] == [untimed(c) for c in expected.chunks]
        assert [untimed(c) for c in selection.below_threshold] == [untimed(c) for c in expected.below_threshold]
        assert (selection.filtered_out, selection.highest_below) == (expected.filtered_out, expected.highest_below)
    assert len(shelf.requests) == 2, "one for what ties, one for what is shown"


def test_nothing_is_read_but_what_is_shown_and_what_ties() -> None:
    scores = {"0": 0.9, "1": 0.8, "2": 0.7, "3": 0.7, "4": 0.6, "5": 0.5, "6": 0.4, "7": 0.3}
    semantic = {**dict.fromkeys(scores, 0.9), "4": 0.1}
    ranking = Ranking(scale="weighted", scores=scores, components={"semantic": semantic}, depth=8)
    shelf = Shelf({point: f"c{point}" for point in POINTS})
    ((selection, count),) = selections([ranking], shelf, lambda read: cut(read, 1, 0.3), "semantic")
    assert [c.chunk.chunk_id for c in selection.chunks] == ["c0"]
    assert [(c.chunk.chunk_id, c.rank) for c in selection.below_threshold] == [("c4", 5)]
    assert (count, shelf.requests) == (8, [{"0", "4", "2", "3"}])


def test_no_ranking_has_no_result() -> None:
    shelf: Any = Shelf({})
    assert candidates([], shelf) == []
    assert selections([], shelf, lambda read: cut(read, 1, 0.3), "semantic") == []
