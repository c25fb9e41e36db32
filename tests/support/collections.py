"""Collections for tests: pages indexed as a user would, foreign ones point by point, embeddings out of a table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal

from retrievers.config import IndexSettings, RetrieverConfig, StoreConfig
from retrievers.embedding.models import make_embeddings
from retrievers.indexing.index import index_corpus
from retrievers.indexing.pages import read_corpus
from retrievers.store.embedded import EmbeddedClient
from retrievers.store.opening import embedded_folder, open_client
from tests.support.indexing import read_texts, write_pages


def mark(store: StoreConfig, name: str, **manifest: Any) -> None:
    for file in embedded_folder(store).glob(f"collections/{name}/collection.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        record["info"]["config"]["metadata"]["retrieval_evals"] |= manifest
        file.write_text(json.dumps(record), encoding="utf-8")


PAGES = read_texts(Path(__file__).parent / "pages" / "ros2")
"""Three pages, eight sections; the sections "See also" hold the same text."""


def settings(**values: Any) -> RetrieverConfig:
    return RetrieverConfig.model_validate(values)


def index_pages(config: RetrieverConfig, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Index a folder as `python -m retrievers index --context none` does: chunks are embedded as they stand."""
    env = env or {}
    plain = IndexSettings(context="none")
    with closing(open_client(config.store, env, create=True)) as client:
        index_corpus(client, config, make_embeddings(config.embedding, env), read_corpus(folder), plain)


def indexed(folder: Path, **values: Any) -> RetrieverConfig:
    config = settings(**{"store": {"path": str(folder / "store")}, "collection": "pages", **values})
    index_pages(config, write_pages(folder / "pages", PAGES))
    return config


IDF = models.SparseVectorParams(modifier=models.Modifier.IDF)


def fill(
    client: QdrantClient | EmbeddedClient,
    name: str,
    vectors: Sequence[Any],
    payloads: Sequence[Mapping[str, Any]],
    *,
    params: Any = None,
    sparse: Mapping[str, models.SparseVectorParams] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Make a collection as another program would; ids count from 0, and vectors are of the first one's size."""
    params = params or models.VectorParams(size=len(vectors[0]), distance=models.Distance.COSINE)
    numbered = enumerate(zip(vectors, payloads, strict=True))
    points = [models.PointStruct(id=number, vector=one, payload=dict(payload)) for number, (one, payload) in numbered]
    if isinstance(client, EmbeddedClient):
        with client.building(name, vectors=params, sparse=sparse, metadata=metadata) as upsert:
            upsert(points)
        return
    client.create_collection(name, params, sparse, metadata=dict(metadata) if metadata else None)
    if points:
        client.upsert(name, points)
    widen(client, name)


def widen(client: QdrantClient, name: str) -> None:
    """Keep the vectors of an in-memory collection in float64: normalised anew at every search, float32 would move."""
    local = getattr(client, "_client", None)
    if not isinstance(local, QdrantLocal):
        return
    vectors = local.collections[name].vectors
    vectors |= {key: value.astype(np.float64) for key, value in vectors.items()}


@contextmanager
def embedded(folder: Path) -> Iterator[Any]:
    with closing(open_client(StoreConfig(path=folder), {}, create=True)) as client:
        yield client


class TableEmbeddings(Embeddings):
    """A user's own model: every text has its vector in a table."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self.table = table

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(self.table[text]) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return list(self.table[text])
