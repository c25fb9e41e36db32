import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial, permutation_test, wilcoxon

from evals.paired import Paired, compare, holm, mcnemar, paired_proportions_interval, sign_flip
from evals.stats import Z

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
    assert (found.p, found.test) == (0.625, "McNemar, exact")
    assert found.interval == paired_proportions_interval(3, 1, 8)


def test_a_perfect_precision_of_ragas_counts_as_1() -> None:
    found = compare([0.9999999999, 0.0], [1.0, 1.0], seed=0)
    assert (found.test, found.rises, found.ties) == ("McNemar, exact", 1, 1)


def test_one_query_has_no_interval() -> None:
    for scores in ((0.25, 0.5), (0.0, 1.0)):
        found = compare(scores[:1], scores[1:], seed=0)
        assert (found.p, found.interval.low) == (1.0, None)
        assert found.interval.note.startswith("not computable")


def test_runs_that_score_the_same_differ_by_nothing() -> None:
    found = compare([0.25] * 20, [0.25] * 20, seed=0)
    assert (found.difference, found.p, found.ties) == (0.0, 1.0, 20)
    assert found.interval.note == "not computable: no query differs"
    binary = compare([1.0] * 20, [1.0] * 20, seed=0).interval
    assert binary.low == pytest.approx(-Z * Z / (20 + Z * Z))


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


def test_many_differences_are_drawn_and_come_near_the_exact_value() -> None:
    differences = np.random.default_rng(2).normal(0.5, 1, size=16)
    p, test = sign_flip(differences, seed=0)
    assert test == "randomisation, 9,999 draws"
    assert p == pytest.approx(brute_force(differences.tolist()), abs=0.006)  # 3 standard errors at p = 0.04


def test_a_drawn_p_value_is_never_0() -> None:
    assert sign_flip(np.ones(200) * 0.5, seed=0)[0] == 1 / 10_000


def test_on_differences_of_one_it_is_mcnemars_exact_test() -> None:
    for rises, falls in ((3, 1), (0, 6), (5, 5), (12, 0)):
        differences = np.array([1.0] * rises + [-1.0] * falls + [0.0] * 7)
        assert sign_flip(differences, seed=0)[0] == pytest.approx(mcnemar(rises, falls))


def test_it_sees_a_difference_of_means_that_wilcoxons_test_does_not() -> None:
    """Why not Wilcoxon: many small rises and few large falls have the ranks on one side and the mean on the other."""
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
    found = paired_proportions_interval(6, 16, 161)
    assert found.low == pytest.approx(-0.1240, abs=5e-5)
    assert found.high == pytest.approx(-0.0054, abs=5e-5)


@pytest.mark.parametrize(("rises", "falls", "p"), [(0, 0, 1.0), (1, 0, 1.0), (0, 5, 0.0625), (1, 5, 14 / 64)])
def test_mcnemar_by_hand(rises: int, falls: int, p: float) -> None:
    assert mcnemar(rises, falls) == mcnemar(falls, rises) == pytest.approx(p)


@given(st.integers(2, 300), st.data())
def test_the_interval_holds_the_estimate_and_stays_within_its_range(n: int, data: st.DataObject) -> None:
    rises = data.draw(st.integers(0, n))
    falls = data.draw(st.integers(0, n - rises))
    found = paired_proportions_interval(rises, falls, n)
    assert found.low is not None and found.high is not None
    assert -1 <= found.low <= (rises - falls) / n + 1e-9
    assert (rises - falls) / n - 1e-9 <= found.high <= 1
    assert found.high - found.low > 0
    mirrored = paired_proportions_interval(falls, rises, n)
    assert mirrored.low == pytest.approx(-found.high, abs=1e-7)


@pytest.mark.parametrize(("rises", "falls", "n"), [(3, 1, 20), (0, 4, 40), (10, 10, 66), (65, 0, 66)])
def test_its_ends_are_where_the_score_statistic_is_1_96(rises: int, falls: int, n: int) -> None:
    found = paired_proportions_interval(rises, falls, n)
    assert found.low is not None and found.high is not None
    assert statistic(rises, falls, n, found.low) == pytest.approx(Z, abs=1e-4)
    assert statistic(rises, falls, n, found.high) == pytest.approx(-Z, abs=1e-4)


def statistic(rises: int, falls: int, n: int, delta: float) -> float:
    """The score statistic with the likelihood maximised over a grid, not by Tango's formula."""
    falling = np.linspace(max(0.0, -delta), (1 - delta) / 2, 400_001)[1:-1]
    rising, same = falling + delta, 1 - 2 * falling - delta
    likelihood = rises * np.log(rising) + falls * np.log(falling) + (n - rises - falls) * np.log(same)
    q = falling[likelihood.argmax()]
    return float((rises - falls - n * delta) / math.sqrt(n * (2 * q + delta * (1 - delta))))


@pytest.mark.parametrize("n", [20, 40, 80])
def test_it_covers_the_truth_in_95_percent_of_draws(n: int) -> None:
    """Coverage by summing over every possible outcome; 0.945 is reached where few pairs differ."""
    found = {(b, c): paired_proportions_interval(b, c, n) for b in range(n + 1) for c in range(n + 1 - b)}
    for up, down in ((0.1, 0.1), (0.05, 0.0), (0.2, 0.05), (0.3, 0.3), (0.02, 0.02), (0.5, 0.1)):
        covered = [key for key, one in found.items() if one.low <= up - down <= one.high]  # type: ignore[operator]
        counts = [(b, c, n - b - c) for b, c in covered]
        coverage = multinomial.pmf(counts, n, (up, down, 1 - up - down)).sum()
        assert 0.945 <= coverage <= 1


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
