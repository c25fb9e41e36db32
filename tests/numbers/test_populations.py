"""What a choice promises of all that users may ask, on populations whose truth is known. Every estimate is printed.

A setting fails where the one-sided 99% limit (Clopper & Pearson) of its estimate is on the wrong side of what is said.
"""

import sys

import numpy as np
import pytest
from scipy.stats import beta

from evals.grid.choice import ObjectiveScores, choose
from tests.support.populations import POPULATIONS, population

DRAWS = 150
MARGIN = 0.02


def at_most(count: int) -> float:
    """Upper 99% limit of a probability that was seen `count` times."""
    return float(beta.ppf(0.99, count + 1, DRAWS - count)) if count < DRAWS else 1.0


def at_least(count: int) -> float:
    """Lower 99% limit."""
    return 1 - at_most(DRAWS - count)


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 225])
@pytest.mark.parametrize("name", POPULATIONS)
def test_the_set_keeps_the_best_and_every_bound_holds(name: str, n: int) -> None:
    known = population(name)
    behind, best = known.truth - known.truth.max(), set(known.best.tolist())
    kept = failed = preferred = wrong = cells = 0
    for seed in range(DRAWS):
        values = known.draw(n, np.random.default_rng([n, seed]))
        bounds = np.zeros(n), np.ones(n)
        scores = ObjectiveScores(values=values, strata=np.zeros(n, dtype=np.int64), bounds=bounds)
        choice = choose(scores, known.cells, margin=MARGIN, seed=seed)
        members = {cell for standing in choice.best_set for cell in standing.members}
        kept += bool(best & members)
        cells += len(members)
        lower = [(cell, standing.lower or 0.0) for standing in choice.standings for cell in standing.members]
        failed += any(bound > behind[cell] + 1e-9 for cell, bound in lower)
        preferred += choice.recommended is not choice.best
        wrong += choice.recommended is not choice.best and behind[choice.recommended.cell] < -MARGIN
    sys.stdout.write(
        f"{name}, n {n}: the best kept {kept / DRAWS:.3f}, a bound fails {failed / DRAWS:.3f}, a cheaper one preferred "
        f"{preferred / DRAWS:.3f}, wrongly {wrong / DRAWS:.3f}, set {cells / DRAWS / len(behind):.3f} of the cells\n"
    )
    assert at_most(kept) >= 0.95
    assert at_least(failed) <= 0.05
    assert at_least(wrong) <= 0.05
