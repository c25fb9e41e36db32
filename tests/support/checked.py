"""Collections whose checks are to pass or fail, and the vectors of their texts."""

from typing import Any

from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.store import CollectionInfo, check_collection, describe, open_client
from tests.support.collections import settings
from tests.support.qdrant_server import QdrantServer

TABLE = {"a": [1.0, 0.0, 0.0], "b": [0.6, 0.8, 0.0], "c": [0.0, 0.6, 0.8], "d": [0.0, 0.0, 1.0]}
OTHER = {text: vector[::-1] for text, vector in TABLE.items()}


def at(server: QdrantServer, **values: Any) -> RetrieverConfig:
    """Return the settings of the collection `mine` on a server, which a model of the user's own embedded."""
    own = {"provider": "python", "model": "mine:make"}
    return settings(**{"store": {"url": server.url}, "collection": "mine", "embedding": own, **values})


def described(config: RetrieverConfig) -> CollectionInfo:
    """Return the properties of a collection."""
    client = open_client(config.store, {})
    try:
        return describe(client, config)
    finally:
        client.close()


def check(config: RetrieverConfig, embeddings: Embeddings) -> None:
    """Check a collection, of which nothing more is asked."""
    accepted(config, embeddings)


def accepted(config: RetrieverConfig, embeddings: Embeddings) -> CollectionInfo:
    """Return the properties of a collection that passed its checks."""
    client = open_client(config.store, {})
    try:
        info = describe(client, config)
        check_collection(client, config, embeddings, info)
        return info
    finally:
        client.close()


def texts(*names: str) -> list[dict[str, str]]:
    """Return payloads that hold these texts."""
    return [{"page_content": name} for name in names]
