"""Two runs compared, and cells with the best: looks, what is certain, what is not; sets are in tests/evals/grid."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test, t
from scipy.stats import t as student_t

from evals.stats.best import compare_with_best
from evals.stats.intervals import bounded_intervals
from evals.stats.paired import compare, holm, sign_flip

SOME = st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.5, 1.0])
ANY = st.floats(0, 1).map(lambda x: round(x, 3))
PAIRS = st.lists(st.tuples(SOME, SOME), min_size=1, max_size=40) | st.lists(st.tuples(ANY, ANY), min_size=1)
FEW = "values are too few, 10 are needed"


def mcnemar(rises: int, falls: int) -> float:
    """McNemar's exact test: half of the pairs that differ should rise."""
    return float(binomtest(rises, rises + falls).pvalue)


@given(PAIRS, st.sampled_from([1.0, 4.0]))
@example([(0.0, 0.0)] * 20, 1.0)
@example([(0.25, 0.25)] * 5, 1.0)
@example([(0.0, 1.0), (1.0, 0.0), (1.0, 0.0)], 1.0)
@example([(0.0, 0.1)] * 10 + [(0.0, 0.0)] * 30, 1.0)
@example([(0.0, 0.5)] * 12, 1.0)
def test_a_comparison_is_its_definition_and_p_is_below_5_percent_just_where_the_interval_excludes_0(
    scores: list[tuple[float, float]], scale: float
) -> None:
    """Student's interval, and by the square of the share of ties that of the bounds; it alone where all is 0 or ±1."""
    first, second = scale * np.array(scores).T
    found, moved, n = compare(first.tolist(), second.tolist(), seed=0), second - first, len(first)
    means = first.mean(), second.mean(), moved.mean()
    assert found.n == n and (found.baseline, found.other, found.difference) == pytest.approx(means)
    assert (found.rises, found.ties, found.falls) == ((moved > 0).sum(), (moved == 0).sum(), (moved < 0).sum())
    assert (found.p_test, found.test) == sign_flip(moved, seed=0)
    span = max(1.0, first.max(), second.max())
    ties, is_extreme = float((moved == 0).mean()), bool(np.isin(np.abs(moved), [0.0, span]).all())
    if n < 2 or (n < 10 and not is_extreme) or (np.ptp(moved) <= 1e-9 and not is_extreme):
        few = "fewer than two queries" if n < 2 else f"{n} {FEW}" if n < 10 else "all values are equal"
        assert (found.interval.low, found.interval.note) == (None, f"not computable: {few}")
        assert found.p == found.p_test
        return
    weight = 1.0 if is_extreme else ties**2
    own = student_t.interval(0.95, n - 1, moved.mean(), moved.std(ddof=1) / sqrt(n)) if weight < 1 else (0.0, 0.0)
    bounded = bounded_intervals(moved[:, None], -span, span)
    low, high = ((1 - weight) * a + weight * float(b[0]) for a, b in zip(own, bounded, strict=True))
    if found.p_test >= 0.05:
        low, high = min(low, 0.0), max(high, 0.0)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-9)
    holds_0 = found.interval.low <= 0 <= found.interval.high  # type: ignore[operator]
    assert found.p == (max(found.p_test, 0.05) if holds_0 else found.p_test)
    assert (found.p < 0.05) == (not holds_0)
    turned = compare(second.tolist(), first.tolist(), seed=0)
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


@pytest.mark.parametrize("n", [2, 5, 12])
def test_it_is_scipys_permutation_test(n: int) -> None:
    differences = np.random.default_rng(1).normal(0.4, 1, size=n)
    expected = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    p, test = sign_flip(differences, seed=0)
    assert p == pytest.approx(expected.pvalue) and test == "randomisation, exact"


@pytest.mark.parametrize(
    ("rises", "falls", "test"),
    [(3, 1, "exact"), (0, 6, "exact"), (5, 5, "exact"), (12, 0, "exact"), (20, 10, "exact"), (20, 11, "9,999 draws"),
     (27, 13, "9,999 draws"), (8, 32, "9,999 draws")],
)  # fmt: skip
def test_on_differences_of_one_size_it_is_mcnemars_exact_test(rises: int, falls: int, test: str) -> None:
    differences = np.array([0.3] * rises + [-0.3] * falls + [0.0] * 7)
    p, name = sign_flip(differences, seed=0)
    assert name == f"randomisation, {test}"
    # Of drawn signs within 3 standard errors at p = 0.04.
    assert p == pytest.approx(mcnemar(rises, falls), abs=1e-9 if test == "exact" else 0.006 if p < 0.1 else 0.015)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_its_steps_reject(p_values: list[float], level: float) -> None:
    """Step down from the smallest, against level / (those left), and stop at the first that stays."""
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
    found = compare_with_best(values, loss=0.5, span=1.0, strata=strata, looks=looks, seed=0)
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
    found = compare_with_best(VALUES[:6, :2], loss=0.5, span=1.0, strata=strata, judged=judged, seed=0)
    assert found.quantiles == pytest.approx(t.isf(0.05, freedom), rel=0.05 + 0.1 / freedom)
