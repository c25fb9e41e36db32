"""What tests of indexing share: small folders of pages, embeddings that count, a collection's whole content."""

import hashlib
import math
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient

from retrievers.config import RetrieverConfig

DIMENSION = 8
KILL_AT = "TEST_KILL_AT"


class HashEmbeddings(Embeddings):
    """Deterministic vectors; remembers what it embedded, and fails at a text that holds `poison`."""

    def __init__(self, dimension: int = DIMENSION, poison: str | None = None) -> None:
        self.dimension = dimension
        self.poison = poison
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.poison and any(self.poison in text for text in texts):
            raise ConnectionError("the provider went away")
        self.embedded += texts
        return [[byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[: self.dimension]] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class Interrupted(HashEmbeddings):
    """Somebody presses Ctrl-C while it embeds."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise KeyboardInterrupt


def make_embeddings() -> Embeddings:
    """Return embeddings for `embedding.provider: python`; the environment may arm the process to kill itself."""
    if KILL_AT in os.environ:
        _kill_at(os.environ[KILL_AT])
    return HashEmbeddings()


def make_other_length() -> Embeddings:
    return HashEmbeddings(dimension=DIMENSION + 1)


def make_failing() -> Embeddings:
    return HashEmbeddings(poison="text")


def make_interrupted() -> Embeddings:
    return Interrupted()


def _kill_at(call: str) -> None:
    """Kill this process when a method of the client is called the n-th time (`method:n`).

    Chunks are written two at a time, so that there is a midst to die in.
    """
    from retrievers.indexing import index
    from retrievers.store.building import Build

    index.WRITE_BATCH = 2
    method, _, at = call.partition(":")
    original: Callable[..., Any] = getattr(Build, method)
    calls = 0

    def dying(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(Build, method, dying)


def write_pages(folder: Path, sources: Mapping[str, str]) -> Path:
    """Write pages by relative path; returns the folder."""
    for name, source in sources.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8", newline="")
    return folder


def settings(store: Path | str, **changes: Any) -> RetrieverConfig:
    """Return settings for an embedded store, or a server by its address, and `make_embeddings`."""
    model = {"provider": "python", "model": "tests.support.indexing:make_embeddings"}
    place = {"path": store} if isinstance(store, Path) else {"url": store}
    return RetrieverConfig.model_validate({"store": place, "collection": "pages", "embedding": model} | changes)


def content(client: QdrantClient, name: str = "pages") -> dict[str, tuple[dict[str, Any], list[float]]]:
    """Return every point of a collection: id to payload and vector (of unit length; a reopened store gives it so)."""
    records, rest = client.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    assert rest is None
    return {str(record.id): (dict(record.payload or {}), _unit(record.vector)) for record in records}


def _unit(vector: Any) -> list[float]:
    values: list[float] = vector.get("") or next(iter(vector.values())) if isinstance(vector, dict) else vector
    length = math.sqrt(sum(value * value for value in values))
    return [round(value / length, 6) for value in values]


def manifest(client: QdrantClient, name: str = "pages") -> Any:
    """Return the record of the collection about itself."""
    return (client.get_collection(name).config.metadata or {}).get("retrieval_evals")
