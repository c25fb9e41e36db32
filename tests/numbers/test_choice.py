"""The choice of a cell without a judge: set of best cells, simultaneous bounds, recommended cell."""

import numpy as np
import pytest

from tests.numbers.worlds import WORLDS, Counts, chosen, draws, needs_cranfield

pytestmark = pytest.mark.slow
MARGIN = 0.02


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=needs_cranfield) if "Cranfield" in name else name for name in WORLDS]
)
@pytest.mark.parametrize("n", [40, 225])
def test_choice(setting: str, n: int) -> None:
    counts, number, world = Counts(f"{setting}, n {n}"), draws(2_000), WORLDS[setting](0.93)
    behind = world.truth - world.truth.max()
    kept = failed = preferred = wrong = 0
    sizes = []
    for seed in range(number):
        members, lower, cell, is_proved = chosen(world, world.draw(n, seed), margin=MARGIN, seed=seed)
        kept += bool((members & world.best).any())
        failed += bool((lower > behind + 1e-9).any())
        preferred += is_proved
        wrong += bool(is_proved and behind[cell] < -MARGIN)
        sizes.append(members.mean())
    counts.at_least("the set keeps the best cell", kept, number, 0.95)
    counts.at_most("some cell's bound fails", failed, number, 0.05)
    counts.at_most("the cell proved within the margin is not", wrong, number, 0.05)
    counts.told("a cell is proved within the margin", preferred / number)
    counts.told("share of the cells in the set", float(np.mean(sizes)))
    counts.check()
