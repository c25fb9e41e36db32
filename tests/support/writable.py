"""An embedded store to which a test writes point by point: every write builds the collection anew."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from qdrant_client import models

from retrievers.config import StoreConfig
from retrievers.errors import CollectionNotFoundError
from retrievers.store import embedded_folder
from retrievers.store.embedded import EmbeddedClient


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
        points = points if isinstance(points, list) else list(points)
        self._again(collection_name, added=points)

    def delete(self, collection_name: str, points_selector: Sequence[Any], **_: Any) -> None:
        self._again(collection_name, removed=[str(point) for point in points_selector])

    def overwrite_payload(self, collection_name: str, payload: Mapping[str, Any], points: Sequence[Any]) -> None:
        records = self.retrieve(collection_name, points, with_vectors=True)
        vectors: list[Any] = [record.vector for record in records]
        changed = [
            models.PointStruct(id=record.id, vector=vector, payload=dict(payload))
            for record, vector in zip(records, vectors, strict=True)
        ]
        self._again(collection_name, added=changed)

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
            build.upsert(
                [
                    models.PointStruct(id=record.id, vector=record.vector, payload=record.payload)
                    for record in records
                    if str(record.id) not in removed
                ]
            )
            build.upsert(added)


def writable(store: StoreConfig) -> Any:
    """Open the folder of some settings to be written to, and make it where there is none."""
    return WritableClient(embedded_folder(store, create=True), create=True)


def mark(store: StoreConfig, name: str, **manifest: Any) -> None:
    """Change what a collection records of itself."""
    client = writable(store)
    with suppress(CollectionNotFoundError):
        recorded = (client.get_collection(name).config.metadata or {}).get("retrieval_evals", {})
        client.update_collection(name, metadata={"retrieval_evals": {**recorded, **manifest}})
    client.close()
