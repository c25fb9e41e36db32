"""Intervals of many cells are those of each alone."""

import numpy as np
import pytest

from evals.collect.observations import Score, Unscored
from evals.grid.choice import ObjectiveScores, QueryScores, column_intervals, combine
from evals.grid.choice.column_intervals import objective_intervals
from evals.metrics.declaration import Kind, summarise
from evals.stats import intervals as stats

RNG = np.random.default_rng(6)
SHARES = np.where(RNG.random((30, 7)) < 0.5, 0.0, RNG.random((30, 7)))
HOLES = np.where(RNG.random((30, 7)) < 0.3, np.nan, SHARES)
BINARY = (SHARES > 0.3).astype(float)
ONE = np.zeros(30, dtype=np.int64)


def alone(column: np.ndarray, kind: Kind) -> list[float]:
    """The ends that a run of that cell alone has."""
    values: list[Score] = [Unscored(reason="") if np.isnan(v) else float(v) for v in column]
    found = summarise("m", values, kind)
    return [np.nan if end is None else end for end in (found.ci_low, found.ci_high)]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (SHARES, "mean"),
        (HOLES, "mean"),
        (BINARY, "proportion"),
        (np.where(np.isnan(HOLES), np.nan, BINARY), "proportion"),
        (300 * SHARES, "amount"),
        (300 * HOLES, "amount"),
        (np.zeros((30, 2)), "mean"),
        (np.zeros((30, 2)), "amount"),
        (np.ones((3, 2)), "proportion"),
        (SHARES[:5], "mean"),
        (np.full((4, 2), np.nan), "mean"),
        (np.full((4, 2), np.nan), "proportion"),
    ],
)
def test_every_column_has_the_interval_of_a_run_of_its_own(values: np.ndarray, kind: Kind) -> None:
    low, high = column_intervals(values, kind)
    for column in range(values.shape[1]):
        assert [low[column], high[column]] == pytest.approx(alone(values[:, column], kind), nan_ok=True)


def ends(intervals: list[stats.Interval]) -> np.ndarray:
    """All lower ends, and all upper ends."""
    return np.array([[i.low for i in intervals], [i.high for i in intervals]], dtype=float)


def objective(values: np.ndarray, kind: Kind, *weights: float) -> ObjectiveScores:
    ids = tuple(map(str, range(len(values))))
    return combine({f"m{n}": w for n, w in enumerate(weights)}, {
        f"m{n}": QueryScores(query_ids=ids, values=values, kind=kind) for n in range(len(weights))
    })  # fmt: skip


@pytest.mark.parametrize(("values", "kind"), [(SHARES, "mean"), (BINARY, "proportion"), (300 * SHARES, "amount")])
def test_an_objective_of_one_metric_has_its_interval(values: np.ndarray, kind: Kind) -> None:
    made = objective_intervals(objective(values, kind, 1.0), values)
    low, high = column_intervals(values, kind)
    assert ends(made) == pytest.approx(np.array([low, high]))


@pytest.mark.parametrize(("values", "kind"), [(SHARES, "mean"), (BINARY, "proportion"), (300 * SHARES, "amount")])
def test_an_objective_to_lower_has_the_mirrored_interval(values: np.ndarray, kind: Kind) -> None:
    scores = objective(values, kind, -2.0)
    made = objective_intervals(scores, scores.values)
    low, high = column_intervals(values, kind)
    assert ends(made) == pytest.approx(np.array([-2 * high, -2 * low]))


def test_a_weighted_sum_has_the_interval_of_its_share_of_the_weights() -> None:
    scores = objective(SHARES, "mean", 1.5, 2.5)
    low, high = column_intervals(SHARES, "mean")
    made = objective_intervals(scores, scores.values)
    assert ends(made) == pytest.approx(np.array([4 * low, 4 * high]))


def test_over_strata_the_variances_of_their_means_add_up() -> None:
    strata = np.repeat([0, 1], [10, 20]).astype(np.int64)
    scores = ObjectiveScores(objective="m", values=SHARES, strata=strata)
    quantile = 2.045229642132703  # Student's t with 29 degrees of freedom
    for column, found in zip(SHARES.T, objective_intervals(scores, SHARES), strict=True):
        variance = (10 / 30) ** 2 * column[:10].var(ddof=1) / 10 + (20 / 30) ** 2 * column[10:].var(ddof=1) / 20
        half = quantile * np.sqrt(variance)
        assert (found.low, found.high) == pytest.approx((column.mean() - half, column.mean() + half))


@pytest.mark.parametrize(
    ("n", "kind", "said"),
    [(1, "mean", "1 value is too few, 10 are needed"), (30, "amount", "all values are equal")],
)
def test_says_why_there_is_none(n: int, kind: Kind, said: str) -> None:
    values = np.full((n, 7), 0.5)
    found = objective_intervals(objective(values, kind, 1.0), values)
    assert [(i.low, i.high) for i in found] == [(None, None)] * 7
    assert all(said in i.note for i in found)


def test_scores_that_are_all_0_or_1_have_wilsons() -> None:
    found = objective_intervals(objective(np.ones((30, 1)), "mean", 1.0), np.ones((30, 1)))
    assert found == [stats.wilson(30, 30)]
