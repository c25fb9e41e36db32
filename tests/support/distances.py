"""Made collections, compared by the cosine or by the product of vectors of length 1, and what brute force finds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from retrievers.store.embedded import EmbeddedClient
from tests.support.collections import TableEmbeddings, embedded
from tests.support.hybrid import fill_sparse
from tests.support.qdrant_server import QdrantServer

DISTANCES = ("cosine", "dot")
WORDS = ("arm", "battery", "camera", "drone", "encoder", "fuse", "gripper", "hinge")
COUNT, SIZE = 40, 5
RANDOM = np.random.default_rng(7)
VECTORS: NDArray[np.float64] = RANDOM.normal(size=(COUNT, SIZE)).astype(np.float32).astype(np.float64)
VECTORS[7] = VECTORS[3]  # two chunks at the same distance of everything
UNIT = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
TEXTS = tuple(
    f"chunk {number}: " + " ".join(np.random.default_rng(number).choice(WORDS, size=6)) for number in range(COUNT)
)
QUERIES = ("gripper drone", "battery of the camera", "hinge hinge fuse")
QUERY_VECTORS: NDArray[np.float64] = RANDOM.normal(size=(len(QUERIES), SIZE)).astype(np.float32).astype(np.float64)
EMBEDDINGS = TableEmbeddings(dict(zip((*TEXTS, *QUERIES), [*VECTORS.tolist(), *QUERY_VECTORS.tolist()], strict=True)))
STORES = ("edge", "server")


def chunk_id(number: int) -> str:
    return f"chunk-{number:02}"


@contextmanager
def collection(store: str, distance: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Make the collection in a store of that kind; yield the `store` settings of who reads it."""
    path = folder / distance
    if store == "server":
        with QdrantServer() as server:
            make(server.client, distance)
            yield {"url": server.url}
        return
    with embedded(path) as client:
        make(client, distance)
    yield {"path": str(path)}


def make(client: QdrantClient | EmbeddedClient, distance: str, name: str = "mine") -> None:
    vectors = UNIT if distance == "dot" else VECTORS
    rows = [(vectors[number].tolist(), text, {"chunk_id": chunk_id(number)}) for number, text in enumerate(TEXTS)]
    fill_sparse(client, name, rows, distance=models.Distance(distance.capitalize()))


def semantic(query: int) -> NDArray[np.float64]:
    vector = QUERY_VECTORS[query]
    return np.asarray(np.clip(UNIT @ vector / np.linalg.norm(vector), 0, 1), dtype=np.float64)


def ranked(scores: NDArray[np.float64], depth: int = COUNT) -> list[int]:
    return sorted(range(COUNT), key=lambda number: (round(-float(scores[number]), 5), number))[:depth]


def embeddings() -> TableEmbeddings:
    return EMBEDDINGS
