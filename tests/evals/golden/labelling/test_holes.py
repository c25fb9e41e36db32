"""Holes of the labels, by hand-checked weights."""

from math import log2

import pytest

from evals.golden.case import Case
from evals.golden.commands.label_holes import holes, most_decisive
from evals.golden.evidence import Relevance
from evals.golden.labelling.pool import pool
from tests.evals.golden.labelling.test_pool import chunks

CASES = [Case(id=name, query=f"{name}?", in_scope=False) for name in ("q1", "q2")]
RANKINGS = [{"q1": chunks("a", "b", "c"), "q2": chunks("d", "e")}, {"q1": chunks("c", "a"), "q2": chunks("e")}]
KNOWN = {"q1": Relevance(grades={"a": 2}, irrelevant=frozenset({"b"})), "q2": Relevance()}


def test_what_nobody_judged_weighs_what_it_can_add_to_the_dcg_of_all_systems() -> None:
    assert holes(RANKINGS, KNOWN, ()) == {
        ("q1", "c"): pytest.approx(1 / log2(4) + 1),
        ("q2", "d"): 1.0,
        ("q2", "e"): pytest.approx(1 / log2(3) + 1),
    }


def test_a_verdict_that_differs_from_the_labels_is_a_hole_too() -> None:
    assert holes(RANKINGS, KNOWN, {("q1", "a"), ("q9", "a")})["q1", "a"] == pytest.approx(1 + 1 / log2(3))


def test_the_heaviest_comes_first_and_what_has_no_weight_is_left_out() -> None:
    entries = most_decisive(pool(CASES, RANKINGS, 0), holes(RANKINGS, KNOWN, ()))
    assert [(entry.case.id, [chunk.chunk_id for chunk in entry.chunks]) for entry in entries] == [
        ("q2", ["e", "d"]),
        ("q1", ["c"]),
    ]
    assert most_decisive(pool(CASES, RANKINGS, 0), {}) == []
