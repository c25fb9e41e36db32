from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient

from tests.support.clock import Clock
from tests.support.qdrant_server import QdrantServer


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().rules(monkeypatch)


@pytest.fixture
def memory() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    yield client
    client.close()
