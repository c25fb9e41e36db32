"""Differences of two runs of which a sample was judged, corrected by labels."""

import numpy as np
import pytest

from evals.stats.corrected_difference import corrected_difference
from evals.stats.corrected_mean import Floats
from evals.stats.paired import compare


def drawn(rng: np.random.Generator, total: int, agreement: float) -> tuple[Floats, ...]:
    """Return labels' and judged scores of two runs: means of four verdicts, the second run 0.1 better."""
    labels = [(rng.random((total, 4)) < share).astype(float) for share in (0.3, 0.4)]
    judged = [np.where(rng.random((total, 4)) < agreement, label, 1 - label) for label in labels]
    first, second, own, other = (verdicts.mean(axis=1) for verdicts in (*labels, *judged))
    return first, second, own, other


def test_of_queries_that_are_all_judged_it_is_the_paired_comparison() -> None:
    first, second, own, other = drawn(np.random.default_rng(0), 40, 0.9)
    result = corrected_difference((own, other), (first, second), np.ones(40, dtype=np.bool_), 0)
    plain = compare(own.tolist(), other.tolist(), 0)
    assert (result.weight, result.paired.p_test, result.paired.rises) == (0.0, plain.p_test, plain.rises)
    ends = [(each.difference, each.interval.low, each.interval.high, each.p) for each in (result.paired, plain)]
    assert ends[0] == pytest.approx(ends[1])


def test_the_estimate_by_hand() -> None:
    first, second, own, other = drawn(np.random.default_rng(1), 60, 0.95)
    judged = np.arange(60) < 20
    result = corrected_difference((own, other), (first, second), judged, 0)
    known = second - first
    expected = (other - own)[:20].mean() + result.weight * (known.mean() - known[:20].mean())
    assert 0 < result.weight <= 1 and result.total == 60 and result.paired.n == 20
    assert result.paired.difference == pytest.approx(expected)
    assert result.paired.other - result.paired.baseline == pytest.approx(expected)


@pytest.mark.slow
def test_labels_make_the_interval_narrower_and_it_holds_the_difference() -> None:
    rng, held, widths = np.random.default_rng(2), 0, []
    for _ in range(120):
        first, second, own, other = drawn(rng, 200, 0.93)
        judged = np.arange(200) < 30
        interval = corrected_difference((own, other), (first, second), judged, 0).paired.interval
        alone = compare(own[:30].tolist(), other[:30].tolist(), 0).interval
        assert interval.low is not None and interval.high is not None
        assert alone.low is not None and alone.high is not None
        # The judge turns 7% of the verdicts over: 0.86 of the labels' 0.1.
        held += interval.low <= 0.086 <= interval.high
        widths.append((interval.high - interval.low) / (alone.high - alone.low))
    assert held >= 108 and np.mean(widths) < 0.8


def test_two_runs_that_return_the_same_do_not_differ() -> None:
    first, _, own, _ = drawn(np.random.default_rng(3), 60, 0.9)
    paired = corrected_difference((own, own), (first, first), np.arange(60) < 20, 0).paired
    assert (paired.difference, paired.p, paired.ties) == (0.0, 1.0, 20)


def test_labels_that_say_nothing_correct_nothing() -> None:
    _, _, own, other = drawn(np.random.default_rng(4), 60, 0.9)
    result = corrected_difference((own, other), (np.zeros(60), np.zeros(60)), np.arange(60) < 20, 0)
    assert result.weight == 0 and result.paired.difference == pytest.approx((other - own)[:20].mean())
