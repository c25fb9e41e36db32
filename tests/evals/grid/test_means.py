from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from evals.collect.observations import Failure, Score, Unscored
from evals.grid.cells import CellSummaries, SelectionScores
from evals.grid.means import Scored, summarise_cells
from evals.grid.selections import Found, Selections, select_all
from evals.metrics.base import summarise
from evals.stats import intervals as stats

EMPTY, BROKEN = Unscored(reason="nothing was returned"), Failure(type="Timeout", message="too late")


def selections(queries: int, top_ks: list[int], thresholds: list[float]) -> Selections:
    rng = np.random.default_rng(0)
    return select_all(Found(scores=-np.sort(-rng.random((queries, 6)), axis=1)), thresholds, top_ks)


def figures(parts: list[SelectionScores], known: list[Selections], rows: list[int]) -> CellSummaries:
    scored = {"m": Scored(parts=tuple(partial(replace, part) for part in parts), rows=np.asarray(rows, dtype=np.int64))}
    return summarise_cells(scored, known)["m"]


@pytest.mark.parametrize("queries", [1, 2, 9, 130, 1000])
def test_a_mean_is_that_of_a_single_run_to_the_last_bit(queries: int) -> None:
    known = selections(queries, [1, 2, 6], [0.0, 0.4, 0.9])
    values = np.random.default_rng(1).random(known.count) ** 3
    rows = list(range(0, queries, 2))
    found = figures([SelectionScores(values=values)], [known], rows)
    for cell in range(known.cells):
        alone: list[Score] = values[known.of_cell(cell)][rows].tolist()
        summary = summarise("m", alone, "amount")
        assert (found.mean[cell], found.n[cell]) == (summary.value, summary.n)
        assert found.mean[cell] == stats.total([float(v) for v in alone if isinstance(v, float)]) / len(rows)
    assert np.array_equal(found.common, found.mean)
    assert (found.n_common, found.n_dropped) == (len(rows), 0)


def with_issues(known: Selections, lengths: dict[int, int]) -> SelectionScores:
    """Scores by length of the selection; `lengths` says which issue a length has."""
    values = np.arange(known.count, dtype=float) % known.width
    issue = np.full(known.count, -1, dtype=np.int32)
    for length, number in lengths.items():
        issue[values == length] = number
    values[issue >= 0] = np.nan
    return SelectionScores(values=values, issue=issue, issues=(EMPTY, BROKEN))


def test_cells_count_what_they_lack_and_are_compared_on_what_all_have() -> None:
    """Three queries reach 3, 1 and 0 chunks at 0.5; nothing has no score, and three chunks fail."""
    scores = np.array([[0.9, 0.8, 0.7], [0.6, 0.2, 0.1], [0.4, 0.3, 0.2]])
    known = select_all(Found(scores=scores), [0.0, 0.5], [1, 3])
    found = figures([with_issues(known, {0: 0, 3: 1})], [known], [0, 1, 2])
    assert found.n.tolist() == [3, 0, 2, 1]
    assert found.n_unscored.tolist() == [0, 0, 1, 1]
    assert found.n_failed.tolist() == [0, 3, 0, 1]
    assert found.mean.tolist() == pytest.approx([1.0, np.nan, 1.0, 1.0], nan_ok=True)
    assert (found.n_common, found.n_dropped) == (0, 3)
    assert np.isnan(found.common).all()


def test_a_query_that_no_cell_can_score_is_not_dropped() -> None:
    scores = np.array([[0.9, 0.8], [0.7, 0.6]])
    known = select_all(Found(scores=scores), [0.0], [1, 2])
    issue = np.where(known.query.repeat(known.width) == 1, 0, -1).astype(np.int32)
    values = np.where(issue < 0, 0.5, np.nan)
    found = figures([SelectionScores(values=values, issue=issue, issues=(EMPTY,))], [known], [0, 1])
    assert (found.n_common, found.n_dropped) == (1, 0)
    assert found.common.tolist() == [0.5, 0.5]
    failed = figures([SelectionScores(values=values, issue=issue, issues=(BROKEN,))], [known], [0, 1])
    assert (failed.n_common, failed.n_dropped) == (1, 1)


def test_what_one_configuration_lacks_is_left_out_of_all() -> None:
    one, other = selections(4, [1, 2], [0.0]), selections(4, [1, 2], [0.0])
    whole = SelectionScores(values=np.tile([0.0, 1.0, 2.0] + [3.0] * (one.width - 3), 4))
    gaps = SelectionScores(
        values=np.where(other.query.repeat(other.width) == 2, np.nan, whole.values),
        issue=np.where(other.query.repeat(other.width) == 2, 0, -1).astype(np.int32),
        issues=(EMPTY,),
    )
    found = figures([whole, gaps], [one, other], [0, 1, 2, 3])
    assert found.n.tolist() == [4, 4, 3, 3]
    assert (found.n_common, found.n_dropped) == (3, 1)
    assert found.common.tolist() == [1.0, 2.0, 1.0, 2.0]


def test_a_metric_over_no_query_has_no_value() -> None:
    found = figures(
        [SelectionScores(values=np.zeros(selections(2, [1], [0.0]).count))], [selections(2, [1], [0.0])], []
    )
    assert np.isnan(found.mean).all()
    assert (found.n.tolist(), found.n_common) == ([0], 0)
