"""Cohen's kappa against scikit-learn, its interval against a bootstrap of the verdicts themselves and by simulation."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import bootstrap
from sklearn.metrics import cohen_kappa_score

from evals.judge.estimates import Floats, estimate_kappa, kappa_interval, kappa_of
from evals.stats import intervals as stats
from evals.stats.intervals import Interval, wilson

PAIRS = ((1, 1), (1, 0), (0, 1), (0, 0))


def table(rng: np.random.Generator, queries: int, base: float, hit: float, false: float, correlation: float) -> Floats:
    """Verdicts on 2 to 8 chunks of each query, whose rates vary from query to query around the given ones."""

    def rates(mean: float) -> Floats:
        scale = (1 - correlation) / correlation
        return rng.beta(mean * scale, (1 - mean) * scale, queries)

    relevant = rng.binomial(rng.integers(2, 9, queries), rates(base))
    others = rng.integers(2, 9, queries)
    found, over = rng.binomial(relevant, rates(hit)), rng.binomial(others, rates(false))
    return np.stack([found, over, relevant - found, others - over], axis=1).astype(float)


TABLE = table(np.random.default_rng(2), 40, 0.5, 0.85, 0.1, 0.2)
NOT_FAILED = np.zeros((40, 2))


def rows(counts: Floats) -> NDArray[Any]:
    """One (verdict, label) a verdict."""
    return np.array([pair for pair, count in zip(PAIRS, counts, strict=True) for _ in range(int(count))])


def test_of_many_tables_at_once() -> None:
    assert kappa_of(TABLE[None, :, :]).shape == (1, 40)
    assert kappa_of(np.array([[7.0, 0, 0, 0], [0, 0, 0, 7.0], [3, 0, 0, 4]])).tolist() == [0, 0, 1]


def test_an_estimate_is_over_all_verdicts_of_all_queries() -> None:
    found = estimate_kappa(TABLE, NOT_FAILED, 0)
    assert found.value == kappa_of(TABLE.sum(axis=0))
    assert (found.n, found.n_queries, found.n_failed, found.note) == (TABLE.sum(), 40, 0, "")


def test_the_interval_is_scipys_bca_of_the_verdicts_of_drawn_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle lays out each drawn query's verdicts and asks scikit-learn, 199 times, with the same draws."""
    monkeypatch.setattr(stats, "RESAMPLES", 199)
    verdicts = [rows(counts) for counts in TABLE]

    def drawn(picks: NDArray[np.int_]) -> float:
        return float(cohen_kappa_score(*np.concatenate([verdicts[query] for query in picks]).T))

    found = bootstrap((np.arange(40),), drawn, n_resamples=199, vectorized=False, rng=np.random.default_rng(5))
    ours = kappa_interval(TABLE, 5)
    assert (ours.low, ours.high) == pytest.approx(tuple(found.confidence_interval), abs=1e-12)


def test_repeating_every_verdict_tells_nothing_new() -> None:
    once, often = kappa_interval(TABLE, 0), kappa_interval(TABLE * 10, 0)
    assert (often.low, often.high) == pytest.approx((once.low, once.high), abs=1e-12)


@pytest.mark.parametrize(("column", "label"), [(0, 1), (2, 1), (1, 0), (3, 0)])
def test_labels_of_one_kind_have_no_kappa(column: int, label: int) -> None:
    counts = np.zeros((12, 4))
    counts[:, column] = 3
    found = estimate_kappa(counts, np.zeros((12, 2)), 0)
    assert (found.value, found.interval, found.note) == (None, Interval(), f"undefined: all labels are {label}")
    mixed = counts.copy()
    mixed[0, {0: 2, 2: 0, 1: 3, 3: 1}[column]] = 1  # the judge does say both
    assert estimate_kappa(mixed, np.zeros((12, 2)), 0).note == f"undefined: all labels are {label}"


def test_no_verdict_has_no_kappa() -> None:
    for empty in (np.zeros((0, 4)), np.zeros((3, 4))):
        found = estimate_kappa(empty, np.ones((len(empty), 2)), 0)
        assert (found.value, found.n, found.n_queries) == (None, 0, 0)
        assert found.note == "no verdict on a labelled chunk"
        assert (found.bound_low, found.bound_high) == (None, None)


@pytest.mark.parametrize("says", [0, 1])
def test_a_judge_that_always_says_the_same_agrees_no_better_than_chance(says: int) -> None:
    counts = np.tile([2.0, 3.0, 0.0, 0.0] if says else [0.0, 0.0, 2.0, 3.0], (20, 1))
    found = estimate_kappa(counts, np.zeros((20, 2)), 0)
    assert found.value == 0
    assert found.interval.low is None
    assert found.interval.note == "not computable: kappa is the same whichever queries are drawn"


def test_queries_that_are_all_alike_leave_no_interval() -> None:
    found = estimate_kappa(np.tile([2.0, 1.0, 1.0, 3.0], (20, 1)), np.zeros((20, 2)), 0)
    assert found.value == pytest.approx(5 / 12)
    assert found.interval.note == "not computable: kappa is the same whichever queries are drawn"


def test_full_agreement_has_an_interval_from_wilsons() -> None:
    """2 and 3 of 5 on 20 queries: chance 0.52, worth 20 trials, Wilson's low end 1 / (1 + z²/20) = 0.8389."""
    counts = np.tile([2.0, 0.0, 0.0, 3.0], (20, 1))
    found = estimate_kappa(counts, np.zeros((20, 2)), 0)
    low = 1 / (1 + stats.Z**2 / 20)
    assert found.value == 1
    assert wilson(20, 20).low == pytest.approx(low, abs=1e-12)
    assert found.interval.low == pytest.approx((low - 0.52) / 0.48, abs=1e-12)
    assert found.interval.high == 1


def test_a_label_in_few_queries_leaves_no_interval() -> None:
    counts = np.tile([0.0, 1.0, 0.0, 4.0], (30, 1))
    counts[:9] = [1, 0, 1, 3]
    found = estimate_kappa(counts, np.zeros((30, 2)), 0)
    assert found.value is not None
    assert found.interval.note == "not computable: chunks labelled 1 in only 9 queries, 10 are needed"
    counts[9] = counts[0]
    assert estimate_kappa(counts, np.zeros((30, 2)), 0).interval.low is not None


def test_failures_leave_bounds_open() -> None:
    """As above 20, 5, 10, 15; two with label 1 and one with label 0 failed."""
    counts = np.array([[20.0, 5.0, 10.0, 15.0]])
    found = estimate_kappa(counts, np.array([[2.0, 1.0]]), 0)
    assert found.n_failed == 3
    assert found.bound_low == kappa_of(np.array([20.0, 6.0, 12.0, 15.0]))
    assert found.bound_high == kappa_of(np.array([22.0, 5.0, 10.0, 16.0]))


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "least"), [(30, 0.91), (66, 0.915), (225, 0.92)])
@pytest.mark.parametrize("correlation", [0.1, 0.3])
def test_covers_the_true_kappa_of_correlated_verdicts(
    queries: int, least: float, correlation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 600 samples (999 resamples each) 93.2% to 95.2% were measured to hold it."""
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    rng = np.random.default_rng(queries)
    true = float(kappa_of(table(rng, 400_000, 0.3, 0.85, 0.1, correlation).sum(axis=0)))
    found = [kappa_interval(table(rng, queries, 0.3, 0.85, 0.1, correlation), seed) for seed in range(600)]
    covered = np.mean([i.low <= true <= i.high for i in found])  # type: ignore[operator]
    assert least <= covered <= 0.98
