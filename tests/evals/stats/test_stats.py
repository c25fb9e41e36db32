"""Intervals, promises and comparisons against scipy, scikit-learn, exact sums, and definitions solved numerically."""

from math import inf, sqrt
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binom, binomtest, moment, norm, permutation_test
from scipy.stats import t as student_t
from sklearn.metrics import roc_auc_score

from evals.stats import intervals as stats
from evals.stats.abstention import promise, queries_that_promise, shortest_between, signal
from evals.stats.best import compare_with_best
from evals.stats.intervals import auroc_interval, bounded_intervals
from evals.stats.paired import agreed, compare, holm, sign_flip


@pytest.mark.parametrize("n", [1, 2, 7, 40, 88, 1_000])
def test_of_a_proportion_it_is_scipys_and_ends_at_exactly_0_and_1_where_none_or_all_succeed(n: int) -> None:
    for successes in {0, 1, n // 3, n // 2, n - 1, n}:
        expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
        found = stats.wilson(successes, n)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
        of_a_range = stats.mean_interval([5.0] * successes + [-1.0] * (n - successes), shares=True, floor=-1, ceiling=5)
        assert (of_a_range.low, of_a_range.high) == pytest.approx((6 * expected.low - 1, 6 * expected.high - 1))
    assert (stats.wilson(0, n).low, stats.wilson(n, n).high) == (0.0, 1.0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(3))
def test_of_amounts_of_one_sign_it_solves_the_score_equation(seed: int, sign: int) -> None:
    """(m − δ)² n = t² V(δ), by root finding on either side of m."""
    values = sign * np.random.default_rng(seed).lognormal(3, 0.8, 12 + 20 * seed)
    mean, variance, n = float(values.mean()), values.var(ddof=1), len(values)
    slope, quantile = moment(values, 3) / moment(values, 2), student_t.ppf(0.975, n - 1)

    def excess(delta: float) -> float:
        return float((mean - delta) ** 2 * n - quantile**2 * (variance + slope * (delta - mean)))

    reach = 20 * float(values.std())
    expected = brentq(excess, mean - reach, mean, xtol=1e-14), brentq(excess, mean, mean + reach, xtol=1e-14)
    found = stats.mean_interval(values.tolist(), shares=False)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("remainder", [1e-10, 1e-8], ids=["average precision", "entity recall"])
@pytest.mark.parametrize("times", [1, 10])
def test_rounding_noise_of_perfect_scores_is_no_spread(remainder: float, times: int) -> None:
    """ragas' perfect scores of k relevant chunks, or entities, are k / (k + remainder)."""
    found = stats.mean_interval([k / (k + remainder) for k in (1, 2, 3, 5)] * times, shares=True)
    expected = stats.wilson(4 * times, 4 * times).low, 1.0
    assert (found.low, found.high) == pytest.approx(expected, abs=2 * remainder)


@given(st.lists(st.lists(st.floats(0, 1), min_size=12, max_size=12), min_size=1, max_size=4), st.booleans())
def test_many_columns_have_the_intervals_of_each(columns: list[list[float]], shares: bool) -> None:
    low, high = stats.mean_intervals(np.tile(np.array(columns).T, (1, 70 // len(columns))), shares=shares)
    for place, column in enumerate(columns):
        alone = stats.mean_interval(column, shares=shares)
        expected = [np.nan if end is None else end for end in (alone.low, alone.high)]
        for at in (place, place - len(columns)):
            assert [low[at], high[at]] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("share", "n"), [(0.5, 6), (0.5, 100), (0.95, 72), (0.95, 176), (0.99, 368)])
def test_of_a_percentile_it_is_the_shortest_that_leaves_a_fortieth_on_either_side(share: float, n: int) -> None:
    """By exact binomial sums: the percentile lies below the low end iff fewer than `low` values lie below it."""
    found = stats.percentile_interval([float(place) for place in range(1, n + 1)], share)
    assert found.low is not None and found.high is not None
    low, high = int(found.low), int(found.high)
    assert binom.cdf(low - 1, n, share) <= 0.025 < binom.cdf(low, n, share)
    assert binom.sf(high - 1, n, share) <= 0.025 < binom.sf(high - 2, n, share)


def _newcombe_end(inside: Any, outside: Any, side: Literal["low", "high"]) -> float:
    """An end of method 5 found another way: by minimising |observed z| - 1.96 over the side, from a grid outwards."""
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    (m, n), area = wins.shape, float(wins.mean())
    star = (m + n) / 2 - 1

    def spread(theta: Any) -> Any:
        return theta * (1 - theta) * (1 + star * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)

    # DeLong's variance: of each query's share of the other kind.
    own = sum(np.var(wins.mean(axis=axis), ddof=1) / wins.shape[1 - axis] for axis in (0, 1))
    wider = max(1.0, own / spread(area)) if 0 < area < 1 else 1.0

    def gap(theta: Any) -> Any:
        return ((area - theta) ** 2 / (wider * spread(theta)) - norm.ppf(0.975) ** 2) ** 2

    if area == (side == "high"):
        return area
    grid = np.linspace(1e-6, area - 1e-6, 4_001) if side == "low" else np.linspace(area + 1e-6, 1 - 1e-6, 4_001)
    best = int(np.argmin(gap(grid)))
    bounds = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    return float(minimize_scalar(gap, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x)


@pytest.mark.parametrize(("m", "n"), [(40, 24), (132, 44), (10, 60), (2, 2)])
@pytest.mark.parametrize("shift", [-50.0, -1.0, 0.0, 1.0, 50.0])
@pytest.mark.parametrize("apart", [0.0, 6.0])
def test_of_the_auroc_it_is_an_independent_numerical_solution(shift: float, apart: float, m: int, n: int) -> None:
    rng = np.random.default_rng([m, n])
    inside = np.round(rng.normal(shift, 1, m), 1)
    outside = np.round(rng.normal(0, 1, n) + apart * rng.choice([-1, 1], n), 1)  # two kinds, where apart
    found = stats.auroc_interval(inside.tolist(), outside.tolist())
    expected = _newcombe_end(inside, outside, "low"), _newcombe_end(inside, outside, "high")
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (stats.wilson(0, 0), "nothing was scored"),
        (stats.mean_interval([], shares=True), "nothing was scored"),
        (stats.mean_interval([0.8] * 8 + [0.9], shares=True), "9 values are too few, 10 are needed"),
        # No tokens for each of 40 queries does not make 0.09 tokens likely.
        *((stats.mean_interval([value] * 40, shares=False), "all values are equal") for value in (0.0, 1.0)),
        (stats.percentile_interval([], 0.5), "no values"),
        *((stats.percentile_interval([1.0] * (n - 1), share), f"{n - 1} values are too few, {n} are needed")
          for share, n in ((0.5, 6), (0.95, 72), (0.99, 368))),
        *((stats.auroc_interval([0.5] * m, [0.5] * n), "fewer than two queries on one side")
          for m, n in ((1, 40), (40, 1))),
    ],
)  # fmt: skip
def test_what_has_no_interval_says_why(found: stats.Interval, note: str) -> None:
    assert (found.low, found.high) == (None, None) and found.note == f"not computable: {note}"


# The interval by bounds, against its definition, maximised numerically


def ends(values: Any, floor: float = 0.0, ceiling: float = 1.0, alpha: float = 0.05) -> tuple[float, float]:
    (low,), (high,) = stats.bounded_intervals(np.asarray(values, dtype=float)[:, None], floor, ceiling, alpha)
    return float(low), float(high)


def likeliest_variance(values: Any, bound: float, mean: float) -> float:
    """The variance about `mean` of the likeliest distribution on values and bound that has this mean.

    By Owen's dual: of all λ with 1 + λ(x − δ) > 0, also at the bound, the one that maximises Σ log(1 + λ(x − δ)); the
    values weigh 1/(n(1 + λ(x − δ))), and the bound has what they leave.
    """
    centred = values - mean
    furthest = 1 / abs(bound - mean) - 1e-12
    limits = (-furthest, 0.0) if bound > mean else (0.0, furthest)

    def against(multiplier: float) -> float:
        return -float(np.log1p(multiplier * centred).sum())

    multiplier = minimize_scalar(against, bounds=limits, method="bounded", options={"xatol": 1e-13}).x
    weights = 1 / (len(values) * (1 + multiplier * centred))
    return float(weights @ centred**2 + max(1 - weights.sum(), 0.0) * (bound - mean) ** 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("zeros", [0.0, 0.6, 0.95])
def test_its_upper_end_solves_the_score_equation(seed: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.beta(0.5, 1, 40) * 0.8 * (rng.random(40) >= zeros)
    mean = float(values.mean())

    def excess(delta: float) -> float:
        return (delta - mean) ** 2 * 40 - stats.Z**2 * likeliest_variance(values, 1.0, delta)

    assert ends(values)[1] == pytest.approx(brentq(excess, mean + 1e-6, 1 - 1e-6), abs=1e-5)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_of_zeros_and_ones_it_is_wilsons(counts: tuple[int, int]) -> None:
    ones, n = counts
    expected = stats.wilson(ones, n)
    assert ends([1.0] * ones + [0.0] * (n - ones)) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("rises", "falls", "n"), [(3, 1, 20), (0, 4, 40), (10, 10, 66), (65, 0, 66)])
def test_of_differences_of_one_it_is_tangos(rises: int, falls: int, n: int) -> None:
    low, high = ends([1.0] * rises + [-1.0] * falls + [0.0] * (n - rises - falls), -1.0)
    assert tango(rises, falls, n, low) == pytest.approx(stats.Z, abs=1e-4)
    assert tango(rises, falls, n, high) == pytest.approx(-stats.Z, abs=1e-4)


def tango(rises: int, falls: int, n: int, delta: float) -> float:
    """Tango's score statistic with the likelihood maximised over a grid, not by his formula."""
    falling = np.linspace(max(0.0, -delta), (1 - delta) / 2, 400_001)[1:-1]
    rising, same = falling + delta, 1 - 2 * falling - delta
    likelihood = rises * np.log(rising) + falls * np.log(falling) + (n - rises - falls) * np.log(same)
    q = falling[likelihood.argmax()]
    return float((rises - falls - n * delta) / sqrt(n * (2 * q + delta * (1 - delta))))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([1e-60, 0.01, 0.05, 0.5, 0.999]))
def test_it_holds_the_mean_within_the_bounds_and_mirrors(values: list[float], alpha: float) -> None:
    low, high = ends(values, alpha=alpha)
    mean = float(np.mean(values))
    assert -1e-12 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1 + 1e-12
    assert ends([1 - value for value in values], alpha=alpha) == pytest.approx((1 - high, 1 - low), abs=1e-7)


# Promises of a threshold


SCORE = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0]) | st.floats(0, 1, width=32)
SCORES = st.lists(SCORE, min_size=1, max_size=12)


@given(inside=SCORES, outside=SCORES)
def test_the_area_of_a_signal_is_that_of_scikit_learn(inside: list[float], outside: list[float]) -> None:
    truth, scores = [1] * len(inside) + [0] * len(outside), [*inside, *outside]
    found, area = signal("m", inside, outside), roc_auc_score(truth, scores)
    ends = auroc_interval(inside, outside)
    assert found.auroc == pytest.approx(area) and (found.low, found.high) == (ends.low, ends.high)
    assert found.separates == (found.low is not None and found.low > 0.5)


def exact_limit(answered: int, n: int, among: int = 1) -> float:
    return float(binomtest(answered, n, alternative="less").proportion_ci(1 - 0.05 / among).high)


@given(
    inside=SCORES,
    outside=st.lists(SCORE, min_size=1, max_size=40),
    rate=st.sampled_from([0.1, 0.2, 0.34, 0.5, 0.9, 1.0]),
)
def test_a_promise_is_the_lowest_threshold_that_keeps(inside: list[float], outside: list[float], rate: float) -> None:
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
    answered = [max(n for n in range(40) if exact_limit(n, 100, among) <= 0.25) for among in (1, 8)]
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
    [(float("-inf"), 0.3, 0.3), (0.3, 0.36, 0.31), (-0.25, -0.1, -0.2), (0.5, 3.0, 1.0), (0.99, 1, 1),
     (0.3, 0.30000000000000004, 0.30000000000000004)],
)  # fmt: skip
def test_of_these_it_is_the_least(low: float, high: float, between: float) -> None:
    assert shortest_between(low, high) == between


# Two runs compared, and cells with the best: looks, what is certain, what is not; sets are in tests/evals/grid

SOME = st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.5, 1.0])
ANY = st.floats(0, 1).map(lambda x: round(x, 3))
FEW = "values are too few, 10 are needed"
PAIRS = st.lists(st.tuples(SOME, SOME), min_size=1, max_size=40) | st.lists(st.tuples(ANY, ANY), min_size=1)


@given(PAIRS, st.sampled_from([1.0, 4.0, -2.0]))
@example([(1.0, 0.0)] * 12, 4.0)
@example([(0.0, 1.0)] * 12, 4.0)
@example([(1.0, 0.0)] * 12, -2.0)
@example([(0.0, 1.0)] * 12, -2.0)
@example([(0.0, 0.0)] * 20, 1.0)
@example([(0.25, 0.25)] * 5, 1.0)
@example([(0.0, 1.0), (1.0, 0.0), (1.0, 0.0)], 1.0)
@example([(0.0, 0.1)] * 10 + [(0.0, 0.0)] * 30, 1.0)
@example([(0.0, 0.5)] * 12, 1.0)
def test_a_comparison_and_its_p_are_by_their_definition(scores: list[tuple[float, float]], scale: float) -> None:
    """Student's interval, and by the square of the share of ties that of the bounds; it alone where all is 0 or ±1."""
    first, second = scale * np.array(scores).T
    known = 5.0 if scale == 4 else inf
    found, moved, n = compare(first.tolist(), second.tolist(), 0, known), second - first, len(first)
    means = first.mean(), second.mean(), moved.mean()
    assert found.n == n and (found.baseline, found.other, found.difference) == pytest.approx(means)
    assert (found.rises, found.ties, found.falls) == ((moved > 0).sum(), (moved == 0).sum(), (moved < 0).sum())
    seen = max(1.0, first.max(), second.max()) - min(0.0, first.min(), second.min())
    p_test, span = sign_flip(moved, seed=0), seen if known == inf else known
    ties, is_extreme = float((moved == 0).mean()), bool(np.isin(np.abs(moved), [0.0, span]).all())
    if n < 2 or (n < 10 and not is_extreme) or (np.ptp(moved) <= 1e-9 and not is_extreme):
        few = "fewer than two queries" if n < 2 else f"{n} {FEW}" if n < 10 else "all values are equal"
        assert (found.interval.low, found.interval.note) == (None, f"not computable: {few}")
        assert found.p == p_test
        return
    weight = 1.0 if is_extreme else ties**2
    own = student_t.interval(0.95, n - 1, moved.mean(), moved.std(ddof=1) / sqrt(n)) if weight < 1 else (0.0, 0.0)
    bounded = bounded_intervals(moved[:, None], -span, span)
    low, high = ((1 - weight) * a + weight * float(b[0]) for a, b in zip(own, bounded, strict=True))
    if p_test >= 0.05:
        low, high = min(low, 0.0), max(high, 0.0)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-9)
    holds_0 = found.interval.low <= 0 <= found.interval.high  # type: ignore[operator]
    assert found.p == (max(p_test, 0.05) if holds_0 else p_test)
    assert (found.p < 0.05) == (not holds_0)
    turned = compare(second.tolist(), first.tolist(), 0, known)
    assert (turned.p, turned.difference) == pytest.approx((found.p, -found.difference))


def test_published_values() -> None:
    """Complete response before and after consolidation therapy (Cavo et al. 2012): 6 and 16 of 161 differ.

    Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables (2017), chapter 8.
    """
    moved = np.array([1.0] * 6 + [-1.0] * 16 + [0.0] * 139)
    (low,), (high,) = bounded_intervals(moved[:, None], -1.0, 1.0)
    assert (low, high) == pytest.approx((-0.1240, -0.0054), abs=5e-5)
    found = compare(np.maximum(-moved, 0).tolist(), np.maximum(moved, 0).tolist(), 0)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, 0.0))  # as p is above 0.05
    assert agreed(0.1, 0.3, 0.05) == (stats.Interval(low=0.0, high=0.3), 0.05)  # 5% is not below 5%


@pytest.mark.parametrize("n", [2, 5, 12])
def test_it_is_scipys_permutation_test(n: int) -> None:
    differences = np.random.default_rng(1).normal(0.4, 1, size=n)
    expected = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(differences, seed=0) == pytest.approx(expected.pvalue)


@pytest.mark.parametrize(("rises", "falls"), [(3, 1), (0, 6), (5, 5), (12, 0), (20, 10), (20, 11), (27, 13), (8, 32)])
def test_on_differences_of_one_size_it_is_mcnemars_exact_test(rises: int, falls: int) -> None:
    """Exactly up to 30 differences; of drawn signs within 3 standard errors at p = 0.04."""
    p = sign_flip(np.array([0.3] * rises + [-0.3] * falls + [0.0] * 7), seed=0)
    expected = binomtest(rises, rises + falls).pvalue  # half of the pairs that differ should rise
    assert p == pytest.approx(expected, abs=1e-9 if rises + falls <= 30 else 0.006 if p < 0.1 else 0.015)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_its_steps_reject(p_values: list[float], level: float) -> None:
    rejected = set()
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[index] * (len(p_values) - place) > level:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected


VALUES = np.clip(np.random.default_rng(1).normal(0.5, 0.2, (132, 6)) - np.linspace(0, 0.2, 6), 0, 1)
STRATA = np.arange(132) % 3


@pytest.mark.parametrize("looks", [[], [100, 132], [20, 40, 63, 80, 100, 132]])
@pytest.mark.parametrize("strata", [None, STRATA[:100]])
def test_a_bound_is_the_least_lead_over_a_cell_that_may_be_the_best(looks: list[int], strata: None) -> None:
    """By loops over pairs of cells: queries more, not seen, on which a cell loses all; strata differ by no chance."""
    values, kinds = VALUES[:100].copy(), np.zeros(100) if strata is None else STRATA[:100]
    values[:9, 1] = 1 - values[:9, 0].round()
    values[:9, 0] = values[:9, 0].round()
    found = compare_with_best(values, span=1.0, strata=strata, looks=looks, seed=0)
    lower, quantiles, unseen = found.lower, found.quantiles, found.unseen
    differences = np.abs(values - values[:, [int(values.mean(axis=0).argmax())]])
    assert unseen == 1 + (differences >= 1 - 1e-9).sum() / (differences > 1e-9).sum()
    assert np.isnan(quantiles).tolist() == (~found.members).tolist() and np.nanmin(quantiles) >= 2
    share, expected = 1 - 100 / 132 if looks else 1.0, np.zeros(6)
    for cell in range(6):
        for best in np.flatnonzero(found.members).tolist():
            if best == cell:
                continue
            lead = values[:, cell] - values[:, best]
            within = sum(((lead[kinds == kind] - lead[kinds == kind].mean()) ** 2).sum() for kind in np.unique(kinds))
            whole = 100 + unseen
            mean = (100 * lead.mean() - unseen) / whole
            square = (within + 100 * lead.mean() ** 2 + unseen) / whole - mean**2
            moved = (100 * lead.mean() - share * unseen) / (100 + share * unseen)
            bound = moved - quantiles[best] * sqrt(share * square / (whole - 1))
            expected[cell] = min(expected[cell], bound)
    assert lower == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("strata", "judged", "freedom"), [(None, None, 5), (np.arange(6) % 2, None, 4), (None, 4, 3), (None, 1, 1)]
)
def test_of_two_cells_the_quantile_is_students(strata: None, judged: int | None, freedom: int) -> None:
    found = compare_with_best(VALUES[:6, :2], span=1.0, strata=strata, judged=judged, seed=0)
    assert found.quantiles == pytest.approx(student_t.isf(0.05, freedom), rel=0.05 + 0.1 / freedom)


def test_the_quantile_is_that_of_samples_without_replacement() -> None:
    rng, looks = np.random.default_rng(3), np.array([20, 60, 90, 97])
    queries = rng.normal(size=(100, 6))
    order = rng.permuted(np.tile(np.arange(100), (4_000, 1)), axis=1)
    found = compare_with_best(queries[:97], span=1.0, looks=[*looks, 100], seed=0).quantiles
    for cell in np.flatnonzero(np.isfinite(found)).tolist():
        leads = np.delete(queries - queries[:, [cell]], cell, axis=1)
        means = np.cumsum((leads - leads.mean(axis=0))[order], axis=1)[:, looks - 1] / looks[:, None]
        errors = leads.std(axis=0, ddof=1) * np.sqrt(1 / looks - 1 / 100)[:, None]
        largest = float(np.quantile((means / errors).max(axis=(1, 2)), 0.95))
        assert found[cell] == pytest.approx(student_t.isf(norm.sf(largest), 96), abs=0.08)
