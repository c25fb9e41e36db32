from collections.abc import Iterator

import pytest

from retrievers.config import RetrieverConfig
from tests.support.collections import indexed
from tests.support.qdrant_server import QdrantServer


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    """An embedded store that holds the pages; to be read only."""
    return indexed(tmp_path_factory.mktemp("connection"))
