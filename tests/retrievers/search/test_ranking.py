"""The total order by hand and against a plain sort of all three keys."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrievers.search.ranking import tied

from retrievers.search import ranking

POINTS = "abcdefgh"
SCORES = st.dictionaries(st.sampled_from(POINTS), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
NAMES = st.fixed_dictionaries({point: st.sampled_from(["x", "y", "10", "9"]) for point in POINTS})
"""Chunk ids, which in a foreign collection may repeat."""


def undecided(scores: dict[str, float], depth: int, *, every_place: bool) -> list[str]:
    """The points for which a chunk id decides."""
    column = np.asarray(list(scores.values()), dtype=float)
    return [list(scores)[place] for place in tied(column, depth, every_place=every_place)]


def in_order(scores: dict[str, float], depth: int, names: dict[str, str], *, every_place: bool = True) -> list[str]:
    """The best points, in order; `names` has the chunk ids of those for which they decide."""
    points = list(scores)
    codes = np.asarray([POINTS.index(point) for point in points], dtype=np.int32)
    column = np.asarray(list(scores.values()), dtype=float)
    asked = tied(column, depth, every_place=every_place)
    places = ranking.in_order(codes, column, depth, asked, lambda code: (names[POINTS[code]], POINTS[code]))
    return [points[place] for place in places]


def ordered(scores: dict[str, float], names: dict[str, str], depth: int) -> list[str]:
    """By brute force: score descending, then chunk id, then point id."""
    return sorted(scores, key=lambda point: (-scores[point], names[point], point))[:depth]


@pytest.mark.parametrize(
    ("scores", "depth", "every_place", "expected"),
    [
        ({"a": 0.9, "b": 0.5, "c": 0.1}, 2, True, ""),
        ({"a": 0.9, "b": 0.5, "c": 0.5}, 3, True, "bc"),
        ({"a": 0.9, "b": 0.5, "c": 0.5}, 3, False, ""),  # both are in, whatever their order
        ({"a": 0.9, "b": 0.5, "c": 0.5}, 2, False, "bc"),  # one of them is
        ({"a": 0.9, "b": 0.5, "c": 0.5}, 2, True, "bc"),
        ({"a": 0.9, "b": 0.5, "c": 0.5}, 1, True, ""),  # neither is
        ({"a": 0.9, "b": 0.5, "c": 0.5}, 1, False, ""),
        ({"a": 0.9, "b": 0.9, "c": 0.5, "d": 0.5}, 3, False, "cd"),
        ({"a": 0.9, "b": 0.9, "c": 0.5, "d": 0.5}, 3, True, "abcd"),
        ({"a": 0.5, "b": 0.5}, 5, False, ""),
        ({}, 3, True, ""),
    ],
)
def test_the_points_that_the_order_hangs_on(
    scores: dict[str, float], depth: int, every_place: bool, expected: str
) -> None:
    assert undecided(scores, depth, every_place=every_place) == list(expected)


@pytest.mark.parametrize(
    ("scores", "names", "expected"),
    [
        ({"a": 0.5, "b": 0.9}, {}, "ba"),
        ({"a": 0.5, "b": 0.5}, {"a": "y", "b": "x"}, "ba"),
        ({"a": 0.5, "b": 0.5}, {"a": "9", "b": "10"}, "ba"),  # ids are text
        ({"b": 0.5, "a": 0.5}, {"a": "x", "b": "x"}, "ab"),  # a chunk id that repeats
        ({}, {}, ""),
    ],
)
def test_the_order_is_score_descending_then_chunk_id_then_point_id(
    scores: dict[str, float], names: dict[str, str], expected: str
) -> None:
    assert in_order(scores, 9, names) == list(expected)


@given(SCORES, NAMES, st.integers(1, 9))
def test_the_chunk_ids_of_what_is_undecided_are_enough(
    scores: dict[str, float], names: dict[str, str], depth: int
) -> None:
    known = {point: names[point] for point in undecided(scores, depth, every_place=True)}
    found = in_order(scores, depth, known)
    assert found == ordered(scores, names, depth)
    keys = [(-scores[point], names[point], point) for point in found]
    assert all(one < other for one, other in pairwise(keys))


@given(SCORES, NAMES, st.integers(1, 9))
def test_fewer_are_enough_for_who_is_among_the_best(
    scores: dict[str, float], names: dict[str, str], depth: int
) -> None:
    known = {point: names[point] for point in undecided(scores, depth, every_place=False)}
    assert set(in_order(scores, depth, known, every_place=False)) == set(ordered(scores, names, depth))


@given(SCORES, NAMES, st.integers(1, 9))
def test_the_order_does_not_depend_on_the_order_given(
    scores: dict[str, float], names: dict[str, str], depth: int
) -> None:
    backwards = dict(reversed(scores.items()))
    assert in_order(backwards, depth, names) == in_order(scores, depth, names)


def test_where_any_order_of_equals_will_do_no_id_is_asked_for() -> None:
    def unknown(code: int) -> tuple[str, str]:
        raise AssertionError(code)

    scores = np.asarray([0.5, 0.9, 0.5])
    assert ranking.in_order(np.arange(3, dtype=np.int32), scores, 2, None, unknown).tolist() == [1, 0]
