"""A choice in three lines."""

from dataclasses import replace

from evals.grid.choice import Choice, Standing, explain
from evals.stats.intervals import Interval

BEST = Standing(
    cell=7, members=(7,), label="top_k 8, threshold 0.3", cost=1203.6, value=0.4213,
    interval=Interval(low=0.361, high=0.48), in_set=True, difference=0.0, lower=-0.031,
)  # fmt: skip
CHEAPER = Standing(
    cell=3, members=(3, 4, 5), label="top_k 4, threshold 0.3", cost=612.0, value=0.4149,
    interval=Interval(low=0.352, high=0.474), in_set=True, difference=-0.0064, lower=-0.0189,
)  # fmt: skip
CHOICE = Choice(
    objective="ranking/ndcg_at_10", margin=0.02, n=225, dropped=0, n_cells=400, n_allowed=400,
    standings=(BEST, CHEAPER), best=BEST, recommended=CHEAPER, proved=True, reason="it is proved", queries_needed=None,
)  # fmt: skip


def test_three_lines() -> None:
    assert explain(CHOICE) == (
        "Recommended: top_k 4, threshold 0.3, and 2 more cells with the same scores · ranking/ndcg_at_10 0.415 "
        "(0.352 … 0.474) · 612 tokens (n=225)",
        "Best as measured: top_k 8, threshold 0.3 · 0.421 (0.361 … 0.480) · 1,204 tokens; "
        "4 of 400 cells may be the best (95%)",
        "Reason: it is proved",
    )


def test_constraints_and_dropped_queries_are_told() -> None:
    first, second, _ = explain(replace(CHOICE, dropped=3, n_allowed=120))
    assert first.endswith("(n=225, 3 not scored in all cells)")
    assert "4 of 120 cells that meet the constraints (of 400) may be the best" in second


def test_without_the_cells_that_judging_dropped_no_95_percent_is_said() -> None:
    _, best, _ = explain(replace(CHOICE, n_allowed=30, n_proved_worse=370, judged=80))
    assert best.endswith(
        "4 of the 30 cells judged to the end (of 400; the others are not the best of these queries) may be the best"
    )


def test_what_is_not_computable_says_so() -> None:
    bare = replace(BEST, interval=Interval(note="x"), lower=None)
    note = "not computable: 1 query is too few, 10 are needed"
    first, second, _ = explain(replace(CHOICE, n=1, best=bare, recommended=bare, standings=(bare,), note=note))
    assert "0.421 (interval not computable) · 1,204 tokens (n=1)" in first
    assert second.endswith(f"1,204 tokens; {note}")
