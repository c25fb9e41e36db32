"""What several tests of reports are made from."""

import pytest

from evals.grid.measure import Measured, Swept
from tests.support.grids import make_grid


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Treated as read-only."""
    constraints = {"scope/false_abstention": "<= 0.5"}
    return make_grid(tmp_path_factory.mktemp("grid"), objective={"constraints": constraints})


@pytest.fixture(scope="session")
def swept(grid: Measured) -> Swept:
    assert grid.swept is not None
    return grid.swept
