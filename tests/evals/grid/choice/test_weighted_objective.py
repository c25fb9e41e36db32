"""Weighted sums of metrics, query by query."""

from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.errors import ExperimentError
from evals.grid.choice import QueryScores, combine
from evals.metrics.declaration import Kind

NAN = float("nan")
RNG = np.random.default_rng(4)
INSIDE = tuple(f"in{number}" for number in range(30))
OUTSIDE = tuple(f"out{number}" for number in range(12))


def scores(ids: tuple[str, ...], values: object, kind: Kind = "mean") -> QueryScores:
    return QueryScores(query_ids=ids, values=np.asarray(values, dtype=float), kind=kind)


NDCG = scores(INSIDE, RNG.random((30, 4)))
RECALL = scores(INSIDE, RNG.random((30, 4)))
ABSTENTION = scores(OUTSIDE, RNG.integers(0, 2, (12, 4)), "proportion")
TOKENS = scores((*INSIDE, *OUTSIDE), 500 * RNG.random((42, 4)), "amount")
KNOWN = {"ranking/ndcg_at_10": NDCG, "ranking/recall_at_5": RECALL, "scope/abstention": ABSTENTION, "cost/t": TOKENS}


def test_one_metric_is_itself() -> None:
    made = combine({"ranking/ndcg_at_10": 1.0}, KNOWN)
    assert (made.values == NDCG.values).all()
    assert (made.objective, made.kind, made.dropped) == ("ranking/ndcg_at_10", "mean", 0)
    assert (made.floor, made.ceiling, made.span) == (0, 1, 1)
    assert set(made.strata.tolist()) == {0}


def test_weights_over_the_same_queries_are_summed_query_by_query() -> None:
    made = combine({"ranking/recall_at_5": 0.7, "ranking/ndcg_at_10": 0.3}, KNOWN)
    assert made.values == pytest.approx(0.7 * RECALL.values + 0.3 * NDCG.values)
    assert made.objective == "0.7 ranking/recall_at_5 + 0.3 ranking/ndcg_at_10"
    assert (made.floor, made.ceiling, made.span) == pytest.approx((0, 1, 1))


def test_a_metric_to_lower_has_a_negative_weight() -> None:
    made = combine({"scope/abstention": -2.0}, KNOWN)
    assert (made.values == -2 * ABSTENTION.values).all()
    assert (made.objective, made.kind) == ("− 2 scope/abstention", "proportion")
    assert (made.floor, made.ceiling, made.span) == (-2, 0, 2)


@pytest.mark.parametrize(
    "weights",
    [
        {"ranking/ndcg_at_10": 1.0, "scope/abstention": 0.5},
        {"scope/abstention": 0.2, "ranking/recall_at_5": 0.7, "ranking/ndcg_at_10": -0.1},
        {"ranking/ndcg_at_10": 1.0, "cost/t": -0.001, "scope/abstention": 0.4},
    ],
)
def test_over_different_queries_the_mean_is_the_weighted_sum_of_the_means(weights: dict[str, float]) -> None:
    made = combine(weights, KNOWN)
    expected = sum(weight * KNOWN[metric].values.mean(axis=0) for metric, weight in weights.items())
    assert made.values.mean(axis=0) == pytest.approx(expected)
    assert len(made.values) == 42
    assert np.unique(made.strata, return_counts=True)[1].tolist() in ([12, 30], [30, 12])


def test_values_stay_between_floor_and_ceiling_and_differ_by_no_more_than_the_span() -> None:
    """42 queries: of the 30 in scope each counts 42/30, of the 12 out of scope each −0.5 · 42/12."""
    made = combine({"ranking/ndcg_at_10": 1.0, "scope/abstention": -0.5}, KNOWN)
    assert (made.floor, made.ceiling, made.span) == pytest.approx((-1.75, 1.4, 1.75))
    assert made.floor <= made.values.min() and made.values.max() <= made.ceiling
    assert made.span is not None
    assert np.ptp(made.values, axis=1).max() <= made.span


def test_an_amount_has_no_span() -> None:
    made = combine({"cost/t": -1.0}, KNOWN)
    assert (made.kind, made.span, made.objective) == ("amount", None, "− cost/t")


def test_few_queries_of_a_kind_go_with_the_others() -> None:
    few = scores(OUTSIDE[:4], RNG.random((4, 4)))
    made = combine({"a": 1.0, "b": 1.0}, {"a": NDCG, "b": few})
    assert len(set(made.strata.tolist())) == 1
    assert made.values.mean(axis=0) == pytest.approx(NDCG.values.mean(axis=0) + few.values.mean(axis=0))


def test_a_query_that_only_some_cells_score_is_dropped_and_counted() -> None:
    values = NDCG.values.copy()
    values[3, 1] = NAN
    made = combine({"m": 1.0}, {"m": scores(INSIDE, values)})
    assert made.dropped == 1
    assert made.values == pytest.approx(np.delete(values, 3, axis=0))


def test_a_query_that_no_cell_scores_is_not_of_the_metric() -> None:
    values = NDCG.values.copy()
    values[3:9] = NAN
    made = combine({"m": 1.0}, {"m": scores(INSIDE, values)})
    assert (made.dropped, len(made.values)) == (0, 24)


def test_a_query_dropped_by_one_metric_is_dropped_by_all() -> None:
    values = NDCG.values.copy()
    values[0, 0] = NAN
    made = combine({"m": 1.0, "r": 1.0}, {"m": scores(INSIDE, values), "r": RECALL})
    assert made.values.mean(axis=0) == pytest.approx(values[1:].mean(axis=0) + RECALL.values[1:].mean(axis=0))


def test_above_5_percent_dropped_cells_are_not_compared() -> None:
    values = NDCG.values.copy()
    values[:2, 0] = NAN
    with pytest.raises(ExperimentError, match="m scores 2 of 30 queries in some cells and not in all, over 5%"):
        combine({"m": 1.0}, {"m": scores(INSIDE, values)})


def test_without_a_scored_query_there_is_no_objective() -> None:
    with pytest.raises(ExperimentError, match="no query is scored in all cells by m"):
        combine({"m": 1.0}, {"m": scores(("a",), [[NAN, NAN]])})


def test_an_unknown_metric_is_named_with_the_nearest() -> None:
    with pytest.raises(ExperimentError, match="no scores of 'ranking/ndcg_at_5'; did you mean 'ranking/ndcg_at_10'"):
        combine({"ranking/ndcg_at_5": 1.0}, KNOWN)


@given(st.lists(st.floats(-3, 3).filter(lambda w: abs(w) > 1e-3), min_size=4, max_size=4))
def test_any_weights_give_the_weighted_sum_of_the_means(chosen: list[float]) -> None:
    weights = dict(zip(KNOWN, chosen, strict=True))
    made = combine(weights, KNOWN)
    for cell in range(4):
        expected = sum(w * fmean(KNOWN[m].values[:, cell]) for m, w in weights.items())
        assert made.values[:, cell].mean() == pytest.approx(expected, abs=1e-9)
