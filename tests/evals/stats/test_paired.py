import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test, wilcoxon
from scipy.stats import t as student_t

from evals.stats.intervals import Interval, Z, bounded_intervals
from evals.stats.paired import Paired, compare, holm, sign_flip

shares = st.floats(0, 1).map(lambda x: round(x, 3))
pairs = st.lists(st.tuples(shares, shares), min_size=1, max_size=9)


def brute_force(differences: Sequence[float]) -> float:
    """The p value by its definition: every way of turning differences round, zeros too."""
    observed = abs(math.fsum(differences))
    sums = [
        abs(math.fsum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-12 for one in sums) / len(sums)


def mcnemar(rises: int, falls: int) -> float:
    """McNemar's exact test: half of the pairs that differ should rise."""
    return float(binomtest(rises, rises + falls).pvalue)


def binary(rises: int, falls: int, n: int) -> Interval:
    """The interval of runs that score 0 or 1."""
    same = n - rises - falls
    return compare([0.0] * rises + [1.0] * falls + [0.0] * same, [1.0] * rises + [0.0] * (falls + same), 0).interval


# The whole comparison


def test_scores_by_hand() -> None:
    found = compare([0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25], seed=0)
    assert (found.n, found.baseline, found.other, found.difference) == (4, 0.4375, 0.5, 0.0625)
    assert (found.rises, found.ties, found.falls) == (2, 1, 1)
    assert (found.p, found.test) == (1.0, "randomisation, exact")
    assert found.interval.note == "not computable: 4 values are too few, 10 are needed"


def test_scores_of_0_and_1_have_mcnemars_test_and_tangos_interval() -> None:
    found = compare([0, 0, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 0, 0, 1, 0], seed=0)
    assert (found.rises, found.ties, found.falls, found.difference) == (3, 4, 1, 0.25)
    assert (found.p, found.test) == (0.625, "randomisation, exact")
    assert found.interval == binary(3, 1, 8)


def test_a_perfect_precision_of_ragas_counts_as_1() -> None:
    found = compare([0.9999999999, 0.0], [1.0, 1.0], seed=0)
    assert (found.rises, found.ties) == (1, 1)


def test_one_query_has_no_interval() -> None:
    for scores in ((0.25, 0.5), (0.0, 1.0)):
        found = compare(scores[:1], scores[1:], seed=0)
        assert (found.p, found.interval.low) == (1.0, None)
        assert found.interval.note.startswith("not computable")


@pytest.mark.parametrize("score", [0.25, 1.0])
def test_runs_that_score_the_same_on_every_query_leave_room_for_others(score: float) -> None:
    """As if on z² of n + z² queries the difference were as large as can be: the rule of three, roughly."""
    found = compare([score] * 20, [score] * 20, seed=0)
    assert (found.difference, found.p, found.ties) == (0.0, 1.0, 20)
    end = Z * Z / (20 + Z * Z)
    assert (found.interval.low, found.interval.high) == pytest.approx((-end, end))


def test_one_query_of_forty_is_no_certain_difference() -> None:
    found = compare([0.0] * 40, [0.5] + [0.0] * 39, seed=0)
    assert found.p == 1.0
    assert found.interval.low is not None and found.interval.high is not None
    assert found.interval.low < 0 < found.interval.high


def test_where_no_query_is_tied_the_interval_is_students() -> None:
    first, second = np.random.default_rng(5).beta(2, 1, (2, 60))
    found = compare(first.tolist(), second.tolist(), seed=0)
    differences = second - first
    expected = student_t.interval(0.95, 59, differences.mean(), differences.std(ddof=1) / math.sqrt(60))
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)
    assert found.p >= found.p_test == sign_flip(differences, seed=0)[0]


def test_the_bound_of_amounts_is_the_largest_seen() -> None:
    """No query differs: as if on z² of n + z² queries all of the 900 tokens came or went."""
    found = compare([300.0] * 20 + [900.0] * 20, [300.0] * 20 + [900.0] * 20, seed=0)
    end = 900 * Z * Z / (40 + Z * Z)
    assert (found.interval.low, found.interval.high) == pytest.approx((-end, end))


def test_the_same_change_of_every_query_has_no_interval() -> None:
    found = compare([100.0] * 20, [200.0] * 20, seed=0)
    assert found.interval.note == "not computable: all values are equal"
    assert found.p == 2**-19


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.0, 0.25, 1.0])), min_size=10)
)
def test_p_is_below_5_percent_just_where_the_interval_excludes_0(scores: list[tuple[float, float]]) -> None:
    first, second = np.array(scores).T
    found = compare(first.tolist(), second.tolist(), seed=0)
    differences = second - first
    assert found.p >= found.p_test == sign_flip(differences, seed=0)[0]
    if found.interval.low is not None and found.interval.high is not None:
        assert found.interval.low - 1e-9 <= found.difference <= found.interval.high + 1e-9
        assert (found.p < 0.05) == (found.interval.low > 0 or found.interval.high < 0)


def test_a_small_gain_on_ten_of_forty_queries_may_be_lost_on_one_not_seen() -> None:
    """The signs alone say p = 0.002; but a loss of 1 on one query in 40 would outweigh ten gains of 0.1."""
    differences = np.array([0.1] * 10 + [0.0] * 30)
    found = compare([0.0] * 40, differences.tolist(), seed=0)
    assert found.p_test == pytest.approx(2 / 1024)
    assert found.p == 0.05
    assert found.interval.low is not None and found.interval.low < 0


def test_the_same_seed_gives_the_same_figures() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.random((2, 60)).tolist()

    def found(seed: int) -> Paired:
        return compare(first, second, seed)

    assert found(1) == found(1)
    assert found(1).p != found(2).p


@given(pairs)
def test_the_other_way_round_is_the_mirror_image(scores: list[tuple[float, float]]) -> None:
    first, second = zip(*scores, strict=True)
    found, mirrored = compare(first, second, seed=0), compare(second, first, seed=0)
    assert mirrored.difference == pytest.approx(-found.difference, abs=1e-12)
    assert (mirrored.rises, mirrored.ties, mirrored.falls) == (found.falls, found.ties, found.rises)
    assert mirrored.p == pytest.approx(found.p)


# Randomisation test


@given(st.lists(shares, min_size=1, max_size=9), st.integers(0, 2**9 - 1))
def test_few_differences_are_tested_exactly(sizes: list[float], signs: int) -> None:
    differences = np.array([size * (-1 if signs >> place & 1 else 1) for place, size in enumerate(sizes)])
    p, test = sign_flip(differences, seed=0)
    assert p == pytest.approx(brute_force(differences.tolist()))
    assert test == "randomisation, exact"


def test_it_is_scipys_permutation_test() -> None:
    differences = np.random.default_rng(1).normal(0.4, 1, size=12)
    expected = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(differences, seed=0)[0] == pytest.approx(expected.pvalue)


def test_up_to_thirty_differences_are_counted_in_halves() -> None:
    """The sign changes of 20 differences, all 1,048,576 of them."""
    differences = np.random.default_rng(2).normal(0.45, 1, size=20)
    signs = 1 - 2 * (np.arange(2**20)[:, None] >> np.arange(20) & 1)
    expected = (np.abs(signs @ np.abs(differences)) >= abs(differences.sum()) - 1e-9).mean()
    p, test = sign_flip(differences, seed=0)
    assert p == pytest.approx(float(expected))
    assert test == "randomisation, exact"


def test_more_differences_are_drawn_and_come_near_the_exact_value() -> None:
    """Of 40 differences of one size it is the binomial's."""
    differences = np.array([0.3] * 27 + [-0.3] * 13)
    p, test = sign_flip(differences, seed=0)
    assert test == "randomisation, 9,999 draws"
    assert p == pytest.approx(mcnemar(27, 13), abs=0.006)  # 3 standard errors at p = 0.04


def test_a_drawn_p_value_is_never_0() -> None:
    assert sign_flip(np.ones(200) * 0.5, seed=0)[0] == 1 / 10_000


def test_on_differences_of_one_it_is_mcnemars_exact_test() -> None:
    for rises, falls in ((3, 1), (0, 6), (5, 5), (12, 0)):
        differences = np.array([1.0] * rises + [-1.0] * falls + [0.0] * 7)
        assert sign_flip(differences, seed=0)[0] == pytest.approx(mcnemar(rises, falls))


def test_it_sees_a_difference_of_means_that_wilcoxons_test_does_not() -> None:
    """Show the fault of Wilcoxon's test: many small rises and few large falls have opposite ranks and mean."""
    differences = np.array([0.01 + n / 10_000 for n in range(30)] + [-0.9] * 6)
    assert differences.mean() < 0
    assert wilcoxon(differences, alternative="greater").pvalue < 0.05
    assert sign_flip(differences, seed=0)[0] < 0.05


@pytest.mark.parametrize("spread", [0.0, 0.9])
def test_under_no_difference_p_is_below_5_percent_in_5_percent_of_draws(spread: float) -> None:
    rng = np.random.default_rng(4)
    found = [
        sign_flip(np.where(rng.random(20) < spread, 0, rng.choice([-1, 1], 20) * rng.random(20)), seed=n)[0] < 0.05
        for n in range(400)
    ]
    assert np.mean(found) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


# McNemar's test and Tango's interval


def test_published_values() -> None:
    """Complete response before and after consolidation therapy (Cavo et al. 2012): 6 and 16 of 161 differ.

    Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables (2017), chapter 8.
    """
    assert mcnemar(6, 16) == pytest.approx(0.052479, abs=1e-6)
    low, high = bounded_intervals(np.array([[1.0]] * 6 + [[-1.0]] * 16 + [[0.0]] * 139), -1.0, 1.0)
    assert low[0] == pytest.approx(-0.1240, abs=5e-5)
    assert high[0] == pytest.approx(-0.0054, abs=5e-5)
    found = binary(6, 16, 161)
    assert found.low == pytest.approx(-0.1240, abs=5e-5)
    assert found.high == 0.0  # as p is above 0.05


# Holm


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.2]) == [0.2]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_its_steps_reject(p_values: list[float], level: float) -> None:
    """Step down from the smallest, against level / (those left), and stop at the first that stays."""
    rejected = set()
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[index] * (len(p_values) - place) > level:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected
