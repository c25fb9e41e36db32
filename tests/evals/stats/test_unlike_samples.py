"""Differences of two runs that judged other queries, drawn with known probabilities."""

import numpy as np
import pytest

from evals.stats.corrected_difference import corrected_difference
from evals.stats.corrected_mean import Bools, Floats, corrected_mean
from evals.stats.paired import compare
from evals.stats.unlike_samples import JudgedSample, difference_of_samples
from evals.stats.weighted_draws import draw, draw_weights, drawn_evenly

TOTAL = 120


def scores(rng: np.random.Generator, shift: float = 0.1) -> tuple[Floats, ...]:
    """Return labels' and judged scores of two runs, which return the same for half of the queries."""
    share, same = rng.random((TOTAL, 1)), rng.random((TOTAL, 1)) < 0.5
    first = rng.random((TOTAL, 4)) < share
    second = np.where(same, first, rng.random((TOTAL, 4)) < share + shift)
    wrong = rng.random((TOTAL, 4)) < 0.1
    other = np.where(same, wrong, rng.random((TOTAL, 4)) < 0.1)
    return tuple(of.mean(axis=1) for of in (first, second, first ^ wrong, second ^ other))


def drawn(rng: np.random.Generator, favoured: Floats, size: int = 50) -> tuple[Bools, Floats]:
    """Return queries of which the first 20 are drawn evenly, and others as they are favoured; and their weights."""
    draws = draw(drawn_evenly(tuple(rng.permutation(TOTAL)[:20].tolist()), TOTAL), 0.1 + favoured, size - 20, rng)
    weights = np.zeros(TOTAL)
    weights[list(draws.queries)] = draw_weights(draws)
    sampled = np.zeros(TOTAL, dtype=np.bool_)
    sampled[list(draws.queries)] = True
    return sampled, weights[sampled]


def test_each_mean_is_that_of_its_own_run() -> None:
    rng = np.random.default_rng(0)
    labels, others, judged, second = scores(rng)
    sampled, draws = drawn(rng, labels)
    later = np.arange(TOTAL) >= 80
    first = JudgedSample(judged=judged, proxy=labels, sampled=sampled, draws=draws)
    result = difference_of_samples(first, JudgedSample(judged=second, proxy=others, sampled=later), 0)
    own = corrected_mean(judged, labels, sampled, draws=draws), corrected_mean(second, others, later)
    assert (result.paired.baseline, result.paired.other) == pytest.approx((own[0].value, own[1].value))
    assert (result.paired.n, result.apart, result.total) == (int((sampled & later).sum()), (50, 40), TOTAL)


def test_weights_undo_what_the_draws_favour() -> None:
    """Queries that score high are drawn first: without the weights, their mean would be far too high."""
    rng, errors, plain = np.random.default_rng(1), list[float](), list[float]()
    for _ in range(60):
        _, _, judged, second = scores(rng, 0.0)
        sampled, draws = drawn(rng, 3 * judged)
        nothing, whole = np.zeros(TOTAL), np.ones(TOTAL, dtype=np.bool_)
        for found, weights in ((errors, draws), (plain, None)):
            first = JudgedSample(judged=judged, proxy=nothing, sampled=sampled, draws=weights)
            made = difference_of_samples(first, JudgedSample(judged=second, proxy=nothing, sampled=whole), 0)
            found.append(made.paired.difference - (second.mean() - judged.mean()))
    assert abs(np.mean(errors)) < 0.01 and np.mean(plain) < -0.05


def test_runs_that_judged_the_same_in_full_are_as_far_apart_as_in_a_paired_comparison() -> None:
    labels, others, judged, second = scores(np.random.default_rng(2))
    whole = np.ones(TOTAL, dtype=np.bool_)
    runs = [JudgedSample(judged=of, proxy=by, sampled=whole) for of, by in ((judged, labels), (second, others))]
    made, plain = difference_of_samples(runs[0], runs[1], 0).paired, compare(judged.tolist(), second.tolist(), 0)
    assert made.difference == pytest.approx(plain.difference)
    assert (made.p_test, made.rises) == (plain.p_test, plain.rises)
    assert made.interval.low == pytest.approx(plain.interval.low or 1, abs=0.02)


@pytest.mark.parametrize("paired", [True, False], ids=["paired by draws", "apart"])
@pytest.mark.slow
def test_intervals_hold_the_difference(paired: bool) -> None:
    rng, held, count = np.random.default_rng(3), 0, 150
    truth = np.mean([(each := scores(rng))[3].mean() - each[2].mean() for _ in range(3000)])
    for _ in range(count):
        labels, others, judged, second = scores(rng)
        sampled, draws = drawn(rng, np.abs(second - judged))
        if paired:
            made = corrected_difference((judged, second), (labels, others), sampled, 0, draws).paired
        else:
            theirs, weights = drawn(rng, others)
            made = difference_of_samples(
                JudgedSample(judged=judged, proxy=labels, sampled=sampled, draws=draws),
                JudgedSample(judged=second, proxy=others, sampled=theirs, draws=weights),
                0,
            ).paired
        assert made.interval.low is not None and made.interval.high is not None
        held += made.interval.low <= truth <= made.interval.high
    assert held >= 0.92 * count


def test_too_few_queries_have_no_interval() -> None:
    labels, others, judged, second = scores(np.random.default_rng(4))
    few = JudgedSample(judged=judged, proxy=labels, sampled=np.arange(TOTAL) < 5)
    made = difference_of_samples(few, JudgedSample(judged=second, proxy=others, sampled=np.arange(TOTAL) > 5), 0)
    assert made.paired.interval.note.startswith("not computable: 5 judged queries are too few")
