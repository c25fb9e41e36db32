from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_curve

from evals.stats.abstention import promise, queries_that_promise, rates, separation, shortest_between

SCORE = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0]) | st.floats(0, 1, width=32)
SOME = st.lists(SCORE, min_size=1, max_size=12)


@given(inside=SOME, outside=SOME)
def test_the_effect_of_a_threshold_is_that_of_scikit_learn(inside: list[float], outside: list[float]) -> None:
    truth, scores = [1] * len(inside) + [0] * len(outside), [*inside, *outside]
    false, answered, thresholds = roc_curve(truth, scores, drop_intermediate=False)
    wrong, silent = rates(inside, outside, thresholds.tolist())
    assert (wrong.tolist(), (1 - silent).tolist()) == (pytest.approx(false.tolist()), pytest.approx(answered.tolist()))


def exact_limit(answered: int, n: int) -> float:
    """Upper 95% limit of a share, by scipy."""
    return float(binomtest(answered, n, alternative="less").proportion_ci(0.95).high)


@given(
    inside=SOME, outside=st.lists(SCORE, min_size=1, max_size=40), rate=st.sampled_from([0.1, 0.2, 0.34, 0.5, 0.9, 1.0])
)
def test_a_promise_is_the_lowest_threshold_whose_exact_limit_is_within_the_rate(
    inside: list[float], outside: list[float], rate: float
) -> None:
    found = promise(inside, outside, rate)
    every = [0.0, *sorted({*inside, *outside})]
    keeping = [t for t in every if exact_limit(sum(score >= t for score in outside), len(outside)) <= rate + 1e-9]
    useful = [t for t in keeping if any(score >= t for score in inside)]
    if found.threshold is None:
        assert not useful
        return
    (wrong,), (silent,) = rates(inside, outside, [found.threshold])
    assert exact_limit(round(wrong * len(outside)), len(outside)) <= rate + 1e-9
    assert found.silent == silent == min(sum(score < t for score in inside) / len(inside) for t in keeping)
    assert f"threshold {found.threshold} promises" in found.statement


def test_a_promise_is_a_short_number_and_says_what_it_costs() -> None:
    found = promise([0.9, 0.8, 0.2], [0.412345, *[0.1] * 28], 0.1)
    assert (found.threshold, found.queries) == (0.5, 29)
    assert found.statement == (
        "threshold 0.5 promises at most 10% wrong answers of questions like these (95%): it answers 0 of 29 out of "
        "scope, and gives up 33.3% of 3 in scope"
    )


def test_too_few_queries_promise_nothing_and_say_how_many_could() -> None:
    found = promise([0.9], [0.1] * 22, 0.1)
    assert (found.threshold, found.silent, found.queries) == (None, None, 29)
    assert found.statement == (
        "22 out-of-scope queries cannot promise at most 10% wrong answers; 29, all of them silent, could"
    )


@pytest.mark.parametrize(("rate", "needed"), [(0.5, 5), (0.25, 11), (0.1, 29), (0.05, 59), (0.01, 299), (1.0, 1)])
def test_silent_queries_promise_the_exact_limit(rate: float, needed: int) -> None:
    assert queries_that_promise(rate) == needed
    assert exact_limit(0, needed) <= rate
    assert needed == 1 or exact_limit(0, needed - 1) > rate


@pytest.mark.parametrize("inside", [[0.4], [0.9, 0.3]])
def test_where_the_best_of_all_is_out_of_scope_nothing_keeps_it_out(inside: list[float]) -> None:
    found = promise(inside, [0.95] * 29, 0.1)
    assert (found.threshold, found.silent) == (None, None)
    assert found.statement == "no threshold promises at most 10% wrong answers and answers an in-scope query"


@pytest.mark.parametrize(
    ("inside", "outside", "said"),
    [
        ([0.7, 0.61], [0.6, 0.2], "separates in scope from out of scope entirely: 0.61"),
        ([0.5] * 20, [0.5] * 20, "no threshold separates in scope from out of scope: their order may be"),
        ([0.1] * 9, [0.9] * 9, "AUROC 0.000"),
        ([0.5], [0.6], "(AUROC 0.000)"),
        ([0.9] * 18 + [0.1] * 2, [0.2] * 20, "no threshold separates in scope from out of scope entirely (AUROC 0.9"),
        ([0.5], [], "needs queries of both kinds"),
        ([], [0.5], "needs queries of both kinds"),
    ],
)
def test_it_says_whether_a_threshold_separates(inside: Sequence[float], outside: Sequence[float], said: str) -> None:
    assert said in separation(inside, outside)


@given(low=st.floats(0, 1), high=st.floats(0, 1))
def test_between_two_numbers_lies_one_of_few_digits(low: float, high: float) -> None:
    if low >= high:
        return
    found = shortest_between(low, high)
    assert low < found <= high
    digits = len(repr(found).partition(".")[2])
    shorter = [n / 10 ** (digits - 1) for n in range(10 ** (digits - 1) + 1)] if 1 < digits < 4 else []
    assert not [value for value in shorter if low < value <= high]
