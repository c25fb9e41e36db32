"""The confidence set and its bounds: against loops over the definition, Dunnett's quantiles, what must not matter."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from evals.grid.choice.confidence_set import LEAST, BestSet, behind_its_like, best_set
from evals.grid.choice.empirical_likelihood import beyond_doubt
from evals.grid.choice.pairs import Pairs, pair_up
from evals.grid.choice.resample import resample
from evals.grid.choice.standings import ObjectiveScores

Floats = NDArray[np.float64]


def paired(values: Floats, span: float = 1.0) -> Pairs:
    strata = np.zeros(len(values), dtype=np.int64)
    return pair_up(ObjectiveScores(objective="", values=values, strata=strata, span=span), values)


def found_of(values: Floats, *, seed: int = 0, resamples: int = 2_000, span: float = 1.0) -> BestSet:
    strata = np.zeros(len(values), dtype=np.int64)
    rng = np.random.default_rng(seed)
    drawn = resample(values, strata, resamples, rng)
    return best_set(paired(values, span), drawn, rng)


def alike(queries: int, cells: int, seed: int = 0, slope: float = 0.15) -> Floats:
    """Correlated graded scores, the cells getting worse."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(queries, 1)) + 0.5 * rng.normal(size=(queries, cells)) - slope * np.arange(cells)
    return np.asarray(np.clip(0.5 + 0.25 * latent, 0, 1))


def test_is_the_definition_in_loops() -> None:
    """Step-down over Hsu's comparisons, and the bounds, cell by cell, from the same resamples."""
    values, n, cells = alike(120, 12, seed=10, slope=0.03), 120, 12
    rng = np.random.default_rng(3)
    deviations = resample(values, np.zeros(n, dtype=np.int64), 400, rng)
    state = rng.bit_generator.state
    found = best_set(paired(values), deviations, rng)

    again = np.random.default_rng()
    again.bit_generator.state = state
    scaled = deviations * np.sqrt((n - 1) / again.chisquare(n - 1, size=400))[:, None]

    def quantile(j: int, rivals: list[int]) -> float:
        largest = np.zeros(400)
        for i in set(rivals) - {j}:
            error = (values[:, i] - values[:, j]).std() / np.sqrt(n)
            largest = np.maximum(largest, (scaled[:, i] - scaled[:, j]) / error)
        return float(np.quantile(largest, 0.95))

    def beats(i: int, j: int, quantile: float) -> bool:
        difference = values[:, i] - values[:, j]
        t = difference.mean() / (difference.std(ddof=1) / np.sqrt(n))
        best = values[:, values.mean(axis=0).argmax()]
        return t > quantile and bool(beyond_doubt(difference[:, None], float(best[best > 0].mean()))[0])

    left, sizes = list(range(cells)), [cells + 1]
    while len(left) < sizes[-1]:
        sizes.append(len(left))
        left = [j for j in left if not any(beats(i, j, quantile(j, left)) for i in left if i != j)]
    assert np.flatnonzero(found.members).tolist() == left
    assert len(sizes) > 3, "more than one step was taken"

    whole = np.abs(values - values[:, [values.mean(axis=0).argmax()]])
    losses = 1 + (whole >= 1).sum() / (whole > 1e-9).sum()
    lower = np.zeros(cells)
    for j in left:
        c = max(2.0, quantile(j, list(range(cells))))
        assert found.quantiles[j] == pytest.approx(c, abs=1e-4)
        for i in set(range(cells)) - {j}:
            difference = values[:, i] - values[:, j]
            moved = (difference.sum() - losses) / (n + losses)
            squares = ((difference**2).sum() + losses) / (n + losses)
            error = np.sqrt((squares - moved**2) / (n + losses - 1))
            lower[i] = min(lower[i], moved - c * error)
    assert found.lower == pytest.approx(lower, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [5, 10])
def test_of_independent_cells_the_quantile_is_dunnetts(cells: int) -> None:
    """With many queries: the one-sided 5% point of the largest of cells − 1 normals that correlate by one half."""
    values = np.random.default_rng(1).random((4_000, cells))
    others = cells - 1
    found = found_of(values, resamples=20_000)
    covariance = 0.5 * np.eye(others) + 0.5
    for quantile in found.quantiles[found.members]:
        below = multivariate_normal.cdf(np.full(others, quantile), mean=np.zeros(others), cov=covariance)
        assert below == pytest.approx(0.95, abs=0.006)


def test_few_queries_widen_it_as_students_t_does() -> None:
    rng = np.random.default_rng(1)
    few, many = (np.nanmean(found_of(rng.random((n, 8)), resamples=20_000).quantiles) for n in (12, 2_000))
    assert 1.05 < few / many < 1.25


def test_the_quantile_is_at_least_2() -> None:
    assert found_of(alike(60, 2)).quantiles.tolist() == [LEAST, LEAST]


def test_a_clearly_better_cell_is_the_only_member() -> None:
    values = alike(200, 4) * 0.3
    values[:, 2] += 0.6
    found = found_of(values)
    assert found.members.tolist() == [False, False, True, False]
    assert found.lower[2] == 0
    assert (found.lower[[0, 1, 3]] < -0.55).all()


def test_more_queries_make_the_set_smaller_and_the_bounds_tighter() -> None:
    few, many = found_of(alike(40, 12)), found_of(alike(2_000, 12))
    assert many.members.sum() < few.members.sum()
    assert many.lower.max() > few.lower.max()


def test_a_gain_on_every_query_is_not_certain_with_few() -> None:
    """Of 40 queries none lost anything; one in forty might."""
    base = alike(400, 1) * 0.5
    values = np.hstack([base, base + 0.02])
    assert found_of(values[:40]).members.tolist() == [True, True]
    assert found_of(values).members.tolist() == [False, True]


def test_cells_with_the_same_scores_may_differ_by_the_rule_of_three() -> None:
    """40 hits and misses alike: 2 losses added, so at most (2 + c √2 …) / 42 behind."""
    values = np.hstack([np.ones((40, 1)), np.zeros((40, 1))])
    values[::2] = 1
    pairs = paired(values)
    found = found_of(values)
    asked = np.array([0.0] * 40 + [-1.0, -1.0])
    expected = asked.mean() - found.quantiles[0] * asked.std(ddof=1) / np.sqrt(42)
    assert behind_its_like(pairs, found)[0] == pytest.approx(expected)
    assert expected < -3 / 40
    assert behind_its_like(pairs, found)[1] == 0


@given(st.integers(0, 10_000), st.integers(10, 60), st.integers(2, 9), st.booleans())
def test_the_best_cell_is_a_member_and_bounds_stay_below_0_and_the_difference(
    seed: int, queries: int, cells: int, binary: bool
) -> None:
    values = alike(queries, cells, seed)
    if binary:
        values = (values > 0.5).astype(float)
    values = np.unique(values, axis=1)
    found = found_of(values, resamples=200)
    mean = values.mean(axis=0)
    assert found.members[mean.argmax()]
    assert (found.lower <= 0).all()
    behind = mean - mean.max()
    assert (found.lower[behind < 0] < behind[behind < 0]).all()
    assert np.isfinite(found.quantiles[found.members]).all()


def test_what_is_common_to_all_cells_of_a_query_does_not_count() -> None:
    values = alike(50, 6)
    shifted = values + np.random.default_rng(0).normal(size=(50, 1))
    drawn = resample(values, np.zeros(50, dtype=np.int64), 2_000, np.random.default_rng(0))
    pairs, other_pairs = paired(values), replace(paired(shifted), typical_loss=paired(values).typical_loss)
    one, other = (best_set(p, drawn, np.random.default_rng(1)) for p in (pairs, other_pairs))
    assert one.members.tolist() == other.members.tolist()
    assert other.lower == pytest.approx(one.lower, abs=1e-4)


def test_the_order_of_cells_does_not_count() -> None:
    values, order = alike(50, 6), np.array([3, 0, 5, 1, 4, 2])
    one, other = found_of(values), found_of(values[:, order])
    assert other.members.tolist() == one.members[order].tolist()
    assert other.lower == pytest.approx(one.lower[order], abs=1e-6)


def test_one_cell_is_its_own_set() -> None:
    found = found_of(alike(30, 1))
    assert found.members.tolist() == [True]
    assert found.lower.tolist() == [0.0]


def test_parts_of_the_resamples_give_what_all_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found_of(alike(60, 6))
    monkeypatch.setattr("evals.grid.choice.confidence_set.BLOCK", 5)
    parts = found_of(alike(60, 6))
    assert np.array_equal(parts.quantiles, whole.quantiles, equal_nan=True)
    assert np.array_equal(parts.lower, whole.lower)


def test_large_grids_use_fewer_resamples_and_stay_near(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found_of(alike(60, 6), resamples=8_000)
    monkeypatch.setattr("evals.grid.choice.confidence_set.WORK", 36)
    fewer = found_of(alike(60, 6), resamples=8_000)
    assert fewer.quantiles == pytest.approx(whole.quantiles, rel=0.06, nan_ok=True)
    assert fewer.quantiles[0] != whole.quantiles[0]
