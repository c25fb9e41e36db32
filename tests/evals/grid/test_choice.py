"""The choice of a cell, from scores and from a grid: by hand, by brute force, and what is said of it."""

from dataclasses import replace
from math import sqrt
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.grid.choice import (
    Cells,
    Choice,
    ObjectiveScores,
    choose,
    combine,
    explain,
)
from evals.metrics.declaration import Context
from evals.stats import intervals as stats

Floats = NDArray[np.float64]
NAN = float("nan")
CONTEXT = Context(required=(), sources=None, relevant_texts=None, seed=3)
SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}


def shares(values: object, **others: object) -> ObjectiveScores:
    array = np.asarray(values, dtype=float)
    n = len(array)
    made = ObjectiveScores(values=array, strata=np.zeros(n, dtype=np.int64), bounds=(np.zeros(n), np.ones(n)))
    return replace(made, **others)  # type: ignore[arg-type]


def cells(cost: object, *, allowed: object = None, threshold: object = None) -> Cells:
    costs = np.asarray(cost, dtype=float)
    return Cells(
        cost=costs,
        threshold=np.zeros(len(costs)) if threshold is None else np.asarray(threshold, dtype=float),
        allowed=np.ones(len(costs), dtype=np.bool_) if allowed is None else np.asarray(allowed, dtype=np.bool_),
    )


def chosen(values: object, cost: object, *, margin: float = 0.02, **others: object) -> Choice:
    return choose(shares(values), cells(cost, **others), margin=margin, seed=1)


def graded(queries: int, count: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(queries, 1)) + 0.3 * rng.normal(size=(queries, count))
    return np.asarray(np.clip(0.5 + 0.2 * latent, 0, 1))


BASE = graded(1_000, 1)[:, 0]
# Behind by 0.2 on five queries of a thousand.
NEARLY = np.where(np.arange(1_000) % 200 == 0, BASE - 0.2, BASE)


def test_a_choice_has_its_standings_set_and_recommendation() -> None:
    values, cost = np.column_stack([0.4 * BASE, NEARLY, BASE, BASE]), [100, 200, 900, 400]
    found = chosen(values, cost)
    assert (found.best.cell, found.best.members, found.best.cost) == (3, (3, 2), 400)
    assert [standing.cell for standing in found.standings] == [3, 1, 0]
    below = [standing.value - found.best.value for standing in found.standings]
    assert below == pytest.approx([0, -0.001, -0.6 * BASE.mean()])
    assert [standing.cell for standing in found.best_set] == [3, 1]
    without = chosen(values, cost, allowed=[True, True, False, False])
    assert ({standing.cell for standing in without.standings}, without.n_cells) == ({0, 1}, 4)
    assert (found.recommended.cell, found.proved) == (1, True)
    assert -0.02 <= (found.recommended.lower or -1) < -0.001
    assert (found.n, found.n_cells, found.dropped) == (1_000, 4, 0)
    for standing in found.standings:
        alone = stats.mean_interval(values[:, standing.cell].tolist())
        assert standing.interval.low == pytest.approx(alone.low)
    order = [2, 0, 3, 1]
    other = chosen(values[:, order], np.array(cost)[order])
    assert [order[standing.cell] for standing in other.standings] == [3, 1, 0]
    assert chosen(values, cost) == found


def test_of_two_cells_the_bound_is_that_of_students_t_with_a_query_on_which_the_cheaper_loses() -> None:
    """By hand: n differences and one of −1, less Student's one-sided quantile (at least 2) times the standard error."""
    from scipy.stats import t

    values, n = np.column_stack([BASE[:200], np.clip(BASE[:200] - 0.05 * (np.arange(200) % 3 == 0), 0, 1)]), 200
    more = np.append(values[:, 1] - values[:, 0], -1.0)
    expected = more.mean() - max(2.0, t.isf(0.05, n - 1)) * more.std() / sqrt(n)
    lower = chosen(values, [2, 1]).standings[1].lower
    assert lower == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("count", "seed", "binary"), [(2, 0, False), (5, 1, False), (12, 2, False), (12, 3, True), (30, 4, False)]
)
def test_the_set_is_that_of_a_plain_step_down_with_a_loss_not_seen(count: int, seed: int, binary: bool) -> None:
    """Brute force: every pair of cells, and deviations of their means drawn from the covariance of queries."""
    from scipy.stats import norm, t

    rng = np.random.default_rng(seed)
    values = graded(60, count, seed) - np.linspace(0, 0.25, count)
    values = np.clip(np.round(values) if binary else values, 0, 1)
    n, best = 60, int(values.mean(axis=0).argmax())
    loss = values[:, best][values[:, best] > 0].mean()
    deviations = rng.multivariate_normal(np.zeros(count), np.cov(values.T, ddof=0), size=40_000)
    left, sure = list(range(count)), []
    while True:
        out = []
        for i in left:
            leads = [(r, values[:, r] - values[:, i]) for r in left if r != i]
            spread = {r: d.std() for r, d in leads}
            largest = np.max([(deviations[:, r] - deviations[:, i]) / spread[r] for r, _ in leads if spread[r]], axis=0)
            quantile = t.isf(norm.sf(np.quantile(largest, 0.95)), n - 1)
            over = []
            for _, difference in leads:
                more = np.append(difference, -loss)
                over.append(more.mean() - quantile * more.std() / sqrt(n))
            sure.append(max(over))
            out += [i] if max(over) > 0 else []
        left = [i for i in left if i not in out]
        if not out or len(left) == 1:
            break
    found = {cell for standing in chosen(values, np.arange(count)).best_set for cell in standing.members}
    near = sum(abs(lead) < 0.002 for lead in sure)
    assert len(found ^ set(left)) <= near


def test_equal_scores_of_few_queries_are_not_equality() -> None:
    few = chosen(np.column_stack([BASE - 0.4, BASE, BASE])[:40], [1, 2, 3])
    assert (few.best.members, few.proved, few.best.in_set) == ((1, 2), False, True)
    # n zeros and a query of −1, less two standard errors.
    more = np.append(np.zeros(40), -1.0)
    assert few.best.lower == pytest.approx(more.mean() - 2 * more.std() / sqrt(40))
    assert chosen(np.column_stack([BASE - 0.4, BASE, BASE]), [1, 2, 3]).proved


def test_of_equal_cells_the_least_strict_is_preferred_then_the_cheapest() -> None:
    turned = np.concatenate([BASE[500:], BASE[:500]])
    assert chosen(np.column_stack([BASE, turned]), [2, 1]).best.cell == 1
    assert chosen(np.column_stack([BASE, turned]), [2, 1], threshold=[0.0, 0.4]).best.cell == 0
    found = chosen(np.column_stack([BASE] * 3), [98, 100, 300], threshold=[0.5, 0.3, 0.3])
    assert (found.recommended.members, found.recommended.cost) == ((1, 2, 0), 100)


def test_who_may_be_the_best_for_users_is_taken_as_given() -> None:
    values = np.column_stack([BASE - 0.3, NEARLY, BASE])
    proof: Any = SimpleNamespace(
        users=np.array([True, False, True]), chosen=2, within=np.array([0.01, np.nan, 0.0]), margin=0.02
    )
    found = choose(shares(values), cells([1, 2, 3]), proof=proof)
    assert [standing.cell for standing in found.best_set] == [2, 0]
    assert (choose(shares(values), cells([1, 2, 3])).recommended.cell, found.recommended.cell) == (1, 2)


@pytest.mark.parametrize("queries", [1, 2, 9])
def test_fewer_than_ten_queries_compare_nothing(queries: int) -> None:
    found = chosen(np.hstack([graded(queries, 2), np.full((queries, 1), 0.95)]), [1, 3, 2])
    assert found.note.startswith(f"not computable: {queries} queries are too few") and found.reason.endswith(found.note)
    assert (found.best.cell, found.proved) == (2, False)
    assert len(found.best_set) == 3 and {standing.lower for standing in found.standings} == {None}
    assert explain(found, str)[1].endswith(found.note)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 8), st.sampled_from(["graded", "few", "binary"]))
def test_it_always_names_a_cell_and_a_reason(seed: int, queries: int, count: int, kind: str) -> None:
    values = graded(queries, count, seed)
    values = {"graded": values, "few": np.round(values, 1), "binary": np.round(values)}[kind]
    found = chosen(values, np.random.default_rng(seed).integers(1, 4, count))
    assert found.recommended in found.standings and found.best in found.best_set
    assert found.recommended.cost <= found.best.cost
    assert sorted(m for s in found.standings for m in s.members) == list(range(count))
    assert all(s.value <= found.best.value + 1e-9 for s in found.standings)
    assert found.recommended is found.best or found.proved
    assert found.reason and len(explain(found, str)) == 3


def test_what_is_said_keeps_these_queries_and_all_that_users_may_ask_apart() -> None:
    found = chosen(np.column_stack([BASE - 0.3, NEARLY, BASE]), [100, 200, 900])
    lower = -(found.recommended.lower or 0)
    assert f"it is 0.001 below the best, of all that users may ask at most {lower:.3f} (95%)" in explain(found, str)[2]
    for values, said in (
        (np.column_stack([NEARLY, BASE])[:60], "; 60 queries are not enough to prefer a cheaper one"),
        (np.column_stack([BASE - 0.05, BASE]), "and every cheaper cell is behind it by 0.02 or more"),
        (np.column_stack([BASE, NEARLY]), "and none is cheaper"),
    ):
        assert chosen(values, [1, 2]).reason.endswith(said)
    sampled = choose(
        shares(np.column_stack([BASE, NEARLY]), judged=80, dropped=3), cells([1, 2], allowed=[True, False])
    )
    first, second, _ = explain(sampled, str)
    assert first.endswith("(n=1000, 80 of them judged, 3 not scored in all cells)")
    assert second.startswith("Best by corrected verdicts") and "of 1 cells that meet the constraints (of 2)" in second


class TestTheObjective:
    RNG = np.random.default_rng(4)
    INSIDE = np.arange(42) < 30
    NDCG, RECALL = (np.where(np.arange(42)[:, None] < 30, RNG.random((42, 4)), NAN) for RNG in (RNG, RNG))
    ABSTENTION = np.where(np.arange(42)[:, None] < 30, NAN, RNG.integers(0, 2, (42, 4)))
    TOKENS = 500 * RNG.random((42, 4))
    KNOWN: ClassVar = {
        "n": NDCG,
        "r": RECALL,
        "a": ABSTENTION,
        "t": TOKENS,
    }

    def test_weights_over_the_same_queries_are_summed_query_by_query(self) -> None:
        made = combine({"r": 0.7, "n": 0.3}, self.KNOWN)
        assert made.values == pytest.approx((0.7 * self.RECALL + 0.3 * self.NDCG)[self.INSIDE])

    @given(st.lists(st.floats(-3, 3).filter(lambda w: abs(w) > 1e-3), min_size=4, max_size=4))
    def test_the_mean_of_a_column_is_the_weighted_sum_of_the_means(self, chosen: list[float]) -> None:
        weights = dict(zip(self.KNOWN, chosen, strict=True))
        made = combine(weights, self.KNOWN, is_bounded=False)
        expected = sum(w * np.nanmean(self.KNOWN[m], axis=0) for m, w in weights.items())
        assert made.values.mean(axis=0) == pytest.approx(expected, abs=1e-9)
        assert sorted(np.unique(made.strata, return_counts=True)[1].tolist()) == [12, 30]
        assert made.bounds is None

    def test_the_interval_of_a_sum_over_strata_adds_theirs_in_squares(self) -> None:
        made = combine({"n": 0.8, "a": 0.2}, self.KNOWN)
        found = choose(made, cells([1, 2, 3, 4]))
        for standing in found.standings:
            parts = [
                (weight, values.mean(), stats.mean_interval(values.tolist()))
                for weight, table in ((0.8, self.NDCG), (0.2, self.ABSTENTION))
                for values in [table[:, standing.cell][~np.isnan(table[:, standing.cell])]]
            ]
            down = sqrt(sum((w * (mean - (own.low or 0))) ** 2 for w, mean, own in parts))
            assert standing.interval.low == pytest.approx(standing.value - down)

    def test_a_query_that_only_some_cells_score_is_dropped_by_all_metrics(self) -> None:
        holed = self.NDCG.copy()
        holed[3, 1] = NAN
        made = combine({"h": 1.0, "r": 1.0}, {"h": holed, "r": self.KNOWN["r"]})
        assert made.dropped == 1
        assert made.values == pytest.approx(np.delete((holed + self.RECALL)[self.INSIDE], 3, axis=0))
