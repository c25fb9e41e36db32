"""The pool, and an annotator's way through it."""

from datetime import timedelta

from evals.golden.case import Case
from evals.golden.labelling.labels import Label, standing
from evals.golden.labelling.pool import pool
from evals.golden.labelling.server import last_label, work_state
from retrievers.records import Chunk
from tests.evals.golden.labelling.test_labels import NOON, label
from tests.support.observed import make_chunk

CASES = [Case(id=f"q{number}", query=f"Query {number}?", in_scope=False) for number in range(8)]


def chunks(*names: str) -> list[Chunk]:
    return [make_chunk(name, f"Text of {name}.") for name in names]


def test_the_union_is_shuffled_and_no_system_leads() -> None:
    names = [f"c{number}" for number in range(30)]
    first, second = {"q1": chunks(*names[:20])}, {"q1": chunks(*names[10:])}
    [pooled] = pool(CASES, [first, second], 0)
    ids = [chunk.chunk_id for chunk in pooled.chunks]
    assert sorted(ids) == sorted(names) and ids != names
    assert [chunk.chunk_id for chunk in pool(CASES, [second, first], 0)[0].chunks] == ids
    assert [chunk.chunk_id for chunk in pool(CASES, [first, second], 1)[0].chunks] != ids


def test_a_later_system_moves_none_of_the_earlier_chunks() -> None:
    earlier = [chunk.chunk_id for chunk in pool(CASES, [{"q1": chunks("a", "b", "c")}], 0)[0].chunks]
    later = [chunk.chunk_id for chunk in pool(CASES, [{"q1": chunks("a", "b", "c")}, {"q1": chunks("d")}], 0)[0].chunks]
    assert [name for name in later if name != "d"] == earlier


def test_queries_come_in_random_order_and_those_without_chunks_are_left_out() -> None:
    pooled = pool(CASES, [{case.id: chunks("a") for case in CASES[1:]} | {"q0": []}], 3)
    ids = [entry.case.id for entry in pooled]
    assert sorted(ids) == [case.id for case in CASES[1:]] and ids != sorted(ids)


def test_the_way_through_the_pool() -> None:
    pooled = pool(CASES[:1], [{"q0": chunks("a", "b", "c")}], 0)
    order = [chunk.chunk_id for chunk in pooled[0].chunks]
    labels: list[Label] = []
    for number, (chunk, grade) in enumerate(zip(order, (1, None, 0), strict=True)):
        state = work_state(pooled, labels, standing(labels), "ada")
        assert state.next is not None
        assert (state.done, state.total, state.place, state.next[1].chunk_id) == (number, 3, number + 1, chunk)
        labels.append(label(chunk, grade, case="q0", at=NOON + timedelta(seconds=10 * number)))
    state = work_state(pooled, labels, standing(labels), "ada")
    assert (state.done, state.skipped, state.next, state.seconds_left) == (3, 1, None, 0.0)
    assert work_state(pooled, labels, standing(labels), "bob").done == 0
    last = last_label(standing(labels), "ada")
    assert last is not None and last.chunk == order[2] and last_label(standing(labels), "bob") is None


def test_the_time_left_is_by_the_median_and_pauses_do_not_count() -> None:
    pooled = pool(CASES[:1], [{"q0": chunks(*"abcdefgh")}], 0)
    at = [NOON + timedelta(seconds=seconds) for seconds in (0, 10, 30, 4_000, 4_020)]
    names = [chunk.chunk_id for chunk in pooled[0].chunks]
    labels = [label(name, 1, case="q0", at=time) for name, time in zip(names, at, strict=False)]
    assert work_state(pooled, labels, standing(labels), "ada").seconds_left == 3 * 20
    assert work_state(pooled, labels[:2], standing(labels[:2]), "ada").seconds_left is None
