"""The small world of these tests, indexed once, and what runs over it."""

import pytest

from tests.support.cohere_server import KEY
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import Bench, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def bench(world: Experiment) -> Bench:
    return Bench(settings(world), {"COHERE_API_KEY": KEY})
