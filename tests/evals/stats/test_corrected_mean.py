import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.stats.corrected_mean import (
    corrected_intervals,
    corrected_mean,
    corrected_means,
    pseudo_values,
    shrunk_weight,
)
from evals.stats.intervals import mean_interval, mean_intervals

Floats = NDArray[np.float64]
World = Callable[[np.random.Generator, int, float], tuple[Floats, Floats]]


def drawn(total: int, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    sampled = np.zeros(total, dtype=np.bool_)
    sampled[rng.permutation(total)[:n]] = True
    return sampled


def by_loops(judged: Floats, proxy: Floats, sampled: NDArray[np.bool_]) -> tuple[float, float]:
    """The estimate and its weight by their definitions, one query at a time."""
    j, p = judged[sampled].tolist(), proxy[sampled].tolist()
    n, j_mean, p_mean = len(j), sum(j) / len(j), sum(p) / len(p)
    cov = sum((a - j_mean) * (b - p_mean) for a, b in zip(j, p, strict=True))
    var = sum((b - p_mean) ** 2 for b in p)
    weight = 0.0
    if var and cov > 0:
        slope = cov / var
        errors = sum((a - j_mean - slope * (b - p_mean)) ** 2 for a, b in zip(j, p, strict=True))
        f = cov * slope / (errors / (n - 2)) if errors else float("inf")
        weight = min(1.0, slope * max(0.0, 1 - 1 / f))
    return weight * sum(proxy.tolist()) / len(proxy) + sum(
        a - weight * b for a, b in zip(j, p, strict=True)
    ) / n, weight


def test_a_judge_that_always_agrees_gives_the_labels_mean() -> None:
    proxy = np.array([0.0, 1.0, 0.5, 1.0, 0.0, 0.5, 1.0, 1.0])
    found = corrected_mean(proxy, proxy, np.arange(8) < 5)
    assert (found.weight, found.value, found.alone, found.n, found.total) == (1.0, 0.625, 0.5, 5, 8)


def test_a_mean_by_hand() -> None:
    judged = np.array([1, 1, 0, 1, 0, 0, np.nan, np.nan])
    proxy = np.array([1, 1, 1, 0, 0, 0, 1, 1], dtype=float)
    found = corrected_mean(judged, proxy, np.arange(8) < 6)
    # slope 0.5/1.5 = 1/3, explained 1/6, residual (1.5 − 1/6)/4 = 1/3: F = 1/2 is what chance gives.
    assert (found.weight, found.value) == (0.0, 0.5)
    judged[3], judged[2] = 0, 1
    found = corrected_mean(judged, proxy, np.arange(8) < 6)
    assert (found.weight, found.value) == (1.0, 0.625)


@given(st.integers(0, 10_000), st.integers(5, 30), st.booleans())
def test_the_estimate_equals_loops(seed: int, n: int, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    judged = rng.random(40).round(2)
    proxy = np.where(rng.random(40) < 0.7, judged, rng.random(40).round(2))
    if binary:
        judged, proxy = judged.round(), proxy.round()
    sampled = drawn(40, n, rng)
    values, weight = corrected_means(judged[:, None], proxy[:, None], sampled)
    assert (values[0], weight) == pytest.approx(by_loops(judged, proxy, sampled), abs=1e-9)


@pytest.mark.parametrize("proxy", ["constant", "contrary"])
def test_labels_that_do_not_help_leave_plain_judging(proxy: str) -> None:
    judged = np.linspace(0, 1, 60)
    scores = np.full(60, 0.4) if proxy == "constant" else 1 - judged
    sampled = drawn(60, 20, np.random.default_rng(0))
    found = corrected_mean(judged, scores, sampled)
    assert found.weight == 0
    assert found.value == pytest.approx(judged[sampled].mean())
    assert found.interval == found.alone_interval == mean_interval(judged[sampled].tolist())


def test_all_queries_judged_is_plain_judging() -> None:
    rng = np.random.default_rng(0)
    judged, whole = rng.random((30, 4)), np.ones(30, dtype=np.bool_)
    judged[:, 1] = judged[:, 1] > 0.9
    proxy = np.where(rng.random((30, 4)) < 0.8, judged, 0.5)
    ends = np.stack(corrected_intervals(judged, proxy, whole, shares=True))
    assert ends == pytest.approx(np.stack(mean_intervals(judged, shares=True)))
    assert pseudo_values(judged, proxy, whole) == pytest.approx(judged)
    single = corrected_mean(judged[:, 1], proxy[:, 1], whole)
    assert (single.value, single.weight) == (judged[:, 1].mean(), 0.0)
    assert single.interval.low == pytest.approx(mean_interval(judged[:, 1].tolist()).low)


def test_too_few_have_the_reason_of_plain_judging() -> None:
    judged = np.linspace(0, 1, 40)
    found = corrected_mean(judged, judged, drawn(40, 9, np.random.default_rng(1)))
    assert found.interval.note == "not computable: 9 values are too few, 10 are needed"
    assert (found.interval.low, found.alone_interval.low) == (None, None)


def test_amounts_have_intervals_too() -> None:
    rng = np.random.default_rng(3)
    judged = rng.normal(100, 10, 200)
    found = corrected_mean(judged, judged / 100 + rng.normal(0, 0.01, 200), drawn(200, 40, rng), shares=False)
    assert found.weight == 1.0
    assert found.interval.low is not None and found.interval.high is not None
    assert found.interval.low < found.value < found.interval.high


def test_the_bias_is_far_below_the_error() -> None:
    """Over all 924 samples of six out of twelve."""
    rng = np.random.default_rng(5)
    judged = rng.random(12)
    proxy = np.clip(judged + rng.normal(0, 0.2, 12), 0, 1)
    estimates = []
    for chosen in itertools.combinations(range(12), 6):
        sampled = np.isin(np.arange(12), chosen)
        estimates.append(corrected_means(judged[:, None], proxy[:, None], sampled)[0][0])
    errors = np.array(estimates) - judged.mean()
    assert abs(errors.mean()) < 0.1 * errors.std()
    alone = [judged[list(chosen)].mean() for chosen in itertools.combinations(range(12), 6)]
    assert errors.std() < 0.8 * np.std(alone)


# Pseudo-values


def test_pseudo_values_have_the_mean_and_the_variance() -> None:
    rng = np.random.default_rng(0)
    judged = rng.random((200, 3))
    proxy = np.clip(judged + rng.normal(0, 0.1, judged.shape), 0, 1)
    sampled = drawn(200, 50, rng)
    values, weight = corrected_means(judged, proxy, sampled)
    pseudo = pseudo_values(judged, proxy, sampled)
    assert pseudo.mean(axis=0) == pytest.approx(values)
    j, p = judged[sampled], proxy[sampled]
    r = j - weight * p
    covariance = np.array([np.cov(p[:, c], r[:, c])[0, 1] for c in range(3)])
    wanted = weight**2 * proxy.var(axis=0, ddof=1) / 200 + r.var(axis=0, ddof=1) / 50 + 2 * weight * covariance / 200
    assert pseudo.var(axis=0, ddof=1) / 200 == pytest.approx(wanted, rel=0.01)


def test_cells_that_return_the_same_have_the_same_pseudo_values() -> None:
    rng = np.random.default_rng(1)
    judged = rng.random((100, 1)).repeat(3, axis=1)
    proxy = rng.random((100, 1)).repeat(3, axis=1)
    judged[:4, 2], proxy[:4, 2] = 0, 0
    sampled = np.arange(100) % 5 < 2
    pseudo = pseudo_values(judged, proxy, sampled)
    assert (pseudo[:, 0] == pseudo[:, 1]).all()
    # They are shifted by the difference of the means alone wherever both cells return the same.
    shift = (pseudo[:, 0] - pseudo[:, 2])[4:]
    assert np.unique(shift[sampled[4:]].round(12)).size == np.unique(shift[~sampled[4:]].round(12)).size == 1


def test_a_useless_proxy_in_one_cell_does_not_spoil_the_others() -> None:
    rng = np.random.default_rng(2)
    judged = rng.random((100, 5))
    proxy = judged.copy()
    proxy[:, 4] = 0.5
    assert shrunk_weight(judged[:20], proxy[:20]) > 0.99


# Coverage


def verdicts(
    rng: np.random.Generator, total: int, agreement: float, depth: int, relevant: float
) -> tuple[Floats, Floats]:
    """Precision by the judge and by labels, of queries that differ in how well they are answered."""
    ease = rng.beta(2 * relevant, 2 * (1 - relevant), (total, 1))
    judged = rng.random((total, depth)) < ease
    labels = np.where(rng.random(judged.shape) < agreement, judged, ~judged)
    return judged.mean(axis=1), labels.mean(axis=1)


def coverage(total: int, n: int, agreement: float, depth: int, relevant: float, draws: int) -> tuple[float, float]:
    """Share of intervals that hold the true mean, and root mean square error over that of judging alone."""
    rng, hits, errors = np.random.default_rng([total, n, depth]), 0, []
    for _ in range(draws):
        judged, proxy = verdicts(rng, total, agreement, depth, relevant)
        sampled = drawn(total, n, rng)
        found = corrected_mean(judged, proxy, sampled)
        assert found.interval.low is not None and found.interval.high is not None
        hits += found.interval.low - 1e-12 <= relevant <= found.interval.high + 1e-12
        errors.append((found.value - relevant, found.alone - relevant))
    squares = np.mean(np.square(errors), axis=0)
    return hits / draws, float(np.sqrt(squares[0] / squares[1]))


def test_intervals_hold_the_mean_of_a_few_draws() -> None:
    covered, ratio = coverage(225, 22, 0.93, 5, 0.4, 150)
    assert covered > 0.92
    assert ratio < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(("total", "n"), [(40, 15), (225, 22), (500, 15), (500, 60)])
@pytest.mark.parametrize(("depth", "relevant"), [(1, 0.5), (1, 0.05), (1, 0.95), (5, 0.4), (5, 0.06)])
@pytest.mark.parametrize("agreement", [0.6, 0.88, 0.97])
def test_intervals_hold_the_mean(total: int, n: int, depth: int, relevant: float, agreement: float) -> None:
    covered, ratio = coverage(total, n, agreement, depth, relevant, 600)
    # 0.94 and more, but for the error of 600 draws
    assert covered > 0.92
    assert ratio < 1.08
