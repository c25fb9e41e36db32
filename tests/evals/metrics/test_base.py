"""Which queries a metric is over, and what becomes of its scores."""

from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.collect.observations import Failure, Score, Unscored
from evals.metrics.declaration import Kind, Scope, summarise, within
from evals.stats import intervals as stats
from tests.support.observed import make_case, observe

UNSCORED, FAILED = Unscored(reason="no reference"), Failure(type="TimeoutError", message="no answer in 30 s")
INSIDE, OUTSIDE = observe(case=make_case("in")), observe(case=make_case("out", in_scope=False))


@pytest.mark.parametrize(
    ("scope", "expected"), [("all", ["in", "out"]), ("in_scope", ["in"]), ("out_of_scope", ["out"])]
)
def test_within_chooses_by_scope_in_order(scope: Scope, expected: list[str]) -> None:
    assert [o.case.id for o in within([INSIDE, OUTSIDE], scope)] == expected


def test_a_mean_with_its_count_and_interval() -> None:
    values: list[Score] = [0.0, 0.25, 0.5, 1.0, 1.0, 0.0, 0.75, 0.5, 0.5, 0.0, 1.0, 0.5]
    found = summarise("m", values, "mean")
    interval = stats.mean_interval([float(v) for v in values])  # type: ignore[arg-type]
    assert (found.metric, found.value, found.n) == ("m", 0.5, 12)
    assert (found.ci_low, found.ci_high) == (interval.low, interval.high)
    assert (found.n_unscored, found.n_failed, found.bound_low, found.bound_high, found.note) == (0, 0, None, None, "")


def test_a_proportion_has_wilsons_interval() -> None:
    found = summarise("m", [1.0] * 30 + [0.0] * 10, "proportion")
    interval = stats.wilson(30, 40)
    assert (found.value, found.ci_low, found.ci_high) == (0.75, interval.low, interval.high)


@pytest.mark.parametrize(("kind", "has_interval"), [("mean", True), ("proportion", True), ("amount", False)])
def test_only_shares_that_are_all_0_have_an_interval(kind: Kind, has_interval: bool) -> None:
    found = summarise("m", [0.0] * 40, kind)
    assert found.value == 0.0
    assert (found.ci_high is not None) == has_interval
    assert ("all values are equal" in found.note) != has_interval


def test_unscored_and_failed_stay_out_of_the_mean_but_beside_it() -> None:
    """Two scored with mean 0.75, one failed: between 1.5 / 3 and 2.5 / 3."""
    found = summarise("m", [1.0, UNSCORED, 0.5, FAILED, UNSCORED], "mean")
    assert (found.value, found.n, found.n_unscored, found.n_failed) == (0.75, 2, 2, 1)
    assert (found.bound_low, found.bound_high) == pytest.approx((1.5 / 3, 2.5 / 3))


@pytest.mark.parametrize(
    ("scores", "note", "counts", "bounds"),
    [
        ([], "no query of this kind", (0, 0, 0), (None, None)),
        ([UNSCORED, UNSCORED], "no reference", (0, 2, 0), (None, None)),
        ([FAILED, FAILED], "TimeoutError: no answer in 30 s", (0, 0, 2), (0.0, 1.0)),
        ([FAILED, UNSCORED], "no reference", (0, 1, 1), (0.0, 1.0)),
    ],
)
def test_without_a_score_there_is_no_value_but_a_reason(
    scores: list[Score], note: str, counts: tuple[int, int, int], bounds: tuple[float | None, float | None]
) -> None:
    found = summarise("m", scores, "mean")
    assert (found.value, found.ci_low, found.ci_high, found.note) == (None, None, None, note)
    assert (found.n, found.n_unscored, found.n_failed) == counts
    assert (found.bound_low, found.bound_high) == bounds


SCORES = st.lists(st.one_of(st.floats(0, 1), st.just(UNSCORED), st.just(FAILED)), max_size=30)


@given(SCORES, st.sampled_from(["mean", "amount"]))
def test_counts_add_up_bounds_hold_the_mean_and_nothing_is_nan(scores: list[Score], kind: Kind) -> None:
    found = summarise("m", scores, kind)
    assert found.n + found.n_unscored + found.n_failed == len(scores)
    figures = (found.value, found.ci_low, found.ci_high, found.bound_low, found.bound_high)
    assert all(figure is None or isfinite(figure) for figure in figures)
    assert (found.value is None) == (found.n == 0)
    assert (found.bound_low is None) == (found.bound_high is None) == (found.n_failed == 0)
    if found.value is not None and found.bound_low is not None and found.bound_high is not None:
        assert found.bound_low - 1e-12 <= found.value <= found.bound_high + 1e-12
    assert found.ci_low is not None or found.note


def test_missing_scores_count_in_the_bounds_and_those_that_do_not_exist_do_not() -> None:
    scores: list[Score] = [1.0, 0.5, Unscored(reason="spent", missing=True), Failure(type="T", message="m")]
    found = summarise("m", [*scores, Unscored(reason="no reference")], "mean")
    assert (found.n, found.n_unscored, found.n_missing, found.n_failed) == (2, 2, 1, 1)
    assert (found.value, found.bound_low, found.bound_high) == (0.75, 1.5 / 4, 3.5 / 4)
