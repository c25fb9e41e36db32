"""Means and differences of a judged sample: against the definition, and by brute force over all samples."""

from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

from evals.sampling.corrected import Sample, corrected, difference, shrunk_weight
from evals.stats import paired
from evals.stats.intervals import mean_intervals

Floats = NDArray[np.float64]
Two = tuple[Floats, Floats]


def scores(total: int, columns: int = 1, noise: float = 0.2, seed: int = 0) -> Two:
    """Judged scores of all queries, and labels that say nearly the same."""
    rng = np.random.default_rng(seed)
    judged = rng.integers(0, 5, (total, columns)) / 4
    return judged, np.clip(judged + rng.normal(0, noise, judged.shape), 0, 1)


def first(judged: Floats, n: int) -> Floats:
    """Return the scores with only the first n known."""
    return np.where(np.arange(len(judged))[:, None] < n, judged, np.nan)


def left_open(residuals: Floats, floor: float, ceiling: float, agree: float, share: float, alpha: float) -> list[float]:
    """Return how far a mean of residuals may be below and above: Student's with a query that was not seen, by hand.

    As far off as the others usually are, and by the square of the share that agrees as far as can be.
    """
    n, mean = len(residuals), float(residuals.mean())
    quantile, moved = t.isf(alpha / 2, n - 1), np.abs(residuals - mean)
    usual = float(moved[moved > 1e-9].mean()) if (moved > 1e-9).any() else 0.0

    def error(distance: float) -> float:
        more = np.append(residuals - mean, -distance)
        return float(quantile * sqrt(share * more.var() / n))

    return [
        (1 - agree**2) * error(usual) + agree**2 * (error(distance) + share * distance / (n + share))
        for distance in (mean - floor, ceiling - mean)
    ]


def open_of(sample: Sample, column: int, looks: int = 1) -> list[float]:
    """Return what the queries that were not judged leave open of the mean of a column."""
    foretold, residuals = sample.foretold[:, column], sample.residuals[:, column]
    floor = min(-foretold.max(), residuals.min())
    ceiling = max(1 - foretold.min(), residuals.max())
    agree = float(np.isclose(sample.weight * sample.scores[:, column], foretold[sample.judged], atol=1e-9).mean())
    return left_open(residuals, floor, ceiling, agree, 1 - sample.n / sample.total, 0.05 / looks)


@pytest.mark.parametrize("n", [4, 5, 30])
def test_the_weight_is_the_slope_shrunk_by_the_statistic_of_the_regression(n: int) -> None:
    judged, proxy = scores(n, noise=0.4, seed=3)
    j, p = judged[:, 0], proxy[:, 0]
    slope, explained = np.cov(j, p)[0, 1] / p.var(ddof=1), np.corrcoef(j, p)[0, 1] ** 2
    statistic = (n - 2) * explained / (1 - explained)
    assert shrunk_weight(judged, proxy) == pytest.approx(min(1.0, slope * max(0.0, 1 - 1 / statistic)))
    assert shrunk_weight(judged, proxy / 4) <= 1


@pytest.mark.parametrize("kind", ["contrary", "constant", "three"])
def test_the_weight_is_nothing_where_nothing_is_known(kind: str) -> None:
    judged, _ = scores(30)
    proxy = {"contrary": 1 - judged, "constant": np.full_like(judged, 0.5), "three": judged}[kind]
    n = 3 if kind == "three" else 30
    assert shrunk_weight(judged[:n], proxy[:n]) == 0


def test_pseudo_values_have_the_mean_and_its_variance() -> None:
    judged, proxy = scores(60, 2)
    sample = corrected(first(judged, 20), proxy)
    assert sample.pseudo.mean(axis=0) == pytest.approx(sample.means)
    of_proxy, of_rest = sample.foretold.var(axis=0, ddof=1), sample.residuals.var(axis=0, ddof=1)
    drawn = sample.foretold[:20]
    both = ((drawn - sample.foretold.mean(axis=0)) * (sample.residuals - sample.residuals.mean(axis=0))).sum(axis=0)
    scale = 3 * np.sqrt((1 - 1 / 60) / (1 - 1 / 20))
    expected = of_proxy * 59 + 19 * scale**2 * of_rest + 2 * scale * both
    assert sample.pseudo.var(axis=0, ddof=1) == pytest.approx(expected / 59)


@pytest.mark.parametrize("agreeing", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_the_distances_of_what_is_open_and_of_the_scores_add_in_squares(agreeing: float, weight: float | None) -> None:
    """No distance is longer than the longer one of judging alone."""
    judged, proxy = scores(60, 2, seed=1)
    labels = np.where(np.arange(60)[:, None] < 60 * agreeing, 0.1 + 0.8 * judged, proxy)
    judged = np.where(np.arange(60)[:, None] < 60 * agreeing, labels, judged)
    sample = corrected(np.where(np.arange(60)[:, None] % 3 == 0, judged, np.nan), labels, weight)
    known, (low, high) = np.array(sample.of_these(4)), sample.interval()
    alone = mean_intervals(sample.scores, shares=True)
    for column, mean in enumerate(sample.means):
        below, above = open_of(sample, column, looks=4)
        assert known[:, column] == pytest.approx(np.clip([mean - below, mean + above], 0, 1))
        own = [abs(sample.scores[:, column].mean() - end[column]) for end in alone]
        reach = [sqrt(20 / 60 * a**2 + b**2) for a, b in zip(own, open_of(sample, column), strict=True)]
        down, up = (min(each, max(own)) for each in reach)
        assert (low[column], high[column]) == pytest.approx((max(0.0, mean - down), min(1.0, mean + up)))


def test_what_lacks_a_query_corrects_nothing_or_counts_in_no_column() -> None:
    judged, proxy = scores(40, 2)
    known = first(judged, 15)
    sample = corrected(known, np.where(np.arange(40)[:, None] == 39, np.nan, proxy))
    assert sample.weight == 0 and sample.means == pytest.approx(judged[:15].mean(axis=0))
    known[3, 1] = np.nan
    assert corrected(known, proxy).n == 14


def test_nine_queries_have_no_interval_unless_all_are_on_a_bound() -> None:
    judged, proxy = scores(40)
    assert np.isnan(np.array(corrected(first(judged, 9), proxy).interval())).all()
    sample = corrected(first(np.ones((40, 1)), 9), np.ones((40, 1)))
    assert np.isfinite(np.array([*sample.interval(), *sample.of_these(looks=1)])).all()
    assert sample.of_these(looks=1)[0] < 0.9


# Differences


def runs(n: int, seed: int = 3, noise: float = 0.1, total: int = 60) -> tuple[Two, Two]:
    """Two runs of which the first n are judged, and what foretells them."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 4, total) / 4
    both = base, np.clip(base + 0.1 * (rng.random(total) < 0.6), 0, 1)
    labels = [np.clip(each + rng.normal(0, noise, total), 0, 1) for each in both]
    known = [np.where(np.arange(total) < n, each, np.nan) for each in both]
    return (known[0], known[1]), (labels[0], labels[1])


def test_all_judged_is_the_paired_comparison() -> None:
    judged, proxies = runs(60)
    assert difference(judged, proxies, 0) == (paired.compare(judged[0].tolist(), judged[1].tolist(), 0), 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_estimate_is_that_of_the_differences_and_its_interval_of_their_parts(seed: int) -> None:
    judged, proxies = runs(30, seed, noise=0.02)
    found, weight = difference(judged, proxies, 0)
    q, d = proxies[1] - proxies[0], (judged[1] - judged[0])[:30]
    assert 0 < weight == shrunk_weight(d[:, None], q[:30, None])
    mean = d.mean() + weight * (q.mean() - q[:30].mean())
    assert found.difference == pytest.approx(mean)
    assert found.other - found.baseline == pytest.approx(found.difference) and found.n == 30
    residuals, ties = d - weight * q[:30], float((np.abs(d) <= 1e-9).mean())
    p_test, test = paired.sign_flip(weight * q + np.append(2 * residuals, np.zeros(30)), 0)
    assert (found.p_test, found.test) == (p_test, test)
    largest = max(1.0, float(np.abs(residuals).max()))
    below, above = left_open(residuals, -largest, largest, ties, 0.5, 0.05)
    low, high = (float(end[0]) for end in paired.difference_intervals(d[:, None], 1.0))
    down, up = sqrt(0.5 * (d.mean() - low) ** 2 + below**2), sqrt(0.5 * (high - d.mean()) ** 2 + above**2)
    expected, p = paired.agreed(mean - down, mean + up, found.p_test)
    assert (found.interval.low, found.interval.high, found.p) == pytest.approx((expected.low, expected.high, p))
