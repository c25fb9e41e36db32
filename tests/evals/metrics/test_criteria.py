"""Criteria to pass or fail. What is no condition: tests/settings."""

import operator
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any

import pytest

from evals.collect.observations import Gate, SampledMean, Summary
from evals.metrics.criteria import judge, undecided

COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
WORST: dict[str, Callable[[Sequence[float]], float]] = {"<": max, ">": min}


def summary(value: float | None, low: float | None = None, high: float | None = None, **fields: Any) -> Summary:
    return Summary(metric="m", value=value, n=10, bound_low=low, bound_high=high, **fields)


def gate(condition: str, found: Summary | None) -> Gate:
    [made] = judge({"m": condition}, [found] if found else [])
    return made


@pytest.mark.parametrize("symbol", COMPARED)
def test_it_passes_where_every_figure_that_failed_scores_leave_open_would_and_shows_the_worst(symbol: str) -> None:
    for low, value, high in combinations_with_replacement([0.4, 0.5, 0.6], 3):
        for ends in ((), (low, high)):
            figures = [value, *ends]
            met = [COMPARED[symbol](figure, 0.5) for figure in figures]
            found = gate(f"{symbol} 0.5", summary(value, *ends, n_failed=len(ends)))
            assert (found.passed, found.undecided) == (all(met), any(met) and not all(met))
            assert found.reason == (
                "" if all(met) else "2 scores that failed or are missing leave it open" if any(met) else "not met"
            )
            if symbol == "==":
                assert abs(found.figure - 0.5) == max(abs(figure - 0.5) for figure in figures)  # type: ignore[operator]
            else:
                assert found.figure == WORST[symbol[0]](figures)


@pytest.mark.parametrize(("value", "passed"), [(1 - 1e-10, True), (1 + 1e-10, True), (1 - 1e-8, False), (0.99, False)])
def test_equal_is_within_a_billionth(value: float, passed: bool) -> None:
    """ragas' perfect average precision is 0.9999999999."""
    assert gate("== 1", summary(value)).passed is passed


LOST = "scores that failed or are missing leave it open"
SAMPLED = SampledMean(queries=66, proxy="labels", weight=0.5)
OF_SAMPLE = "10 of 66 queries are judged"
ALL_WOULD = f"{OF_SAMPLE}; judging all would give 0.300 … 0.600 (95%)"


@pytest.mark.parametrize(
    ("found", "condition", "verdict", "figure", "reason"),
    [
        (None, "< 1", "FAIL", None, "the metric is absent"),
        (summary(None, note="no stage ran"), ">= 0", "FAIL", None, "no value: no stage ran"),
        (summary(None, 0.0, 1.0, n_missing=10, note="spent"), ">= 0.5", "undecided", None, "no value: spent"),
        (summary(0.6, 0.3, 0.8, n_missing=5), ">= 0.5", "undecided", 0.3, f"5 {LOST}"),
        (summary(0.6, 0.3, 0.8, n_missing=5, n_failed=1), ">= 0.5", "undecided", 0.3, f"6 {LOST}"),
        (summary(0.7, 0.6, 0.8, n_missing=2), ">= 0.5", "pass", 0.6, ""),
        (summary(0.2, 0.1, 0.4, n_missing=2), ">= 0.5", "FAIL", 0.1, "not met"),
        # A range without an upper end.
        (summary(5.0, 2.0, None, n_failed=1), ">= 2", "pass", 2.0, ""),
        (summary(5.0, 2.0, None, n_failed=1), "<= 9", "undecided", 5.0, f"1 {LOST}"),
        (summary(0.4, 0.3, 0.6, sampled=SAMPLED), ">= 0.3", "pass", 0.3, ALL_WOULD),
        (summary(0.4, 0.3, 0.6, sampled=SAMPLED), ">= 0.7", "FAIL", 0.3, f"{ALL_WOULD}: not met"),
        (summary(0.4, 0.3, 0.6, sampled=SAMPLED), ">= 0.4", "undecided", 0.3,
         f"{ALL_WOULD}: the others leave it open"),
        *((summary(0.4, *ends, sampled=SAMPLED), ">= 0.2", "undecided", 0.4,
           f"{OF_SAMPLE}, too few for an interval") for ends in ((), (None, 0.9))),
        (summary(0.4, sampled=SAMPLED), "== 1", "undecided", 0.4, f"{OF_SAMPLE}, too few for an interval"),
    ],
)  # fmt: skip
def test_what_is_missing_or_not_judged_may_leave_it_undecided(
    found: Summary | None, condition: str, verdict: str, figure: float | None, reason: str
) -> None:
    made = gate(condition, found)
    assert (made.answer, made.figure, made.reason) == (verdict, figure, reason)
    [nothing] = undecided([made], "the collection changed")
    assert (nothing.answer, nothing.reason) == ("undecided", "the collection changed"), "it cannot be relied on"
