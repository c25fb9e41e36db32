"""The choice of a cell without a judge: set of best cells, simultaneous bounds, recommended cell."""

import pytest

from tests.numbers.worlds import WORLDS, choices_hold, draws, needs_cranfield

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=needs_cranfield) if "Cranfield" in name else name for name in WORLDS]
)
@pytest.mark.parametrize("n", [40, 225])
def test_choice(setting: str, n: int) -> None:
    choices_hold(WORLDS[setting](0.93), f"{setting}, n {n}", n, draws(2_000), margin=0.02)
