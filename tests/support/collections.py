"""Collections for tests: pages indexed as a user would, foreign ones point by point, embeddings out of a table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal

from retrievers.config import EmbeddingConfig, IndexSettings, RetrieverConfig, StoreConfig
from retrievers.embedding.models import make_embeddings
from retrievers.indexing.index import IndexOptions, index_corpus
from retrievers.indexing.pages import read_corpus
from retrievers.store import open_client
from tests.support.writable import writable

PAGES = {
    "ros2/topics.md": """---
title: Topics
sidebar_position: 1
tags: [ros2, topics]
---
A topic is a named bus over which nodes stream messages to any number of listeners.

## Publishing

A publisher sends messages at its own pace and does not know who listens.

## Rates

Measure how often messages arrive with the hz verb.

## See also

Read the glossary for the words used here.
""",
    "ros2/services.md": """---
title: Services
sidebar_position: 2
---
A service answers one request of one client and then is done.

## Calling

A client waits for the answer or goes on and collects it later.

## See also

Read the glossary for the words used here.
""",
    "motion/imu.md": """---
title: Inertial Sensors
---
An IMU measures acceleration and angular velocity; integrating both drifts within seconds.

## See also

Read the glossary for the words used here.
""",
}
"""Three pages, eight sections; the sections "See also" hold the same text."""
REPEATED = "glossary words used here"


def settings(**values: Any) -> RetrieverConfig:
    """Return retriever settings from nested plain values, as in a file."""
    return RetrieverConfig.model_validate(values)


def write_pages(folder: Path, pages: Mapping[str, str] = PAGES) -> Path:
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def index_pages(config: RetrieverConfig, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Index a folder as `python -m retrievers index --context none` does: chunks are embedded as they stand."""
    env = env or {}
    options = IndexOptions(settings=IndexSettings(context="none"))
    client = open_client(config.store, env, create=True)
    try:
        index_corpus(client, config, make_embeddings(config.embedding, env), read_corpus(folder), options)
    finally:
        client.close()


def indexed(folder: Path, **values: Any) -> RetrieverConfig:
    """Return settings of a new embedded store below `folder` that holds `PAGES`."""
    config = settings(**{"store": {"path": str(folder / "store")}, "collection": "pages", **values})
    index_pages(config, write_pages(folder / "pages"))
    return config


def fill(
    client: QdrantClient,
    name: str,
    vectors: Sequence[Any],
    payloads: Sequence[Mapping[str, Any]],
    *,
    params: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Make a collection as somebody else's program would; point ids count from 0."""
    size = models.VectorParams(size=len(vectors[0]), distance=models.Distance.COSINE) if params is None else params
    client.create_collection(name, vectors_config=size, metadata=dict(metadata) if metadata else None)
    points = [
        models.PointStruct(id=number, vector=vector, payload=dict(payload))
        for number, (vector, payload) in enumerate(zip(vectors, payloads, strict=True))
    ]
    if points:
        client.upsert(name, points)
    widen(client, name)


def widen(client: QdrantClient, name: str) -> None:
    """Keep the vectors of an in-memory collection in float64, as those read from a folder are.

    The in-memory client holds them in float32 and normalises them anew at every search, which moves a score by a unit
    in the last place from one search to the next; a server computes on vectors that stay as they are.
    """
    local = getattr(client, "_client", None)
    if not isinstance(local, QdrantLocal):
        return
    vectors = local.collections[name].vectors
    vectors |= {key: value.astype(np.float64) for key, value in vectors.items()}


def hosted_embeddings(config: EmbeddingConfig, env: Mapping[str, str]) -> Embeddings:
    """Return the model of the settings, whose key is in the environment."""
    return make_embeddings(config, env)


@contextmanager
def embedded(folder: Path) -> Iterator[QdrantClient]:
    """Yield a plain client of an embedded store; its data must be read by a client opened later."""
    client = writable(StoreConfig(path=folder))
    try:
        yield client
    finally:
        client.close()


class TableEmbeddings(Embeddings):
    """A user's own model: every text has its vector in a table."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self.table = table

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(self.table[text]) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return list(self.table[text])
