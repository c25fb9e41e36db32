"""Proxy scores of a sample, against the definition of double sampling, its variance, and coverage by simulation."""

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.stats.corrected_mean import corrected_mean, corrected_means, pseudo_values
from evals.stats.joint_weights import shrunk_weights
from evals.stats.nested_samples import ProxyScores, completed, joint_proxy

Floats = NDArray[np.float64]


def scores(rng: np.random.Generator, total: int, agreements: tuple[float, ...], depth: int, relevant: float) -> Floats:
    """Precision by labels and cheaper judges and, last, by the strongest, [queries, scorers]."""
    ease = rng.beta(2 * relevant, 2 * (1 - relevant), (total, 1))
    truth = rng.random((total, depth)) < ease
    others = [np.where(rng.random(truth.shape) < agreement, truth, ~truth) for agreement in agreements]
    return np.stack([verdicts.mean(axis=1) for verdicts in (*others, truth)], axis=1)


def sampled(column: Floats, order: NDArray[np.int64], n: int) -> Floats:
    values = np.full((len(column), 1), np.nan)
    values[order[:n], 0] = column[order[:n]]
    return values


def test_three_phases_are_the_difference_estimator_of_each() -> None:
    rng = np.random.default_rng(1)
    table, order = scores(rng, 200, (0.85, 0.9, 0.95), 4, 0.5), rng.permutation(200)
    sizes, means, weights = (200, 120, 60, 25), [table[:, 0].mean()], []
    for column, n in zip(range(1, 4), sizes[1:], strict=True):
        chosen = table[order[:n]]
        own = shrunk_weights(chosen[:, [column]], [chosen[:, [before]] for before in range(column)])
        moves = [w * (means[before] - chosen[:, before].mean()) for before, w in enumerate(own)]
        means.append(chosen[:, column].mean() + sum(moves))
        weights.append(own)
    proxies = [ProxyScores.of_all(table[:, :1])]
    for column, n in ((1, 120), (2, 60)):
        proxies.append(completed(sampled(table[:, column], order, n), proxies))
    strong = sampled(table[:, 3], order, 25)
    judged = np.isfinite(strong[:, 0])
    joint = joint_proxy(strong, judged, proxies)
    values, _ = corrected_means(strong, joint.scores, judged, joint.weight)
    assert values[0] == pytest.approx(means[-1])
    assert (*(w for proxy in proxies for w in proxy.weights), *joint.weights) == pytest.approx(tuple(sum(weights, ())))
    pseudo = pseudo_values(strong, joint.scores, judged, spread=joint.spread, weight=joint.weight)
    assert pseudo.mean() == pytest.approx(means[-1])


def test_the_variance_of_each_phase_is_that_of_what_the_scores_before_it_leave() -> None:
    """p₂ of 25 by w p₁ of 60 and v p₀ of all; p₁ in turn by u p₀: of p₀ alone w u + v is left."""
    rng = np.random.default_rng(5)
    table, order = scores(rng, 200, (0.85, 0.9), 4, 0.5), rng.permutation(200)
    proxies = [ProxyScores.of_all(table[:, :1])]
    proxies.append(completed(sampled(table[:, 1], order, 60), proxies, [0.6]))
    joint = joint_proxy(table[:, 2:], np.isin(np.arange(200), order[:25]), proxies, [0.2, 0.5])
    (phase,) = joint.earlier
    assert joint.weight == pytest.approx(0.7) and phase.queries == 60
    assert 0.7 * phase.weight == pytest.approx(0.5 * 0.6 + 0.2)
    assert 0.7 * phase.predicted == pytest.approx(0.5 * table[:, :1] * 0.6 + 0.2 * table[:, :1])


def test_the_mean_of_completed_scores_is_the_corrected_mean_of_the_sample() -> None:
    rng = np.random.default_rng(2)
    table, order = scores(rng, 90, (0.9,), 3, 0.4), rng.permutation(90)
    strong = sampled(table[:, 1], order, 30)
    proxy = completed(strong, [ProxyScores.of_all(table[:, :1])])
    values, _ = corrected_means(strong, table[:, :1], np.isfinite(strong[:, 0]))
    assert proxy.scores.mean() == pytest.approx(values[0]) == pytest.approx(proxy.spread.mean())
    assert np.array_equal(proxy.scores[order[:30], 0], table[order[:30], 1])


def test_a_cheap_judge_on_all_queries_needs_no_labels() -> None:
    cheap = np.linspace(0, 1, 12)[:, None]
    proxy = completed(cheap, [ProxyScores.of_all(np.zeros((12, 1)))])
    assert np.array_equal(proxy.scores, cheap) and (proxy.queries, proxy.weights) == (12, (0.0,))


@pytest.mark.parametrize("known", [0, 1])
def test_a_judge_without_answers_leaves_the_labels(known: int) -> None:
    labels, judged = np.linspace(0, 1, 12)[:, None], np.arange(12) % 2 == 0
    proxies = [
        ProxyScores.of_all(labels),
        completed(sampled(labels[:, 0], np.arange(12), known), [ProxyScores.of_all(labels)]),
    ]
    joint = joint_proxy(labels, judged, proxies)
    assert np.array_equal(joint.scores, labels) and (joint.weights, joint.earlier) == ((1.0, 0.0), ())


def test_proxies_that_say_nothing_leave_the_judged_queries_alone() -> None:
    rng = np.random.default_rng(0)
    judged = rng.random((40, 1))
    proxies = [ProxyScores.of_all(np.full((40, 1), 0.5)), ProxyScores.of_all(1 - judged)]
    joint = joint_proxy(judged, np.arange(40) < 20, proxies)
    assert joint.weight == 0 and np.array_equal(joint.scores, 1 - judged)


def test_labels_that_miss_a_query_correct_nothing() -> None:
    assert not ProxyScores.of_all(np.array([[0.5], [np.nan]])).scores.any()


def test_pseudo_values_vary_as_the_estimate_does() -> None:
    """Over many draws of queries and samples."""
    rng, estimates, variances = np.random.default_rng(3), [], []
    for _ in range(1500):
        table, order = scores(rng, 120, (0.9, 0.93), 5, 0.5), rng.permutation(120)
        labels = ProxyScores.of_all(table[:, :1])
        strong = sampled(table[:, 2], order, 25)
        judged = np.isfinite(strong[:, 0])
        joint = joint_proxy(strong, judged, [labels, completed(sampled(table[:, 1], order, 60), [labels], [0.7])])
        pseudo = pseudo_values(strong, joint.scores, judged, spread=joint.spread, weight=joint.weight)
        estimates.append(pseudo.mean())
        variances.append(pseudo.var(ddof=1) / len(pseudo))
    # The weights are estimated too, which the variance leaves out.
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.12)


def coverage(total: int, n: int, n_cheap: int, agreement: float, depth: int, relevant: float, draws: int) -> float:
    rng, hits = np.random.default_rng([total, n, depth]), 0
    for _ in range(draws):
        table, order = scores(rng, total, (0.93, agreement), depth, relevant), rng.permutation(total)
        labels = ProxyScores.of_all(table[:, :1])
        strong = sampled(table[:, 2], order, n)
        judged = np.isfinite(strong[:, 0])
        joint = joint_proxy(strong, judged, [labels, completed(sampled(table[:, 1], order, n_cheap), [labels])])
        interval = corrected_mean(
            strong[:, 0],
            joint.scores[:, 0],
            judged,
            weight=joint.weight,
            earlier=joint.earlier,
            regressed=joint.regressed,
        ).interval
        assert interval.low is not None and interval.high is not None
        hits += interval.low - 1e-12 <= relevant <= interval.high + 1e-12
    return hits / draws


def test_intervals_hold_the_mean_of_a_few_draws() -> None:
    assert coverage(225, 15, 90, 0.88, 5, 0.4, 120) > 0.92


@pytest.mark.slow
@pytest.mark.parametrize(("total", "n", "n_cheap"), [(60, 15, 30), (225, 15, 225), (225, 22, 90), (500, 45, 200)])
@pytest.mark.parametrize(("depth", "relevant"), [(1, 0.5), (1, 0.05), (5, 0.4), (5, 0.06)])
@pytest.mark.parametrize("agreement", [0.6, 0.88, 0.97])
def test_intervals_hold_the_mean(
    total: int, n: int, n_cheap: int, depth: int, relevant: float, agreement: float
) -> None:
    # 0.93 and more, but for the error of 500 draws
    assert coverage(total, n, n_cheap, agreement, depth, relevant, 500) > 0.91
