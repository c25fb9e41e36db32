"""The choice of a cell, from scores and from a grid: by hand, by brute force, and what is said of it."""

from dataclasses import replace
from functools import partial
from math import inf, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm, t
from syrupy.assertion import SnapshotAssertion

from evals.grid import choice as grid_choice
from evals.grid.choice import Cells, Choice, ObjectiveScores, combine
from evals.metrics.declaration import SHARE
from evals.stats import intervals as stats

Floats = NDArray[np.float64]
NAN = float("nan")
choose = partial(grid_choice.choose, margin=0.02, seed=0, proof=None)
explain = partial(grid_choice.explain, proof=None)
reason = partial(grid_choice.reason, proof=None)


def shares(values: object, **others: object) -> ObjectiveScores:
    array = np.asarray(values, dtype=float)
    n = len(array)
    made = ObjectiveScores(values=array, strata=np.zeros(n, dtype=np.int64), bounds=(np.zeros(n), np.ones(n)))
    return replace(made, **others)  # type: ignore[arg-type]


def cells(cost: object, *, allowed: object = True, threshold: object = 0.0) -> Cells:
    costs = np.asarray(cost, dtype=float)
    return Cells(
        cost=costs,
        threshold=np.broadcast_to(np.asarray(threshold, dtype=float), costs.shape),
        allowed=np.broadcast_to(np.asarray(allowed, dtype=np.bool_), costs.shape),
    )


def chosen(values: object, cost: object, *, margin: float = 0.02, **others: object) -> Choice:
    return choose(shares(values), cells(cost, **others), margin=margin, seed=1)


def graded(queries: int, count: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(queries, 1)) + 0.3 * rng.normal(size=(queries, count))
    return np.asarray(np.clip(0.5 + 0.2 * latent, 0, 1))


def unseen(differences: Floats, loss: float, quantile: float) -> float:
    more = np.append(differences, [-loss] * 2)
    return float(more.mean() - quantile * more.std() / sqrt(len(more) - 1))


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
    assert found.may_be_best == [3, 2, 1]
    assert found.recommended.cell == 1 and found.recommended.is_within(found.margin)
    assert -0.02 <= (found.recommended.lower or -1) < -0.001
    assert found.n == 1_000
    for standing in found.standings:
        alone = stats.mean_interval(values[:, standing.cell].tolist(), shares=True)
        assert (standing.interval.low, standing.interval.high) == pytest.approx((alone.low, alone.high))
    assert {standing.cell for standing in chosen(values, cost, allowed=[True, True, False, False]).standings} == {0, 1}
    order = [2, 0, 3, 1]
    assert [order[standing.cell] for standing in chosen(values[:, order], np.array(cost)[order]).standings] == [3, 1, 0]
    assert chosen(values, cost) == found


@pytest.mark.parametrize(
    ("count", "seed", "binary"), [(2, 0, False), (5, 1, False), (12, 2, False), (12, 3, True), (30, 4, False)]
)
def test_the_set_is_that_of_a_plain_step_down_with_a_loss_not_seen(count: int, seed: int, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    values = graded(60, count, seed) - np.linspace(0, 0.25, count)
    values = np.clip(np.round(values) if binary else values, 0, 1)
    deviations = rng.multivariate_normal(np.zeros(count), np.cov(values.T, ddof=0), size=40_000)
    left, sure = list(range(count)), []
    while True:
        out = []
        for i in left:
            leads = [(r, values[:, r] - values[:, i]) for r in left if r != i]
            spread = {r: d.std() for r, d in leads}
            largest = np.max([(deviations[:, r] - deviations[:, i]) / spread[r] for r, _ in leads if spread[r]], axis=0)
            quantile = t.isf(norm.sf(np.quantile(largest, 0.95)), 59)
            sure.append(max(unseen(difference, 1.0, quantile) for _, difference in leads))
            out += [i] if sure[-1] > 0 else []
        left = [i for i in left if i not in out]
        if not out or len(left) == 1:
            break
    found = {*chosen(values, np.arange(count)).may_be_best}
    assert len(found ^ set(left)) <= sum(abs(lead) < 0.002 for lead in sure)


def test_of_cheaper_cells_within_the_margin_the_cheapest_is_recommended_and_of_these_the_best() -> None:
    worse = np.where(np.arange(1_000) % 100 == 0, BASE - 0.2, BASE)
    values = np.column_stack([worse, NEARLY, BASE, BASE - 0.3])
    assert chosen(values, [1, 1, 2, 0]).recommended.cell == 1
    assert chosen(values, [1, 1.5, 2, 0]).recommended.cell == 0
    assert chosen(values, [1, 1.5, 2, 0], margin=0.005).recommended.cell == 1
    assert chosen(values, [2, 2, 2, 2]).recommended.cell == 2
    exactly = chosen(np.tile([0.25, 0.5], (60, 1)), [1, 2], margin=0.25)
    assert "every cheaper cell is behind it by 0.25 or more" in reason(exactly)


def test_a_threshold_that_is_good_for_nothing_seen_is_not_taken_for_the_tokens_it_saves() -> None:
    values, cost = np.column_stack([BASE, NEARLY]), [900, 855]
    strict = cells(cost, threshold=[0, 0.3])
    assert choose(shares(values), strict).recommended.cell == 1
    found = choose(shares(values), replace(strict, strict_is_good=False))
    assert found.recommended.cell == 0 and "what a stricter threshold saves is no reason" in reason(found)
    assert choose(shares(values), replace(cells(cost), strict_is_good=False)).recommended.cell == 1
    few = choose(shares(values), cells([900, 860]))
    assert few.recommended.cell == 0 and reason(few).endswith("none saves 5% of its tokens")


def test_who_may_be_the_best_for_users_is_taken_as_given() -> None:
    values = np.column_stack([BASE - 0.3, NEARLY, BASE])
    proof: Any = SimpleNamespace(
        users=np.array([True, False, True]), chosen=2, within=np.array([0.01, np.nan, 0.0]), margin=0.02
    )
    found = choose(shares(values), cells([1, 2, 3]), proof=proof)
    assert found.may_be_best == [2, 0]
    assert (choose(shares(values), cells([1, 2, 3])).recommended.cell, found.recommended.cell) == (1, 2)
    assert reason(found, proof=proof).endswith("; no cheaper one is proved within the margin on these queries")
    proof.within[1] = 0.02
    assert choose(shares(values), cells([1, 2, 3]), proof=proof).recommended.cell == 1
    proof.chosen = 1
    nearly = choose(shares(values), cells([1, 2, 3]), proof=proof)
    assert nearly.best.cell == 1 and "of those proved within the margin" in reason(replace(nearly, judged=60))
    assert "of those" not in reason(replace(found, judged=60))


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 8), st.sampled_from([9, 1, 0]))
def test_it_always_names_a_cell_and_a_reason(seed: int, queries: int, count: int, digits: int) -> None:
    found = chosen(np.round(graded(queries, count, seed), digits), np.random.default_rng(seed).integers(1, 4, count))
    assert found.recommended in found.standings and found.best.cell in found.may_be_best
    assert found.recommended.cost <= found.best.cost
    assert sorted(m for s in found.standings for m in s.members) == list(range(count))
    assert all(s.value <= found.best.value + 1e-9 for s in found.standings)
    assert found.recommended is found.best or found.recommended.is_within(found.margin)
    assert {standing.lower is None for standing in found.standings} == {queries < 10}
    assert reason(found) and f"Reason: {reason(found)}" in explain(found, str, is_set_told=False)


TWICE = np.column_stack([BASE, BASE, BASE - 0.3])


def test_what_is_said_of_these_queries_and_of_all_that_users_may_ask(snapshot: SnapshotAssertion) -> None:
    two = np.column_stack([NEARLY, BASE])
    judged = shares(TWICE, judged=80)
    found = {
        "too few to prefer a cheaper one": choose(shares(two[:60]), cells([1, 2])),
        "cheaper ones are behind": choose(shares(np.column_stack([BASE - 0.05, BASE])), cells([1, 2])),
        "none is cheaper": choose(shares(two[:, ::-1]), cells([1, 2])),
        "judged": choose(shares(two[:, ::-1], judged=80), cells([1, 2])),
        "the same scores": choose(shares(TWICE), cells([1, 1, 1])),
        "nine queries": choose(shares(graded(9, 2)), cells([1, 2])),
        "no bounds": choose(shares(np.ones((40, 2)), bounds=None), cells([1, 1])),
        "a cheaper one": chosen(np.column_stack([BASE - 0.3, NEARLY, BASE]), [100, 200, 9_000]),
        "corrected": choose(judged, cells([1, 1, 1], allowed=[True, True, False])),
    }
    told = {name: [*explain(one, "cell {}".format, is_set_told=False)] for name, one in found.items()}
    assert told == snapshot
    assert len([*explain(found["a cheaper one"], str, is_set_told=True)]) < len(told["a cheaper one"])


RNG = np.random.default_rng(4)
INSIDE = np.arange(42)[:, None] < 30
KNOWN: dict[str, Floats] = {
    "ndcg": np.where(INSIDE, RNG.random((42, 4)), NAN),
    "recall": np.where(INSIDE, RNG.random((42, 4)), NAN),
    "abstention": np.where(INSIDE, NAN, RNG.integers(0, 2, (42, 4))),
    "tokens": 500 * RNG.random((42, 4)),
}


@given(st.lists(st.floats(-3, 3).filter(lambda w: abs(w) > 1e-3), min_size=4, max_size=4))
def test_the_mean_of_a_column_is_the_weighted_sum_of_the_means_within_their_bounds(chosen: list[float]) -> None:
    weights = dict(zip(KNOWN, chosen, strict=True))
    made = combine(weights, KNOWN, ())
    assert made.values.mean(axis=0) == pytest.approx(sum(w * np.nanmean(KNOWN[m], axis=0) for m, w in weights.items()))
    assert sorted(np.unique(made.strata, return_counts=True)[1].tolist()) == [12, 30]
    assert made.bounds is None and made.span == pytest.approx(np.ptp(made.values, axis=1).max())
    least, most = np.zeros(42), np.zeros(42)
    for metric, weight in weights.items():
        scored, highest = ~np.isnan(KNOWN[metric][:, 0]), KNOWN["tokens"].max() if metric == "tokens" else 1
        least += min(weight, 0) * highest * scored * 42 / scored.sum()
        most += max(weight, 0) * highest * scored * 42 / scored.sum()
    bounded = combine(weights, KNOWN, [SHARE, SHARE, SHARE, (0, inf)])
    assert bounded.bounds is not None
    assert np.array(bounded.bounds) == pytest.approx(np.array([least, most]))


def test_a_rare_query_decides_though_tokens_have_a_price() -> None:
    rng, tokens = np.random.default_rng(3), np.tile([21.0, 42.0], (40, 1))
    for _ in range(100):
        found = np.ones((40, 2)) - (rng.random((40, 1)) < 0.03) * [1.0, 0.0]
        made = combine({"found": 1, "tokens": -0.0005}, {"found": found, "tokens": tokens}, [SHARE, (0, inf)])
        assert 1 in choose(made, cells([21, 42])).may_be_best


def test_the_interval_of_a_sum_over_strata_adds_theirs_in_squares() -> None:
    found = choose(combine({"ndcg": 0.8, "abstention": 0.2}, KNOWN, [SHARE, SHARE]), cells([1, 2, 3, 4]))
    for standing in found.standings:
        down = up = 0.0
        for weight, table in ((0.8, KNOWN["ndcg"]), (0.2, KNOWN["abstention"])):
            column = table[:, standing.cell]
            own = stats.mean_interval(column[~np.isnan(column)].tolist(), shares=True)
            mean = float(np.nanmean(column))
            down += (weight * (mean - (own.low or 0))) ** 2
            up += (weight * ((own.high or 0) - mean)) ** 2
        ends = standing.value - sqrt(down), standing.value + sqrt(up)
        assert (standing.interval.low, standing.interval.high) == pytest.approx(ends)


@pytest.mark.parametrize(("behind", "members"), [(0.45, 2), (0.6, 1)])
def test_a_loss_not_seen_is_all_of_the_kind_of_queries_that_counts_most(behind: float, members: int) -> None:
    found = np.where(np.arange(60) < 30, np.arange(60) % 2 / 2, NAN)[:, None] * np.ones(2)
    silent = np.where(np.isnan(found), [1.0, 1 - behind], NAN)
    made = combine({"found": 0.8, "silent": 0.2}, {"found": found, "silent": silent}, [SHARE, SHARE])
    assert len(choose(made, cells([1, 2])).may_be_best) == members


def test_a_query_that_only_some_cells_score_is_dropped_by_all_metrics() -> None:
    holed = KNOWN["ndcg"].copy()
    holed[3, 1] = NAN
    made = combine({"holed": 1.0, "recall": 1.0}, {"holed": holed, "recall": KNOWN["recall"]}, [SHARE, SHARE])
    assert made.values == pytest.approx(np.delete((holed + KNOWN["recall"])[:30], 3, axis=0))
