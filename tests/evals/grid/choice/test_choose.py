"""A choice from scores: records, edges, reasons, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.errors import ExperimentError
from evals.grid.choice import Cells, Choice, ObjectiveScores, choose, explain
from evals.stats import intervals as stats

Floats = NDArray[np.float64]


def scores_of(values: object, objective: str = "ranking/ndcg_at_10") -> ObjectiveScores:
    array = np.asarray(values, dtype=float)
    return ObjectiveScores(objective=objective, values=array, strata=np.zeros(len(array), dtype=np.int64))


def cells_of(cost: object, allowed: object = None, threshold: object = None) -> Cells:
    costs = np.asarray(cost, dtype=float)
    permitted = np.ones(len(costs), dtype=np.bool_) if allowed is None else np.asarray(allowed, dtype=np.bool_)
    thresholds = np.zeros(len(costs)) if threshold is None else np.asarray(threshold, dtype=float)
    labels = tuple(f"top_k {number + 1}" for number in range(len(costs)))
    return Cells(labels=labels, cost=costs, threshold=thresholds, allowed=permitted)


def chosen(
    values: object, cost: object, *, allowed: object = None, threshold: object = None, margin: float = 0.02
) -> Choice:
    return choose(scores_of(values), cells_of(cost, allowed, threshold), margin=margin, seed=1, resamples=500)


def graded(queries: int, cells: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(queries, 1)) + 0.3 * rng.normal(size=(queries, cells))
    return np.asarray(np.clip(0.5 + 0.2 * latent, 0, 1))


BASE = graded(1_000, 1)[:, 0]
NEARLY = np.where(np.arange(1_000) % 200 == 0, BASE - 0.2, BASE)
"""Behind by 0.2 on five queries of a thousand."""


class TestTheRecord:
    VALUES = np.column_stack([BASE - 0.3, NEARLY, BASE, BASE])
    CHOICE = chosen(VALUES, [100, 200, 900, 400])

    def test_cells_with_the_same_scores_are_one_called_by_the_cheapest(self) -> None:
        best = self.CHOICE.best
        assert (best.cell, best.members, best.label, best.cost) == (3, (3, 2), "top_k 4", 400)

    def test_standings_are_in_the_order_of_their_value(self) -> None:
        assert [standing.cell for standing in self.CHOICE.standings] == [3, 1, 0]
        assert self.CHOICE.standings[0] is self.CHOICE.best
        assert [s.difference for s in self.CHOICE.standings] == pytest.approx([0, -0.001, -0.3])

    def test_values_and_intervals_are_those_of_the_cell_alone(self) -> None:
        for standing in self.CHOICE.standings:
            column = self.VALUES[:, standing.cell]
            assert standing.value == pytest.approx(column.mean())
            alone = stats.mean_interval(np.clip(column, 0, 1).tolist())
            assert standing.interval.low == pytest.approx(alone.low)

    def test_the_set_holds_what_may_be_the_best_and_not_what_cannot_be(self) -> None:
        assert [standing.cell for standing in self.CHOICE.best_set] == [3, 1]

    def test_the_cheapest_cell_proved_within_the_margin_is_recommended(self) -> None:
        assert self.CHOICE.recommended.cell == 1
        assert self.CHOICE.proved
        assert self.CHOICE.queries_needed is None
        lower = self.CHOICE.recommended.lower
        assert lower is not None and -0.02 <= lower < -0.001
        assert self.CHOICE.reason == (
            "it costs 200 context tokens instead of 400 and is proved not worse than the best cell by more than 0.02 "
            f"(at most {-lower:.3f}, 95%)"
        )

    def test_counts(self) -> None:
        assert (self.CHOICE.n, self.CHOICE.n_cells, self.CHOICE.n_allowed, self.CHOICE.dropped) == (1_000, 4, 4, 0)

    def test_same_seed_same_choice_whatever_the_order_of_the_cells(self) -> None:
        order = [2, 0, 3, 1]
        other = chosen(self.VALUES[:, order], np.array([100, 200, 900, 400])[order])
        assert chosen(self.VALUES, [100, 200, 900, 400]) == self.CHOICE
        assert [order[standing.cell] for standing in other.standings] == [3, 1, 0]
        assert [s.lower for s in other.standings] == pytest.approx([s.lower for s in self.CHOICE.standings])


class TestReasons:
    def test_a_wider_margin_lets_a_cheaper_cell_pass(self) -> None:
        values = np.column_stack([BASE - 0.03, BASE])
        assert chosen(values, [1, 2], margin=0.02).recommended.cell == 1
        assert chosen(values, [1, 2], margin=0.05).recommended.cell == 0

    def test_too_few_queries_say_how_many_it_would_take(self) -> None:
        found = chosen(np.column_stack([NEARLY, BASE])[:60], [1, 2])
        assert (found.recommended.cell, found.proved) == (1, False)
        assert found.queries_needed is not None and 100 < found.queries_needed < 1_000
        said = re.fullmatch(
            r"it is the best as measured \(at most (0\.\d+) behind the truly best, 95%\); 60 queries are not enough to "
            r"prefer a cheaper one, about (\d+) would be",
            found.reason,
        )
        assert said
        assert float(said[1]) == pytest.approx(-(found.best.lower or 0.0), abs=0.0005)
        assert found.queries_needed <= int(said[2]) < 1.1 * found.queries_needed + 1

    def test_cheaper_cells_that_are_worse_leave_the_best(self) -> None:
        found = chosen(np.column_stack([BASE - 0.05, BASE]), [1, 2])
        assert (found.recommended.cell, found.queries_needed) == (1, None)
        assert found.reason == (
            "it is the best as measured (no cell is truly better, 95%), and every cheaper cell is behind it by 0.02 or "
            "more"
        )

    def test_no_cheaper_cell_leaves_the_best(self) -> None:
        found = chosen(np.column_stack([BASE, NEARLY]), [1, 2])
        assert (found.recommended.cell, found.proved, found.queries_needed) == (0, True, None)
        assert (
            found.reason == "it is the best as measured (at most 0.002 behind the truly best, 95%), and none is cheaper"
        )

    def test_equal_scores_of_few_queries_are_not_equality(self) -> None:
        few = np.column_stack([BASE - 0.4, BASE, BASE])[:40]
        found = chosen(few, [1, 2, 3])
        assert (found.best.members, found.proved) == ((1, 2), False)
        assert found.reason.endswith(
            "; 2 cells scored the same so far, which more queries may tell apart; "
            "of these it has the least strict threshold, then the lowest cost"
        )
        assert chosen(np.column_stack([BASE - 0.4, BASE, BASE]), [1, 2, 3]).proved

    def test_of_cells_with_equal_means_the_cheapest_is_the_best(self) -> None:
        turned = np.concatenate([BASE[500:], BASE[:500]])
        assert chosen(np.column_stack([BASE, turned]), [2, 1]).best.cell == 1

    def test_a_threshold_that_changed_no_score_is_not_preferred_for_the_little_it_saves(self) -> None:
        found = chosen(np.column_stack([BASE, BASE, BASE]), [98, 100, 300], threshold=[0.5, 0.3, 0.3])
        assert found.recommended.members == (1, 2, 0)
        assert found.recommended.cost == 100

    def test_nor_is_one_that_only_turned_scores_about(self) -> None:
        turned = np.concatenate([BASE[500:], BASE[:500]])
        found = chosen(np.column_stack([BASE, turned]), [2, 1], threshold=[0.0, 0.4])
        assert [standing.cell for standing in found.standings] == [0, 1]


class TestEdges:
    def test_one_query_is_not_computable(self) -> None:
        found = chosen([[0.2, 0.9, 0.9]], [1, 3, 2])
        assert (found.best.cell, found.best.members, found.recommended.cell) == (2, (2, 1), 2)
        assert found.note == "not computable: 1 query is too few, 10 are needed"
        assert found.reason.endswith(
            "whether a cheaper one is as good is not computable: 1 query is too few, 10 are needed"
        )
        assert len(found.best_set) == 2
        assert {(s.lower, s.interval.low) for s in found.standings} == {(None, None)}
        assert (found.proved, found.queries_needed) == (False, None)

    @pytest.mark.parametrize("queries", [2, 9])
    def test_nor_are_nine(self, queries: int) -> None:
        assert chosen(graded(queries, 3), [1, 2, 3]).note.startswith(f"not computable: {queries} queries are too few")

    def test_ten_are(self) -> None:
        assert chosen(graded(10, 3), [1, 2, 3]).note == ""

    @pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
    def test_all_scores_equal(self, value: float) -> None:
        found = chosen(np.full((40, 3), value), [3, 1, 2])
        assert (found.best.members, found.best.in_set) == ((1, 2, 0), True)
        assert found.reason == (
            "all 3 cells scored the same on every query, and of these it has the least strict threshold, then the "
            "lowest cost"
        )
        assert (found.queries_needed, found.recommended.cell) == (None, 1)

    def test_all_cells_identical(self) -> None:
        found = chosen(np.repeat(BASE[:, None], 5, axis=1), [5, 4, 3, 2, 1])
        assert len(found.standings) == 1
        assert found.recommended.members == (4, 3, 2, 1, 0)

    def test_one_cell(self) -> None:
        found = chosen(BASE[:, None], [7])
        assert (found.recommended.cell, found.proved, found.best.lower) == (0, True, 0.0)
        assert found.reason == "it is the only cell"

    def test_binary_scores_of_which_one_differs(self) -> None:
        values = np.ones((40, 2))
        values[3, 0] = 0
        found = chosen(values, [1, 2])
        assert found.recommended.cell == 1
        assert len(found.best_set) == 2

    def test_unbounded_scores(self) -> None:
        tokens = -100 * graded(200, 3)
        scores = replace(scores_of(tokens), kind="amount", span=None)
        found = choose(scores, cells_of([1, 2, 3]), margin=30.0, resamples=300)
        assert found.recommended.cell == 0
        assert found.best.interval.high is not None and found.best.interval.high < 0

    def test_cells_that_break_a_constraint_are_out(self) -> None:
        values = np.column_stack([BASE - 0.3, BASE, NEARLY])
        found = chosen(values, [1, 2, 3], allowed=[True, False, True])
        assert (found.best.cell, found.n_allowed, found.n_cells) == (2, 2, 3)
        assert {standing.cell for standing in found.standings} == {0, 2}

    @given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 8), st.sampled_from(["graded", "few", "binary"]))
    def test_always_names_a_cell_and_a_reason(self, seed: int, queries: int, cells: int, kind: str) -> None:
        values = graded(queries, cells, seed)
        values = {"graded": values, "few": np.round(values, 1), "binary": np.round(values)}[kind]
        cost = np.random.default_rng(seed).integers(1, 4, cells)
        found = chosen(values, cost)
        assert found.recommended in found.standings and found.best in found.best_set
        assert found.recommended.cost <= found.best.cost
        assert sorted(m for s in found.standings for m in s.members) == list(range(cells))
        assert all(s.value <= found.best.value + 1e-9 for s in found.standings)
        assert found.recommended is found.best or found.proved
        assert found.reason and len(explain(found)) == 3


class TestRefused:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_scores_that_are_no_numbers(self, value: float) -> None:
        values = graded(12, 3)
        values[4, 2] = value
        with pytest.raises(ExperimentError, match=rf"got {value} for query 4 in cell 'top_k 3'; leave out queries"):
            chosen(values, [1, 2, 3])

    def test_costs_that_are_no_numbers(self) -> None:
        with pytest.raises(ExperimentError, match="expected finite costs, got nan"):
            chosen(graded(12, 2), [1, float("nan")])

    def test_scores_of_other_cells(self) -> None:
        with pytest.raises(
            ExperimentError, match=r"expected scores of 12 queries in 3 cells .*, got \(12, 2\), \(3,\)"
        ):
            chosen(graded(12, 2), [1, 2, 3])

    def test_no_queries_or_no_allowed_cell(self) -> None:
        with pytest.raises(ExperimentError, match="at least one query and one allowed cell"):
            chosen(np.empty((0, 2)), [1, 2])
        with pytest.raises(ExperimentError, match="at least one query and one allowed cell"):
            chosen(graded(12, 2), [1, 2], allowed=[False, False])

    @pytest.mark.parametrize("margin", [-0.1, float("nan")])
    def test_a_margin_below_0(self, margin: float) -> None:
        with pytest.raises(ExperimentError, match=rf"objective.margin: expected 0 or more, got {margin}"):
            chosen(graded(12, 2), [1, 2], margin=margin)
