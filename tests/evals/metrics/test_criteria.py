"""Criteria to pass or fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.collect.observations import Gate, Summary
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.metrics.criteria import check_names, is_met, judge, undecided


def gate(condition: str, summary: Summary | None) -> Gate:
    (found,) = judge({"m": condition}, [summary] if summary else [])
    return found


def having(value: float | None, low: float | None = None, high: float | None = None, *, failed: int = 0) -> Summary:
    return Summary(metric="m", value=value, n=10, n_failed=failed, bound_low=low, bound_high=high)


@pytest.mark.parametrize(
    ("condition", "below", "at", "above"),
    [
        ("< 0.5", True, False, False),
        ("<= 0.5", True, True, False),
        ("> 0.5", False, False, True),
        (">= 0.5", False, True, True),
        ("== 0.5", False, True, False),
    ],
)
def test_every_comparison(condition: str, below: bool, at: bool, above: bool) -> None:
    found = [gate(condition, having(value)) for value in (0.4, 0.5, 0.6)]
    assert [g.passed for g in found] == [below, at, above]
    assert [g.figure for g in found] == [0.4, 0.5, 0.6]
    assert [g.reason for g in found] == ["" if g.passed else "not met" for g in found]


@pytest.mark.parametrize(("value", "passed"), [(1 - 1e-10, True), (1 + 1e-10, True), (1 - 1e-8, False), (0.99, False)])
def test_equal_is_within_a_billionth(value: float, passed: bool) -> None:
    """ragas' perfect average precision is 0.9999999999."""
    assert gate("== 1", having(value)).passed is passed


@pytest.mark.parametrize(
    ("condition", "figure", "passed"),
    [
        (">= 0.8", 0.7, False),
        (">= 0.6", 0.7, True),
        ("> 0.7", 0.7, False),
        ("< 0.95", 0.95, False),
        ("<= 0.95", 0.95, True),
        ("== 0.9", 0.7, False),
        ("== 0.7", 0.95, False),
    ],
)
def test_where_scores_failed_the_worse_bound_is_compared_and_shown(condition: str, figure: float, passed: bool) -> None:
    """The mean of the scored is 0.9; with the failed it lies between 0.7 and 0.95."""
    found = gate(condition, having(0.9, 0.7, 0.95, failed=2))
    assert (found.figure, found.passed) == (figure, passed)
    assert found.reason == ("" if passed else "2 failed scores leave it open")


@given(
    st.sampled_from(["<", "<=", ">", ">=", "=="]),
    st.floats(0, 1),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_passes_only_if_every_figure_would(symbol: str, limit: float, figures: list[float]) -> None:
    low, value, high = figures
    found = gate(f"{symbol} {limit:.6f}", having(value, low, high, failed=1))
    outcomes = [is_met(symbol, figure, float(f"{limit:.6f}")) for figure in figures]
    assert found.passed == all(outcomes)
    assert found.figure in figures
    assert (found.reason == "not met") == (not any(outcomes))


def test_an_absent_metric_fails() -> None:
    found = gate("< 1", None)
    assert found == Gate(metric="m", condition="< 1", figure=None, passed=False, reason="the metric is absent")


@pytest.mark.parametrize("condition", ["< 1", ">= 0", "== 0"])
def test_a_metric_without_a_value_fails_with_its_reason(condition: str) -> None:
    found = gate(condition, Summary(metric="m", value=None, note="no rerank stage ran"))
    assert (found.passed, found.figure, found.reason) == (False, None, "no value: no rerank stage ran")


@pytest.mark.parametrize("condition", ["", "0.8", "=> 0.8", "!= 1", ">= high", ">= 0.8 or so", "> 1 2", ">= nan"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(ValueError, match=r"expected a condition such as '>= 0\.8', got"):
        ExperimentConfig.model_validate({"criteria": {"m": condition}})


class TestCheckNames:
    KNOWN = ("ranking/hit_rate_at_5", "ranking/recall_at_5", "latency/total_p95_ms", "queries/pass_rate")

    @pytest.mark.parametrize(
        ("name", "near"),
        [("ranking/hitrate_at_5", "ranking/hit_rate_at_5"), ("latency/p95_ms", "latency/total_p95_ms")],
    )
    def test_an_unknown_name_is_refused_with_the_nearest(self, name: str, near: str) -> None:
        with pytest.raises(ExperimentError) as caught:
            check_names({"ranking/recall_at_5": "> 0", name: "> 0"}, self.KNOWN)
        assert f"criteria: this run has no metric {name!r}; did you mean" in str(caught.value)
        assert repr(near) in str(caught.value)


def missing(value: float | None, low: float, high: float, count: int) -> Summary:
    """A metric of which some scores were not obtained."""
    return Summary(
        metric="m", value=value, n=10, n_unscored=count, n_missing=count, bound_low=low, bound_high=high, note="spent"
    )


def test_missing_scores_leave_a_criterion_undecided_unless_both_bounds_agree() -> None:
    between = gate(">= 0.5", missing(0.6, 0.3, 0.8, 5))
    assert (between.passed, between.undecided, between.verdict) == (False, True, "undecided")
    assert (between.figure, between.reason) == (0.3, "5 missing scores leave it open")
    above = gate(">= 0.5", missing(0.7, 0.6, 0.8, 2))
    assert (above.passed, above.undecided, above.verdict) == (True, False, "pass")
    below = gate(">= 0.5", missing(0.2, 0.1, 0.4, 2))
    assert (below.passed, below.undecided, below.reason) == (False, False, "not met")


def test_nothing_obtained_is_undecided() -> None:
    verdict = gate(">= 0.5", missing(None, 0.0, 1.0, 10))
    assert (verdict.passed, verdict.undecided, verdict.reason) == (False, True, "no value: spent")


def test_a_run_that_cannot_be_relied_on_decides_nothing() -> None:
    met = Summary(metric="m", value=1.0, n=10)
    (verdict,) = undecided(judge({"m": ">= 0"}, [met]), "the collection changed")
    assert (verdict.verdict, verdict.reason) == ("undecided", "the collection changed")
