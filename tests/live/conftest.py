"""A real Qdrant server, named by QDRANT_TEST_URL, with its key in QDRANT_TEST_API_KEY.

The tests make a few collections with names of their own and remove them. Run them before a release.
"""

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from retrievers.config import RetrieverConfig
from retrievers.net import retry
from tests.support.collections import index_pages, settings, write_pages

URL = os.environ.get("QDRANT_TEST_URL", "")
KEY = os.environ.get("QDRANT_TEST_API_KEY", "")
ENV = {"QDRANT_API_KEY": KEY} if KEY else {}


@pytest.fixture(autouse=True)
def no_waiting() -> None:
    """Waits are real, unlike in other tests."""
    assert vars(retry)["time"] is time


@pytest.fixture(scope="session")
def plain() -> Iterator[QdrantClient]:
    """A client by which tests arrange the server."""
    if not URL:
        pytest.skip("QDRANT_TEST_URL names no Qdrant server")
    client = QdrantClient(url=URL, api_key=KEY or None, port=None, check_compatibility=False, timeout=60)
    yield client
    client.close()


@pytest.fixture(scope="session")
def store(plain: QdrantClient) -> dict[str, Any]:
    """The server as a setting."""
    return {"url": URL}


@pytest.fixture(scope="session")
def config(
    store: dict[str, Any], plain: QdrantClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RetrieverConfig]:
    """Settings for a collection of the pages, indexed as a user would; it goes when the tests are over."""
    made = settings(store=store, collection=f"retrieval-evals-live-{uuid.uuid4().hex}", candidates=8, threshold=0)
    try:
        index_pages(made, write_pages(tmp_path_factory.mktemp("pages")), ENV)
        yield made
    finally:
        plain.delete_collection(made.collection)


@pytest.fixture
def copy(config: RetrieverConfig, plain: QdrantClient) -> Iterator[RetrieverConfig]:
    """The same in three shards; to be changed."""
    name = f"{config.collection}-copy"
    known = plain.get_collection(config.collection).config
    plain.create_collection(
        name,
        vectors_config=known.params.vectors,
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        shard_number=3,
        metadata=known.metadata,
    )
    try:
        records, _ = plain.scroll(config.collection, limit=100, with_vectors=True)
        points: Any = [models.PointStruct(id=one.id, vector=one.vector, payload=one.payload) for one in records]
        plain.upsert(name, points)
        yield config.model_copy(update={"collection": name})
    finally:
        plain.delete_collection(name)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    """The same pages in an embedded store."""
    folder: Path = tmp_path_factory.mktemp("embedded")
    made = settings(store={"path": str(folder / "store")}, collection="pages", candidates=8, threshold=0)
    index_pages(made, write_pages(folder / "pages"))
    return made
