"""Verdicts against golden labels: counts by hand, failures, repetitions, and the order of disagreements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix

from evals.collect.observations import Failure
from evals.judge.trust import Pair, agree
from evals.stats.intervals import Interval

TIMEOUT = Failure(type="TimeoutError", message="30 s")


def judged(query: str, pairs: Sequence[tuple[Any, Any]], first: int = 0) -> list[Pair]:
    """Verdict and label of chunks c0, c1 … of a query."""
    return [
        Pair(query_id=query, chunk_id=f"c{place}", verdict=verdict, label=label, reason=f"because {query} {place}")
        for place, (verdict, label) in enumerate(pairs, first)
    ]


ROWS = [
    *judged("a", [(1, 1), (1, 0), (0, 0), (0, 0)]),
    *judged("b", [(0, 1), (1, 1), (1, 0)]),
    *judged("c", [(0, 0), (1, 1)]),
    *judged("d", [(0, 1)]),
]


def test_counts_by_hand() -> None:
    """Verdict and label are 1 1 three times, 1 0 twice, 0 1 twice, 0 0 three times; chance agreement is 1/2."""
    found = agree(ROWS, 0)
    assert (found.n_queries, found.n_verdicts) == (4, 10)
    assert (found.accuracy.value, found.accuracy.n, found.accuracy.n_queries) == (0.6, 10, 4)
    assert (found.false_useful.value, found.false_useful.n, found.false_useful.n_queries) == (0.4, 5, 3)
    assert (found.false_useless.value, found.false_useless.n, found.false_useless.n_queries) == (0.4, 5, 4)
    assert found.kappa.value == pytest.approx(0.2, abs=1e-15)
    assert found.accuracy.interval.note == "not computable: only 4 queries, 10 are needed"


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_equals_scikit_learn_whatever_the_order(found: list[tuple[int, int, int]], random: Any) -> None:
    rows = [
        Pair(query_id=f"q{query}", chunk_id=f"c{place}", verdict=verdict, label=label)
        for place, (query, verdict, label) in enumerate(found)
    ]
    ours = agree(rows, 0)
    _, verdicts, labels = zip(*found, strict=True)
    (rejected, over), (missed, hit) = confusion_matrix(labels, verdicts, labels=[0, 1])
    assert ours.accuracy.value == pytest.approx(accuracy_score(labels, verdicts), abs=1e-12)
    assert ours.false_useful.value == (over / (over + rejected) if over + rejected else None)
    assert ours.false_useless.value == (missed / (hit + missed) if hit + missed else None)
    if len(set(labels)) == 2:
        assert ours.kappa.value == pytest.approx(cohen_kappa_score(verdicts, labels), abs=1e-12)
    else:
        assert (ours.kappa.value, ours.kappa.note) == (None, f"undefined: all labels are {labels[0]}")
    shuffled = list(rows)
    random.shuffle(shuffled)
    other = agree(shuffled, 0)
    assert (other.accuracy, other.kappa, other.false_useful) == (ours.accuracy, ours.kappa, ours.false_useful)


def test_intervals_draw_queries_that_have_the_label() -> None:
    """Ten queries hold a chunk labelled 1, thirty one labelled 0: each rate has its own queries."""
    rows = [row for query in range(20) for row in judged(f"q{query:02}", [(0, 0), (query % 4 == 0, 0)])]
    rows += [row for query in range(20, 30) for row in judged(f"q{query}", [(query % 3 > 0, 1), (0, 0), (0, 0)])]
    found = agree(rows, 0)
    assert (found.false_useful.n_queries, found.false_useless.n_queries) == (30, 10)
    for one in (found.accuracy, found.kappa, found.false_useful, found.false_useless):
        assert one.value is not None and one.interval.low is not None and one.interval.high is not None
        assert one.interval.low < one.value < one.interval.high
    without = agree(rows[:-3], 0)
    assert without.false_useless.interval.note == "not computable: only 9 queries, 10 are needed"


def test_full_agreement_has_intervals_that_end_at_the_value() -> None:
    found = agree([row for query in range(30) for row in judged(f"q{query}", [(1, 1), (0, 0)])], 0)
    assert (found.accuracy.value, found.accuracy.interval.high) == (1, 1)
    assert (found.false_useful.value, found.false_useful.interval.low) == (0, 0)
    assert found.accuracy.interval.low == pytest.approx(1 / (1 + 3.8414588 / 30), abs=1e-8)
    assert (found.kappa.value, found.kappa.interval.high) == (1, 1)
    assert found.disagreements == ()


def test_nothing_to_compare() -> None:
    found = agree([], 0)
    assert (found.n_queries, found.n_verdicts, found.disagreements) == (0, 0, ())
    for one in (found.accuracy, found.kappa):
        assert (one.value, one.interval, one.note) == (None, Interval(), "no verdict on a labelled chunk")
    assert found.false_useful.note == "no verdict on a chunk labelled 0"
    assert found.false_useless.note == "no verdict on a chunk labelled 1"


def test_failed_verdicts_are_counted_and_leave_bounds_open() -> None:
    """To 6 right of 10 come one failed with label 1 and two with label 0, one of them on a query of its own."""
    rows = [*ROWS, *judged("c", [(TIMEOUT, 1), (TIMEOUT, 0)], first=2), *judged("e", [(TIMEOUT, 0)])]
    found = agree(rows, 0)
    assert (found.n_queries, found.n_verdicts) == (4, 10)
    assert (found.accuracy.value, found.accuracy.n_failed) == (0.6, 3)
    assert (found.accuracy.bound_low, found.accuracy.bound_high) == (6 / 13, 9 / 13)
    assert (found.false_useful.n_failed, found.false_useful.bound_low, found.false_useful.bound_high) == (
        2,
        2 / 7,
        4 / 7,
    )
    assert (found.false_useless.n_failed, found.false_useless.bound_low) == (1, 2 / 6)
    assert found.kappa.n_failed == 3
    assert found.kappa.bound_low is not None and found.kappa.bound_high is not None
    assert found.kappa.bound_low < 0.2 < found.kappa.bound_high


def test_failures_alone_have_no_agreement() -> None:
    found = agree(judged("a", [(TIMEOUT, 1), (TIMEOUT, 0)]), 0)
    assert (found.accuracy.value, found.accuracy.n_failed, found.accuracy.bound_low) == (None, 2, 0)
    assert (found.kappa.value, found.disagreements) == (None, ())


def test_disagreements_begin_with_the_query_that_has_most_and_the_chunk_that_is_labelled() -> None:
    rows = [
        *judged("one", [(0, 0), (1, 0)]),
        *judged("three", [(1, 0), (1, 1), (0, 1), (1, 0)]),
        *judged("also one", [(0, 1)]),
        *judged("none", [(1, 1), (0, 0)]),
    ]
    found = agree(rows, 0).disagreements
    assert [(row.query_id, row.chunk_id) for row in found] == [
        ("three", "c2"),
        ("three", "c0"),
        ("three", "c3"),
        ("also one", "c0"),
        ("one", "c1"),
    ]
    assert (found[0].verdict, found[0].label, found[0].reason) == (0, 1, "because three 2")


def test_every_disagreement_is_listed_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    rows = [row for query in range(40) for row in judged(f"q{query}", rng.integers(0, 2, (6, 2)).tolist())]
    found = agree(rows, 0)
    assert set(found.disagreements) == {row for row in rows if row.verdict != row.label}
    assert found.accuracy.value == pytest.approx(1 - len(found.disagreements) / len(rows), abs=1e-12)
