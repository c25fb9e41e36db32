"""The headroom of a reranker: numbers by hand, and what it won of it."""

from dataclasses import replace

import pytest

from evals.collect.observations import LatencyPass, Observation
from evals.report.figures.headroom import reranker_headroom
from retrievers.records import StageTimings
from tests.evals.report.figures.test_draw import OUTSIDE, asked, axes_of, legend, lines, run_of
from tests.support.observed import observe, results

LATE = asked("x" * 1 + "bcdefghijkla", {"a": 1})
"""The relevant chunk is the thirteenth."""


def reranked() -> Observation:
    hits = results("a", *"bcdefghijklx")
    return observe(
        (),
        {"a": 1},
        candidates=[replace(hit, original_rank=rank) for hit, rank in zip(hits, (13, *range(1, 13)), strict=True)],
    )


def test_without_a_reranker_it_says_what_is_to_be_won() -> None:
    axes = axes_of(reranker_headroom(run_of([LATE, *OUTSIDE])))
    assert lines(axes)["perfect order"] == ([10, 20, 50, 100], [0.0, 1.0, 1.0, 1.0])
    assert legend(axes) == ["perfect order", "as found: 0.000"]
    assert axes.get_title() == "to win by reranking 100: 1.000 (n = 1)"


def test_with_one_it_says_what_was_won_and_how_long_it_takes() -> None:
    timings = tuple(StageTimings(rerank_ms=ms, total_ms=9.0) for ms in (2.0, 4.0, 3.0))
    serial = LatencyPass(concurrency=1, query_ids=("q1", "q2", "q3"), timings=timings)
    axes = axes_of(reranker_headroom(run_of([reranked()], [serial], rerank="mmr", candidates=20)))
    assert lines(axes)["perfect order"] == ([10, 20], [0.0, 1.0])
    assert legend(axes) == ["perfect order", "as found: 0.000", "after mmr: 1.000, 3.0 ms a query"]
    assert axes.get_title() == "mmr won 1.000 of 1.000 (n = 1)"


def test_one_that_makes_the_order_worse_has_lost() -> None:
    hits = results(*"bcdefghijkla")
    worse = [replace(hit, original_rank=rank) for hit, rank in zip(hits, (*range(2, 13), 1), strict=True)]
    axes = axes_of(reranker_headroom(run_of([observe((), {"a": 1}, candidates=worse)], rerank="mmr", candidates=20)))
    assert axes.get_title() == "mmr lost 1.000; 0.000 to win (n = 1)"


@pytest.mark.parametrize("candidates", [5, 100])
def test_where_nothing_can_be_said_there_is_none(candidates: int) -> None:
    observations = [LATE] if candidates == 5 else OUTSIDE
    assert reranker_headroom(run_of(observations, candidates=candidates)) is None
