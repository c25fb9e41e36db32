"""A judge against itself: counts by hand, and simulated coverage."""

from typing import Any

import numpy as np

from evals.collect.observations import Failure
from evals.judge.trust import Pair, self_agreement
from evals.stats.intervals import wilson

TIMEOUT = Failure(type="TimeoutError", message="30 s")


def rejudged(query: str, *pairs: tuple[Any, Any]) -> list[Pair]:
    return [
        Pair(query_id=query, chunk_id=f"c{place}", verdict=first, label=second)
        for place, (first, second) in enumerate(pairs)
    ]


class TestSelfAgreement:
    def test_counts_by_hand(self) -> None:
        rows = [*rejudged("a", (1, 1), (0, 0), (0, 1)), *rejudged("b", (1, 0), (0, 0))]
        found = self_agreement(rows, 0)
        assert (found.value, found.n, found.n_queries, found.n_failed) == (0.6, 5, 2, 0)
        assert found.interval.note == "not computable: only 2 queries, 10 are needed"

    def test_a_judge_that_never_changes_its_mind_has_wilsons_interval_by_query(self) -> None:
        rows = [row for query in range(30) for row in rejudged(f"q{query}", (1, 1), (0, 0), (0, 0))]
        found = self_agreement(rows, 0)
        assert (found.value, found.interval) == (1, wilson(30, 30))

    def test_the_interval_holds_the_share(self) -> None:
        rng = np.random.default_rng(1)
        rows = [r for q in range(30) for r in rejudged(f"q{q}", *((1, int(rng.random() < 0.9)) for _ in range(5)))]
        found = self_agreement(rows, 0)
        assert found.value is not None and found.interval.low is not None and found.interval.high is not None
        assert 0.75 < found.interval.low < found.value < found.interval.high < 1

    def test_failures_of_either_pass_leave_bounds_open(self) -> None:
        found = self_agreement(rejudged("a", (1, 1), (0, 1), (1, TIMEOUT), (TIMEOUT, TIMEOUT)), 0)
        assert (found.value, found.n, found.n_failed) == (0.5, 2, 2)
        assert (found.bound_low, found.bound_high) == (0.25, 0.75)

    def test_nothing_judged_twice(self) -> None:
        found = self_agreement([], 0)
        assert (found.value, found.note) == (None, "no chunk was judged twice")
