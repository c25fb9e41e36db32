import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test
from scipy.stats import t as student_t

from evals.stats.intervals import Interval, Z, bounded_intervals
from evals.stats.paired import compare, holm, sign_flip

shares = st.floats(0, 1).map(lambda x: round(x, 3))
pairs = st.lists(st.tuples(shares, shares), min_size=1, max_size=9)


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


@pytest.mark.parametrize("score", [0.25, 1.0])
def test_runs_that_score_the_same_on_every_query_leave_room_for_others(score: float) -> None:
    """As if on z² of n + z² queries the difference were as large as can be: the rule of three, roughly."""
    found = compare([score] * 20, [score] * 20, seed=0)
    assert (found.difference, found.p, found.ties) == (0.0, 1.0, 20)
    end = Z * Z / (20 + Z * Z)
    assert (found.interval.low, found.interval.high) == pytest.approx((-end, end))


def test_where_no_query_is_tied_the_interval_is_students() -> None:
    first, second = np.random.default_rng(5).beta(2, 1, (2, 60))
    found = compare(first.tolist(), second.tolist(), seed=0)
    differences = second - first
    expected = student_t.interval(0.95, 59, differences.mean(), differences.std(ddof=1) / math.sqrt(60))
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)
    assert found.p >= found.p_test == sign_flip(differences, seed=0)[0]


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


@given(pairs)
def test_the_other_way_round_is_the_mirror_image(scores: list[tuple[float, float]]) -> None:
    first, second = zip(*scores, strict=True)
    found, mirrored = compare(first, second, seed=0), compare(second, first, seed=0)
    assert mirrored.difference == pytest.approx(-found.difference, abs=1e-12)
    assert (mirrored.rises, mirrored.ties, mirrored.falls) == (found.falls, found.ties, found.rises)
    assert mirrored.p == pytest.approx(found.p)


# Randomisation test


def test_it_is_scipys_permutation_test() -> None:
    differences = np.random.default_rng(1).normal(0.4, 1, size=12)
    expected = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(differences, seed=0)[0] == pytest.approx(expected.pvalue)


def test_more_differences_are_drawn_and_come_near_the_exact_value() -> None:
    """Of 40 differences of one size it is the binomial's."""
    differences = np.array([0.3] * 27 + [-0.3] * 13)
    p, test = sign_flip(differences, seed=0)
    assert test == "randomisation, 9,999 draws"
    assert p == pytest.approx(mcnemar(27, 13), abs=0.006)  # 3 standard errors at p = 0.04


def test_on_differences_of_one_it_is_mcnemars_exact_test() -> None:
    for rises, falls in ((3, 1), (0, 6), (5, 5), (12, 0)):
        differences = np.array([1.0] * rises + [-1.0] * falls + [0.0] * 7)
        assert sign_flip(differences, seed=0)[0] == pytest.approx(mcnemar(rises, falls))


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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_its_steps_reject(p_values: list[float], level: float) -> None:
    """Step down from the smallest, against level / (those left), and stop at the first that stays."""
    rejected = set()
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[index] * (len(p_values) - place) > level:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected
