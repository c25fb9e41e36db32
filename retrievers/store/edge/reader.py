"""The reading half of the client: QdrantClient's methods of the same names, on an embedded store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, Unpack

import qdrant_edge as edge
from qdrant_client import models
from qdrant_client.http.models import QueryResponse

from retrievers.errors import StoreError
from retrievers.store.edge import convert, filters, search
from retrievers.store.edge.draft import OpenChanges
from retrievers.store.edge.engine import engine_errors
from retrievers.store.edge.layout import folders, open_store
from retrievers.store.edge.search import SearchOptions
from retrievers.store.edge.views import View, Views

INDEXES: Mapping[edge.PayloadSchemaType, models.PayloadSchemaType] = {
    edge.PayloadSchemaType.Keyword: models.PayloadSchemaType.KEYWORD,
    edge.PayloadSchemaType.Integer: models.PayloadSchemaType.INTEGER,
    edge.PayloadSchemaType.Float: models.PayloadSchemaType.FLOAT,
    edge.PayloadSchemaType.Bool: models.PayloadSchemaType.BOOL,
}
# models.QueryResponse belongs to fastembed.


# QdrantClient's default.
SCROLL_PAGE = 10


class EdgeReader:
    """Reads; see `EdgeClient`, which also writes."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = Path(path)
        open_store(self.path, create=create)
        self._views = Views(self.path)
        self._changes = OpenChanges(self.path, self._views)
        self._closed = False

    def close(self) -> None:
        """Let go of every collection; later calls are refused."""
        self._closed = True
        self._views.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def generation(self, collection_name: str) -> str:
        """Return a word that changes whenever the collection does; '' without a collection. Takes some 10 us."""
        self._check_open()
        draft = self._changes.draft(collection_name)
        # Inside a change the generation in force says nothing about the caller's own writes.
        if draft is not None and draft.touched:
            return draft.label if draft.exists else ""
        return self._views.folder(collection_name).current() or ""

    def collection_exists(self, collection_name: str) -> bool:
        """Return True if there is a collection of that name."""
        return bool(self.generation(collection_name))

    def get_collections(self) -> models.CollectionsResponse:
        """Return the names of all collections."""
        self._check_open()
        exist = {folder.name: folder.current() is not None for folder in folders(self.path)} | self._changes.names()
        names = sorted(name for name, exists in exist.items() if exists)
        return models.CollectionsResponse(collections=[models.CollectionDescription(name=name) for name in names])

    def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """Return its vectors, metadata, payload indexes and number of points.

        Raises:
            CollectionNotFoundError: There is none.
        """
        with self._view(collection_name) as view:
            return described(view)

    def count(
        self, collection_name: str, count_filter: models.Filter | None = None, exact: bool = True, **other: Any
    ) -> models.CountResult:
        """Count the points, or those that fit a filter; always exact.

        Raises:
            StoreError: The filter cannot be used, or there is no such collection.
        """
        search.refuse(**other)
        with self._view(collection_name) as view:
            request = edge.CountRequest(exact=True, filter=filters.to_engine(count_filter))
            return models.CountResult(count=view.shard.count(request))

    def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        limit: int = SCROLL_PAGE,
        *,
        offset: Any = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        **other: Any,
    ) -> tuple[list[models.Record], int | str | None]:
        """Return points in the order of their ids, numbers before UUIDs.

        Args:
            collection_name: The collection.
            scroll_filter: Only points that fit.
            limit: Largest number of points.
            offset: Begin with this id.
            with_payload: True to return payloads, or the keys of them to return.
            with_vectors: True to return vectors, or their names.
            other: Options of QdrantClient; refused unless None.

        Returns:
            The points, and the id to go on with (None at the end).

        Raises:
            StoreError: The filter cannot be used, or there is no such collection.
        """
        search.refuse(**other)
        if limit < 1:
            raise StoreError(f"expected a limit of at least 1, got {limit}")
        with self._view(collection_name) as view:
            request = edge.ScrollRequest(
                offset=None if offset is None else convert.to_id(offset),
                limit=limit,
                filter=filters.to_engine(scroll_filter),
                with_payload=convert.with_payload(with_payload),
                with_vector=convert.with_vectors(with_vectors, view.spec),
            )
            points, following = view.shard.scroll(request)
        return [convert.record(point) for point in points], None if following is None else convert.to_id(following)

    def retrieve(
        self,
        collection_name: str,
        ids: Sequence[Any],
        *,
        with_payload: Any = True,
        with_vectors: Any = False,
        **other: Any,
    ) -> list[models.Record]:
        """Return the points of these ids, in their order; missing ids are left out (options as in `scroll`).

        Raises:
            StoreError: An id is malformed, or there is no such collection.
        """
        search.refuse(**other)
        keys = [convert.to_id(key) for key in ids]
        points = self.stored(collection_name, keys, with_payload=with_payload, with_vectors=with_vectors)
        records = {record.id: record for record in map(convert.record, points)}
        return [records[key] for key in keys if key in records]

    def stored(
        self, collection_name: str, ids: Sequence[Any], *, with_payload: Any = False, with_vectors: Any = False
    ) -> list[edge.Record]:
        """Run `retrieve` with the points as the engine gives them, each once and in any order.

        Raises:
            StoreError: As `retrieve`.
        """
        # The engine returns a repeated id as often as it is asked for.
        keys: list[Any] = list(dict.fromkeys(map(convert.to_id, ids)))
        with self._view(collection_name) as view:
            payload, vector = convert.with_payload(with_payload), convert.with_vectors(with_vectors, view.spec)
            points: list[edge.Record] = view.shard.retrieve(keys, payload, vector)
            return points

    def query_points(
        self, collection_name: str, query: Any = None, using: str | None = None, **options: Unpack[SearchOptions]
    ) -> QueryResponse:
        """Return the nearest points to one dense or sparse vector, best first.

        Equal scores come in an order that differs from call to call, and so does which of them the limit cuts off.

        Args:
            collection_name: The collection.
            query: A list or array of numbers, or a SparseVector.
            using: Which vector of the collection to compare with; the unnamed one when left out.
            options: See `SearchOptions`.

        Raises:
            EmbeddingMismatchError: The vector has another length than the collection's.
            StoreError: The query or the filter cannot be used, or there is no such collection.
        """
        return self.query_batch_points(collection_name, [search.request(query, using, options)])[0]

    def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest], **other: Any
    ) -> list[QueryResponse]:
        """Run `query_points` for each request, in one pass over the collection.

        Raises:
            StoreError: As `query_points`; nothing is searched then.
        """
        search.refuse(**other)
        answers = self.nearest(collection_name, requests)
        return [QueryResponse(points=[convert.scored(point) for point in points]) for points in answers]

    def nearest(self, collection_name: str, requests: Sequence[models.QueryRequest]) -> list[list[edge.ScoredPoint]]:
        """Run `query_batch_points` with the points as the engine gives them, for callers that read hundreds of ids.

        Raises:
            StoreError: As `query_points`; nothing is searched then.
        """
        with self._view(collection_name) as view:
            batch = [search.to_engine(request, view) for request in requests]
            return view.shard.query_batch(edge.QueryBatchRequest(batch)) if batch else []

    @contextmanager
    def _view(self, name: str) -> Iterator[View]:
        """Return the shard to read: that of the change around the caller, or the generation in force."""
        self._check_open()
        draft = self._changes.draft(name)
        reading = draft.reading() if draft is not None and draft.touched else self._views.current(name)
        with engine_errors(f"collection {name!r} at {self.path}"), reading as view:
            yield view

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the client of the embedded store at {self.path} has been closed; open another")


def described(view: View) -> models.CollectionInfo:
    """Describe the collection's vectors, metadata, indexes and counts."""
    info, spec = view.shard.info(), view.spec
    unnamed = spec.dense.get("") if len(spec.dense) == 1 else None
    return models.CollectionInfo(
        status=models.CollectionStatus.GREEN,
        optimizer_status=models.OptimizersStatusOneOf.OK,
        points_count=view.shard.count(edge.CountRequest(exact=True)),
        indexed_vectors_count=info.indexed_vectors_count if spec.optimized else 0,
        segments_count=info.segments_count,
        payload_schema={
            key: models.PayloadIndexInfo(data_type=INDEXES[index.data_type], points=index.points)
            for key, index in info.payload_schema.items()
        },
        config=models.CollectionConfig(
            params=models.CollectionParams(
                vectors=unnamed or dict(spec.dense), sparse_vectors=dict(spec.sparse) or None
            ),
            hnsw_config=models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10_000),
            optimizer_config=models.OptimizersConfig(
                deleted_threshold=0.2, vacuum_min_vector_number=1_000, default_segment_number=0, flush_interval_sec=5
            ),
            metadata=dict(spec.metadata) if spec.metadata is not None else None,
        ),
    )
