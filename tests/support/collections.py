"""Collections for tests: pages indexed as a user would, foreign ones point by point, embeddings out of a table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal

from retrievers.config import IndexSettings, RetrieverConfig, StoreConfig
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionNotFoundError
from retrievers.indexing.index import index_corpus
from retrievers.indexing.pages import read_corpus
from retrievers.store.checks import check_collection
from retrievers.store.collection import CollectionInfo, describe
from retrievers.store.embedded import EmbeddedClient
from retrievers.store.opening import embedded_folder, open_client
from tests.support.indexing import read_texts
from tests.support.indexing import write_pages as write_texts
from tests.support.loopback import LoopbackServer

# An embedded store to which a test writes point by point: every write builds the collection anew


class WritableClient(EmbeddedClient):
    """The methods of QdrantClient that write, as far as tests call them."""

    def create_collection(
        self,
        collection_name: str,
        vectors_config: Any = None,
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> bool:
        with self.building(
            collection_name, vectors=vectors_config or {}, sparse=sparse_vectors_config, metadata=metadata
        ):
            return True

    def upsert(self, collection_name: str, points: Any, **_: Any) -> None:
        self._again(collection_name, added=list(points))

    def delete(self, collection_name: str, points_selector: Sequence[Any], **_: Any) -> None:
        self._again(collection_name, removed=[str(point) for point in points_selector])

    def update_collection(self, collection_name: str, metadata: Mapping[str, Any]) -> None:
        self._again(collection_name, metadata=metadata)

    def create_payload_index(self, collection_name: str, field_name: str, field_schema: Any) -> None:
        self._again(collection_name, indexes={field_name: getattr(field_schema, "value", field_schema)})

    def _again(
        self,
        name: str,
        *,
        added: Sequence[models.PointStruct] = (),
        removed: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        indexes: Mapping[str, str] | None = None,
    ) -> None:
        info = self.get_collection(name)
        dense: Any = info.config.params.vectors
        records, _ = self.scroll(name, limit=100_000, with_vectors=True)
        before = {key: index.data_type.value for key, index in info.payload_schema.items()}
        with self.building(
            name,
            vectors=dense,
            sparse=info.config.params.sparse_vectors,
            metadata={**(info.config.metadata or {}), **(metadata or {})},
            indexes={**before, **(indexes or {})},
        ) as build:
            build.upsert([_point(record, record.payload) for record in records if str(record.id) not in removed])
            build.upsert(added)


def _point(record: Any, payload: Mapping[str, Any] | None) -> models.PointStruct:
    return models.PointStruct(id=record.id, vector=record.vector, payload=dict(payload or {}))


def writable(store: StoreConfig) -> Any:
    """Open the folder of some settings to be written to, and make it where there is none."""
    return WritableClient(embedded_folder(store, create=True), create=True)


def mark(store: StoreConfig, name: str, **manifest: Any) -> None:
    with closing(writable(store)) as client, suppress(CollectionNotFoundError):
        recorded = (client.get_collection(name).config.metadata or {}).get("retrieval_evals", {})
        client.update_collection(name, metadata={"retrieval_evals": {**recorded, **manifest}})


PAGES = read_texts(Path(__file__).parent / "pages" / "ros2")
"""Three pages, eight sections; the sections "See also" hold the same text."""
REPEATED = "glossary words used here"


def settings(**values: Any) -> RetrieverConfig:
    """Return retriever settings from nested plain values, as in a file."""
    return RetrieverConfig.model_validate(values)


def write_pages(folder: Path, pages: Mapping[str, str] = PAGES) -> Path:
    return write_texts(folder, pages)


def index_pages(config: RetrieverConfig, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Index a folder as `python -m retrievers index --context none` does: chunks are embedded as they stand."""
    env = env or {}
    plain = IndexSettings(context="none")
    with closing(open_client(config.store, env, create=True)) as client:
        index_corpus(client, config, make_embeddings(config.embedding, env), read_corpus(folder), plain)


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


@contextmanager
def embedded(folder: Path) -> Iterator[QdrantClient]:
    """Yield a plain client of an embedded store; its data must be read by a client opened later."""
    with closing(writable(StoreConfig(path=folder))) as client:
        yield client


class TableEmbeddings(Embeddings):
    """A user's own model: every text has its vector in a table."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self.table = table

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(self.table[text]) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return list(self.table[text])


# Checks that are to pass or fail

TABLE = {"a": [1.0, 0.0, 0.0], "b": [0.6, 0.8, 0.0], "c": [0.0, 0.6, 0.8], "d": [0.0, 0.0, 1.0]}
OTHER = {text: vector[::-1] for text, vector in TABLE.items()}


def at(server: LoopbackServer, **values: Any) -> RetrieverConfig:
    """Return the settings of the collection `mine` on a server, which a model of the user's own embedded."""
    own = {"model": "python:mine:make"}
    return settings(**{"store": {"url": server.url}, "collection": "mine", "embedding": own, **values})


def described(config: RetrieverConfig) -> CollectionInfo:
    with closing(open_client(config.store, {})) as client:
        return describe(client, config)


def check(config: RetrieverConfig, embeddings: Embeddings) -> None:
    with closing(open_client(config.store, {})) as client:
        check_collection(client, config, embeddings, describe(client, config))


def texts(*names: str) -> list[dict[str, str]]:
    return [{"page_content": name} for name in names]
