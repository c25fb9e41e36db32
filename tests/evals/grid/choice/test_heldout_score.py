"""The chosen cell on queries that had no part in the choice."""

from dataclasses import replace

import numpy as np
import pytest

from evals.errors import ExperimentError
from evals.grid.choice import ObjectiveScores, choose, held_out
from evals.stats import intervals as stats
from tests.support.populations import population

KNOWN = population("60 near ties")
CELLS = replace(KNOWN.cells, labels=tuple(f"c{n}" for n in range(60)))


def drawn(n: int, rng: np.random.Generator, objective: str = "m") -> ObjectiveScores:
    return ObjectiveScores(objective=objective, values=KNOWN.draw(n, rng), strata=np.zeros(n, dtype=np.int64))


def test_is_the_recommended_cells_mean_with_its_interval() -> None:
    rng = np.random.default_rng(0)
    choice, test = choose(drawn(80, rng), CELLS, resamples=300), drawn(60, rng)
    found = held_out(choice, test)
    column = test.values[:, choice.recommended.cell]
    assert (found.label, found.n) == (choice.recommended.label, 60)
    assert found.value == pytest.approx(column.mean())
    assert found.interval == stats.mean_interval(column.tolist())
    assert found.chosen_on == choice.recommended.value
    assert found.optimism == pytest.approx(found.chosen_on - found.value)


@pytest.mark.slow
def test_choosing_flatters_and_held_out_queries_do_not() -> None:
    """Over 200 choices among near ties: the value chosen on is above the truth, the held-out one is not."""
    rng = np.random.default_rng(1)
    flattery, honesty = [], []
    for _ in range(200):
        choice = choose(drawn(40, rng), CELLS, resamples=50)
        found, truth = held_out(choice, drawn(40, rng)), KNOWN.truth[choice.recommended.cell]
        flattery.append(found.chosen_on - truth)
        honesty.append(found.value - truth)
    assert np.mean(flattery) > 3 * np.std(flattery) / np.sqrt(200)
    assert abs(np.mean(honesty)) < 3 * np.std(honesty) / np.sqrt(200)


def test_one_held_out_query_has_no_interval() -> None:
    rng = np.random.default_rng(0)
    found = held_out(choose(drawn(40, rng), CELLS, resamples=50), drawn(1, rng))
    assert found.interval.low is None or found.value in (0.0, 1.0)
    assert found.n == 1


def test_scores_of_another_objective_or_grid_are_refused() -> None:
    rng = np.random.default_rng(0)
    choice = choose(drawn(40, rng), CELLS, resamples=50)
    with pytest.raises(ExperimentError, match="expected held-out scores of 'm' in 60 cells, got 40 queries of 'other'"):
        held_out(choice, drawn(40, rng, "other"))
    fewer = ObjectiveScores(objective="m", values=np.ones((3, 5)), strata=np.zeros(3, dtype=np.int64))
    with pytest.raises(ExperimentError, match="in 60 cells, got 3 queries of 'm' in 5"):
        held_out(choice, fewer)
