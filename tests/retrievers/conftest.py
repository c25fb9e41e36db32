from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient

from tests.support.qdrant_server import QdrantServer


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture
def memory() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    yield client
    client.close()
