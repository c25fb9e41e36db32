"""Means and differences of a judged sample: against the definition, by brute force over all samples, by simulation."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.sampling.corrected import corrected, difference, shrunk_weight, weight_of_differences
from evals.stats import paired
from evals.stats.intervals import mean_intervals

Floats = NDArray[np.float64]


def scores(total: int, columns: int = 1, noise: float = 0.2, seed: int = 0) -> tuple[Floats, Floats]:
    """Judged scores of all queries, and labels that say nearly the same."""
    rng = np.random.default_rng(seed)
    judged = rng.integers(0, 5, (total, columns)) / 4
    return judged, np.clip(judged + rng.normal(0, noise, judged.shape), 0, 1)


def first(judged: Floats, n: int) -> Floats:
    """Return the scores with only the first n known."""
    return np.where(np.arange(len(judged))[:, None] < n, judged, np.nan)


class TestWeight:
    def test_is_the_slope_shrunk_by_the_statistic_of_the_regression(self) -> None:
        judged, proxy = scores(30, noise=0.6)
        j, p = judged[:, 0], proxy[:, 0]
        slope = np.cov(j, p)[0, 1] / p.var(ddof=1)
        explained = np.corrcoef(j, p)[0, 1] ** 2
        statistic = 28 * explained / (1 - explained)
        assert shrunk_weight(judged, proxy) == pytest.approx(slope * (1 - 1 / statistic))

    @pytest.mark.parametrize("kind", ["contrary", "constant", "three"])
    def test_is_nothing_where_nothing_is_known(self, kind: str) -> None:
        judged, _ = scores(30)
        proxy = {"contrary": 1 - judged, "constant": np.full_like(judged, 0.5), "three": judged}[kind]
        n = 3 if kind == "three" else 30
        assert shrunk_weight(judged[:n], proxy[:n]) == 0

    def test_one_weight_for_all_columns_is_that_of_all_centred_columns_in_a_row(self) -> None:
        judged, proxy = scores(30, 2)
        j, p = (each - each.mean(axis=0) for each in (judged, proxy))
        slope = (j * p).sum() / (p * p).sum()
        assert shrunk_weight(judged, proxy) == pytest.approx(slope, rel=0.05)
        moved = judged + np.linspace(0, 3, 30)[:, None]
        assert weight_of_differences(moved, proxy) == pytest.approx(weight_of_differences(judged, proxy))


class TestMeans:
    def test_the_mean_of_all_samples_is_the_mean(self) -> None:
        """Of a given weight: the difference estimator has no bias."""
        judged, proxy = scores(9)
        means = []
        for drawn in combinations(range(9), 4):
            known = np.full((9, 1), np.nan)
            known[list(drawn)] = judged[list(drawn)]
            means.append(corrected(known, proxy, 0.7).means[0])
        assert np.mean(means) == pytest.approx(judged.mean())

    def test_pseudo_values_have_the_mean_and_its_variance(self) -> None:
        judged, proxy = scores(60, 2)
        sample = corrected(first(judged, 20), proxy)
        assert sample.pseudo.mean(axis=0) == pytest.approx(sample.means)
        of_proxy, of_rest = sample.foretold.var(axis=0, ddof=1), sample.residuals.var(axis=0, ddof=1)
        drawn = sample.foretold[:20]
        both = ((drawn - sample.foretold.mean(axis=0)) * (sample.residuals - sample.residuals.mean(axis=0))).sum(axis=0)
        scale = 3 * np.sqrt((1 - 1 / 60) / (1 - 1 / 20))
        expected = of_proxy * 59 + 19 * scale**2 * of_rest + 2 * scale * both
        assert sample.pseudo.var(axis=0, ddof=1) == pytest.approx(expected / 59)

    def test_all_judged_is_plain_judging(self) -> None:
        judged, proxy = scores(40, 2)
        sample = corrected(judged, proxy)
        assert sample.weight == 0 and np.array_equal(sample.pseudo, judged)
        assert np.array(sample.interval()) == pytest.approx(np.array(mean_intervals(judged, shares=True)))
        assert np.array(sample.of_these()) == pytest.approx(np.array([judged.mean(axis=0)] * 2))

    def test_a_proxy_that_lacks_a_query_corrects_nothing(self) -> None:
        judged, proxy = scores(40)
        sample = corrected(first(judged, 15), np.where(np.arange(40)[:, None] == 39, np.nan, proxy))
        assert sample.weight == 0 and sample.means == pytest.approx(judged[:15].mean())

    def test_a_query_without_a_score_in_one_column_counts_in_none(self) -> None:
        judged, proxy = scores(40, 2)
        known = first(judged, 15)
        known[3, 1] = np.nan
        assert corrected(known, proxy).n == 14

    def test_nine_queries_have_no_interval_unless_all_are_on_a_bound(self) -> None:
        judged, proxy = scores(40)
        assert np.isnan(np.array(corrected(first(judged, 9), proxy).interval())).all()
        sample = corrected(first(np.ones((40, 1)), 9), np.ones((40, 1)))
        assert np.isfinite(np.array([*sample.interval(), *sample.of_these()])).all()
        assert sample.of_these()[0] < 0.9

    def test_the_bounds_narrow_as_more_is_judged_and_widen_with_the_looks(self) -> None:
        judged, proxy = scores(100)
        widths = [np.ptp(corrected(first(judged, n), proxy).of_these()) for n in (15, 30, 60, 99)]
        assert widths == sorted(widths, reverse=True) and widths[-1] < 0.02
        sample = corrected(first(judged, 30), proxy)
        assert np.ptp(sample.of_these(10)) > np.ptp(sample.of_these())


class TestDifference:
    @staticmethod
    def runs(n: int, total: int = 60, shift: float = 0.1, noise: float = 0.1) -> tuple[tuple[Floats, Floats], ...]:
        rng = np.random.default_rng(3)
        base = rng.integers(0, 4, total) / 4
        other = np.clip(base + shift * (rng.random(total) < 0.6), 0, 1)
        proxies = tuple(np.clip(each + rng.normal(0, noise, total), 0, 1) for each in (base, other))
        known = tuple(np.where(np.arange(total) < n, each, np.nan) for each in (base, other))
        return (known[0], known[1]), (proxies[0], proxies[1])

    def test_all_judged_is_the_paired_comparison(self) -> None:
        judged, proxies = self.runs(60)
        assert difference(judged, proxies, 0) == (paired.compare(judged[0].tolist(), judged[1].tolist(), 0), 0.0)

    def test_the_estimate_is_that_of_the_differences(self) -> None:
        judged, proxies = self.runs(30, noise=0.02)
        found, weight = difference(judged, proxies, 0)
        q = proxies[1] - proxies[0]
        d = (judged[1] - judged[0])[:30]
        assert 0 < weight == shrunk_weight(d[:, None], q[:30, None])
        assert found.difference == pytest.approx(d.mean() + weight * (q.mean() - q[:30].mean()))
        assert found.other - found.baseline == pytest.approx(found.difference) and found.n == 30

    def test_runs_that_say_the_same_differ_by_nothing(self) -> None:
        (base, _), (proxy, _) = self.runs(30)
        found, weight = difference((base, base), (proxy, proxy), 0)
        assert (found.difference, weight, found.p) == (0, 0, 1)

    @pytest.mark.parametrize("seed", range(20))
    def test_no_interval_is_wider_than_the_samples_own_and_it_agrees_with_p(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        both = [rng.integers(0, 3, 80) / 2 for _ in range(2)]
        proxies = [np.clip(each + rng.normal(0, rng.choice([0.05, 0.5]), 80), 0, 1) for each in both]
        known = [np.where(np.arange(80) < 25, each, np.nan) for each in both]
        found, _ = difference((known[0], known[1]), (proxies[0], proxies[1]), seed)
        alone = paired.compare(both[0][:25].tolist(), both[1][:25].tolist(), seed)
        low, high = found.interval.low, found.interval.high
        assert low is not None and high is not None and alone.interval.low is not None
        assert alone.interval.high is not None
        assert high - low <= alone.interval.high - alone.interval.low + 1e-12
        assert (low > 0 or high < 0) == (found.p < 0.05)
