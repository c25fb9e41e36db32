"""Selections of all cells at once, against `retrievers.search.selection.select` one by one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.grid import selections as module
from evals.grid.selections import Found, Selections, select_all
from retrievers.records import RetrievedChunk
from tests.support.observed import results
from tests.support.selecting import select

SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0])
QUERIES = st.lists(st.lists(st.tuples(SCORES, st.sampled_from(["a", "b", None])), max_size=8), min_size=1, max_size=4)


def candidates(rows: Sequence[tuple[float, str | None]], *, ordered: bool) -> list[RetrievedChunk]:
    known = sorted(rows, key=lambda row: -row[0]) if ordered else rows
    found = results(*(f"c{place}" for place in range(len(known))), scores=[score for score, _ in known])
    return [replace(c, chunk=replace(c.chunk, module=group)) for c, (_, group) in zip(found, known, strict=True)]


def arrays(queries: Sequence[Sequence[RetrievedChunk]], *, grouped: bool) -> Found:
    depth = max(map(len, queries))
    scores = np.full((len(queries), depth), -np.inf)
    groups = np.zeros((len(queries), depth), dtype=np.int64)
    for row, chunks in enumerate(queries):
        first: dict[object, int] = {}
        for place, c in enumerate(chunks):
            scores[row, place] = c.score
            groups[row, place] = first.setdefault(c.chunk.module or place, place)
    return Found(scores=scores, groups=groups if grouped else None)


def kept(made: Selections, cell: int, query: int) -> list[str]:
    return [f"c{place}" for place in made.places(int(made.of_cell(cell)[query]))]


@given(
    rows=QUERIES,
    thresholds=st.lists(SCORES, min_size=1, max_size=5, unique=True).map(sorted),
    top_ks=st.lists(st.integers(1, 10), min_size=1, max_size=4, unique=True).map(sorted),
    ordered=st.booleans(),
    grouped=st.booleans(),
    block=st.sampled_from([1, 5, 1000]),
)
def test_every_cell_keeps_what_the_retriever_would_return(
    rows: list[list[tuple[float, str | None]]],
    thresholds: list[float],
    top_ks: list[int],
    ordered: bool,
    grouped: bool,
    block: int,
) -> None:
    queries = [candidates(row, ordered=ordered) for row in rows]
    made = select_all(arrays(queries, grouped=grouped), thresholds, top_ks)
    cells = [(threshold, top_k) for threshold in thresholds for top_k in top_ks]
    assert made.cells == len(cells)
    for cell, (threshold, top_k) in enumerate(cells):
        for query, chunks in enumerate(queries):
            wanted = select(chunks, top_k, threshold, group_by="module" if grouped else None).chunks
            assert kept(made, cell, query) == [c.chunk.chunk_id for c in wanted]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        numbers = {
            first + place: row.tolist() for cells_of, found in made.blocks()
            for first in [cells_of.start] for place, row in enumerate(found)
        }  # fmt: skip
        assert numbers == {cell: made.of_cell(cell).tolist() for cell in range(made.cells)}
        assert made.used().tolist() == sorted({number for row in numbers.values() for number in row})


def test_candidates_in_order_need_one_list_a_query() -> None:
    found = Found(scores=np.array([[0.9, 0.5, 0.5], [0.4, 0.2, -np.inf]]))
    made = select_all(found, [0.0, 0.3, 0.5, 0.95], [1, 3])
    assert made.query.tolist() == [0, 1]
    assert made.members.tolist() == [[0, 1, 2], [0, 1, -1]]
    assert made.reach.T.tolist() == [[3, 3, 3, 0], [2, 1, 0, 0]]


def test_lists_that_begin_alike_are_one() -> None:
    found = Found(scores=np.array([[0.2, 0.9, 0.5, 0.1]]))
    made = select_all(found, [0.0, 0.15, 0.3, 0.6], [4])
    assert made.members.tolist() == [[0, 1, 2, 3], [1, 2, -1, -1]]
    assert made.list_of.ravel().tolist() == [0, 0, 1, 1]
    assert made.reach.ravel().tolist() == [4, 3, 2, 1]


def test_no_candidate_at_all_is_an_empty_selection_everywhere() -> None:
    made = select_all(Found(scores=np.empty((2, 0))), [0.0, 0.5], [1, 20])
    assert made.used().tolist() == [0, 1]
    assert kept(made, 3, 1) == []
