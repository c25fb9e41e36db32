import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from evals.stats.abstention import promise, queries_that_promise, shortest_between, signal
from evals.stats.intervals import auroc_interval

SCORE = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0]) | st.floats(0, 1, width=32)
SOME = st.lists(SCORE, min_size=1, max_size=12)


@given(inside=SOME, outside=SOME)
def test_the_area_of_a_signal_is_that_of_scikit_learn(inside: list[float], outside: list[float]) -> None:
    truth, scores = [1] * len(inside) + [0] * len(outside), [*inside, *outside]
    found, area = signal("m", inside, outside), roc_auc_score(truth, scores)
    ends = auroc_interval(found.auroc, len(inside), len(outside))
    assert found.auroc == pytest.approx(area) and (found.low, found.high) == (ends.low, ends.high)
    assert found.separates == ((found.auroc if found.low is None else found.low) > 0.5)


def exact_limit(answered: int, n: int) -> float:
    """Upper 95% limit of a share, by scipy."""
    return float(binomtest(answered, n, alternative="less").proportion_ci(0.95).high)


@given(
    inside=SOME, outside=st.lists(SCORE, min_size=1, max_size=40), rate=st.sampled_from([0.1, 0.2, 0.34, 0.5, 0.9, 1.0])
)
def test_a_promise_is_the_lowest_threshold_whose_exact_limit_is_within_the_rate(
    inside: list[float], outside: list[float], rate: float
) -> None:
    found, n = promise(inside, outside, rate, scale="cosine", among=1), len(outside)
    every = [0.0, *sorted({*inside, *outside})]
    keeping = [t for t in every if exact_limit(sum(score >= t for score in outside), n) <= rate + 1e-9]
    useful = [t for t in keeping if any(score >= t for score in inside)]
    wanted = f"at most {100 * rate:.3g}% wrong answers"
    assert (found.rate, found.queries) == (rate, queries_that_promise(rate, among=1))
    if found.threshold is None:
        assert not useful and found.silent is None
        can = rate == 1 or exact_limit(0, n) <= rate + 1e-9
        few = f"{n} out-of-scope queries cannot promise {wanted}; {found.queries}, all of them silent, could"
        assert found.statement == (f"no threshold promises {wanted} and answers an in-scope query" if can else few)
        return
    wrong = sum(score >= found.threshold for score in outside)
    assert exact_limit(wrong, n) <= rate + 1e-9
    assert found.silent == min(sum(score < t for score in inside) / len(inside) for t in keeping)
    assert found.statement == (
        f"threshold {found.threshold} promises {wanted} of questions like these (95%): it answers {wrong} "
        f"of {n} out of scope, and gives up {100 * found.silent:.1f}% of {len(inside)} in scope"
    )


@pytest.mark.parametrize(("rate", "needed"), [(0.5, 5), (0.25, 11), (0.1, 29), (0.05, 59), (0.01, 299), (1.0, 1)])
def test_silent_queries_promise_the_exact_limit(rate: float, needed: int) -> None:
    assert queries_that_promise(rate, among=1) == needed
    assert exact_limit(0, needed) <= rate
    assert needed == 1 or exact_limit(0, needed - 1) > rate


def test_the_best_of_eight_retrievals_keeps_its_promise_with_an_eighth_of_the_doubt_for_each() -> None:
    """Of 100 out-of-scope queries so many may be answered as Clopper and Pearson's limit at 1 − 0.05 / 8 allows."""
    outside = [number / 100 for number in range(100)]
    answered = [
        max(n for n in range(40) if binomtest(n, 100, alternative="less").proportion_ci(1 - 0.05 / among).high <= 0.25)
        for among in (1, 8)
    ]
    found = [promise([1.0], outside, 0.25, among=among, scale="cosine") for among in (1, 8)]
    assert [round(100 - 100 * (one.threshold or 0)) for one in found] == answered == [17, 14]
    assert [one.queries for one in found] == [11, 18] == [queries_that_promise(0.25, among) for among in (1, 8)]


@given(low=st.floats(0, 1), high=st.floats(0, 1))
def test_between_two_numbers_lies_one_of_few_digits(low: float, high: float) -> None:
    if low >= high:
        return
    found = shortest_between(low, high)
    assert low < found <= high
    digits = len(repr(found).partition(".")[2])
    shorter = [n / 10 ** (digits - 1) for n in range(10 ** (digits - 1) + 1)] if 1 < digits < 4 else []
    assert not [value for value in shorter if low < value <= high]


@pytest.mark.parametrize(
    ("low", "high", "between"),
    [(float("-inf"), 0.3, 0.3), (0.3, 0.36, 0.31), (0.2, 0.3, 0.3), (-0.25, -0.1, -0.2), (0.5, 3.0, 1.0), (0.99, 1, 1)],
)
def test_of_these_it_is_the_least(low: float, high: float, between: float) -> None:
    assert shortest_between(low, high) == between
