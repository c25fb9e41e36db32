"""The choice of a cell without a judge: set of best cells, simultaneous bounds, recommended cell."""

import numpy as np
import pytest

from tests.numbers import worlds
from tests.numbers.worlds import MADE, Counts, Scorer, World, chosen, cranfield, draws, needs_cranfield, scoped

pytestmark = pytest.mark.slow
MARGIN = 0.02


@pytest.mark.parametrize("setting", [*MADE, "two scopes"])
@pytest.mark.parametrize("n", [40, 225])
def test_choice_on_made_queries(setting: str, n: int) -> None:
    simulate(setting, MADE[setting](0.93) if setting in MADE else scoped(), n)


@needs_cranfield
@pytest.mark.parametrize("scorer", [worlds.average_precision, worlds.hit, worlds.three])
@pytest.mark.parametrize("n", [40, 225])
def test_choice_on_cranfield(scorer: Scorer, n: int) -> None:
    simulate(f"Cranfield, {scorer.__name__}", cranfield(scorer, 0.93), n)


def simulate(setting: str, world: World, n: int) -> None:
    """Choose by draws of n queries, and hold what is said against the population."""
    counts, number, behind = Counts(f"{setting}, n {n}"), draws(2_000), world.truth - world.truth.max()
    kept = failed = preferred = wrong = 0
    sizes = []
    for seed in range(number):
        choice = chosen(world, world.draw(n, seed), margin=MARGIN, seed=seed)
        kept += bool((choice.members & world.best).any())
        failed += bool((choice.lower > behind + 1e-9).any())
        preferred += choice.proved
        wrong += bool(choice.proved and behind[choice.recommended] < -MARGIN)
        sizes.append(choice.members.mean())
    counts.at_least("the set keeps the best cell", kept, number, 0.95)
    counts.at_most("some cell's bound fails", failed, number, 0.05)
    counts.at_most("the cell proved within the margin is not", wrong, number, 0.05)
    counts.told("a cell is proved within the margin", preferred / number)
    counts.told("share of the cells in the set", float(np.mean(sizes)))
    counts.check()
