"""What a choice promises, in 300 draws of 40, 80 and 225 queries from populations whose truth is known.

docs/choice.md has the table, beside those of other methods.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import beta

from evals.grid.choice import Choice, ObjectiveScores, choose
from tests.support.populations import POPULATIONS, Population, population
from tests.support.step_down import step_down

DRAWS = 300
MARGIN = 0.02
RESAMPLES = 400


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One choice against the truth.

    Attributes:
        kept: Whether a truly best cell is in the set.
        bounded: Whether every cell is truly at least as good as its lower bound says.
        preferred: Whether a cheaper cell than the best is recommended.
        loss: How much worse than the truly best cell the recommended one truly is.
        stated: How much worse it may be, as the recommendation says.
    """

    kept: bool
    bounded: bool
    preferred: bool
    loss: float
    stated: float


def draw(known: Population, n: int, seed: int) -> Draw:
    """Choose by n queries."""
    values = known.draw(n, np.random.default_rng([n, seed]))
    scores = ObjectiveScores(objective="", values=values, strata=np.zeros(n, dtype=np.int64))
    return judged(choose(scores, known.cells, margin=MARGIN, seed=seed, resamples=RESAMPLES), known)


def judged(choice: Choice, known: Population) -> Draw:
    """A choice against the truth."""
    behind, best = known.truth - known.truth.max(), set(known.best.tolist())
    bounds = ((place, standing.lower) for standing in choice.standings for place in standing.members)
    return Draw(
        kept=any(best.intersection(standing.members) for standing in choice.best_set),
        bounded=all(lower is not None and lower <= behind[place] + 1e-9 for place, lower in bounds),
        preferred=choice.recommended is not choice.best,
        loss=-float(behind[choice.recommended.cell]),
        stated=-(choice.recommended.lower or 0.0),
    )


def at_least(count: int, of: int) -> float:
    """Lower 99% bound of a probability, by Clopper and Pearson."""
    return float(beta.ppf(0.01, count, of - count + 1)) if count else 0.0


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 80, 225])
@pytest.mark.parametrize("name", POPULATIONS)
def test_the_set_keeps_the_best_and_the_recommendation_loses_no_more_than_it_says(name: str, n: int) -> None:
    known = population(name)
    draws = [draw(known, n, seed) for seed in range(DRAWS)]
    assert at_least(sum(d.kept for d in draws), DRAWS) >= 0.94
    assert sum(d.preferred and d.loss > MARGIN for d in draws) <= 0.05 * DRAWS
    assert sum(d.loss > d.stated + 1e-9 for d in draws) <= 0.05 * DRAWS
    assert sum(d.bounded for d in draws) >= 0.92 * DRAWS
    if n == 225:  # the best as measured is then not far from the truly best either
        assert sum(d.loss > MARGIN for d in draws) <= 0.05 * DRAWS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nDCG@10, sparse", "0.7 recall + 0.3 precision", "small gains, rare losses"])
def test_225_queries_are_often_enough_to_prefer_a_cheaper_cell(name: str) -> None:
    draws = [draw(population(name), 225, seed) for seed in range(100)]
    assert sum(d.preferred for d in draws) >= 25


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("nDCG@10", 0.25), ("0.7 recall + 0.3 precision", 0.2), ("hits", 0.3)])
def test_the_set_is_small_where_cells_differ(name: str, most: float) -> None:
    """At 225 queries, as a share of the 80 cells."""
    known, sizes = population(name), []
    for seed in range(50):
        values = known.draw(225, np.random.default_rng(seed))
        scores = ObjectiveScores(objective="", values=values, strata=np.zeros(225, dtype=np.int64))
        chosen = choose(scores, known.cells, seed=seed, resamples=RESAMPLES)
        sizes.append(sum(len(standing.members) for standing in chosen.best_set))
    assert np.mean(sizes) <= most * 80


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nDCG@10, sparse", "hits", "0.5 recall + 0.5 precision", "five equal best of 60"])
def test_the_set_is_as_sharp_as_step_down_where_losses_are_not_rare(name: str) -> None:
    """At 80 queries, against plain step-down max-T: at most 1.3 times as large."""
    known, sizes = population(name), []
    for seed in range(40):
        rng = np.random.default_rng([80, seed])
        values = known.draw(80, rng)
        scores = ObjectiveScores(objective="", values=values, strata=np.zeros(80, dtype=np.int64))
        found = choose(scores, known.cells, seed=seed, resamples=RESAMPLES).best_set
        sizes.append([sum(len(standing.members) for standing in found), step_down(values, RESAMPLES, rng).sum()])
    ours, plain = np.mean(sizes, axis=0)
    assert ours <= 1.3 * plain
