"""Qdrant's engine in this process, behind the methods by which QdrantClient reads.

langchain-qdrant searches it as it does a server. It is written as a whole by `retrievers.store.building`; here no file
changes. A client sees a collection that was built anew at its next call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeGuard, cast

import numpy as np
import qdrant_edge as edge
from qdrant_client import models
from qdrant_client.http.models import QueryResponse

from retrievers.errors import CollectionNotFoundError, StoreError, StoreUnsupportedError, nearest
from retrievers.store import building
from retrievers.store.building import engine_errors

INDEXES = {name: getattr(models.PayloadSchemaType, name.upper()) for name in ("keyword", "integer", "float", "bool")}
# Qdrant's own defaults, for whoever reads the description of a collection.
HNSW = models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10_000)
OPTIMIZER = models.OptimizersConfig(
    deleted_threshold=0.2, vacuum_min_vector_number=1_000, default_segment_number=0, flush_interval_sec=5
)


RENAMED = {"query_filter": "filter", "with_vectors": "with_vector"}


@dataclass(frozen=True)
class _Opened:
    stamp: tuple[int, int]
    shard: edge.EdgeShard
    record: Mapping[str, Any]


class EmbeddedClient:
    """Reads a folder of collections; any number of threads and processes may.

    Args:
        path: The folder.
        create: True to make it when it does not exist.

    Raises:
        StoreUnreachableError: There is no store at `path`, or it cannot be opened.
        StoreError: `path` holds something else, such as qdrant-client's local mode.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = Path(path)
        building.open_store(self.path, create=create)
        self._lock = Lock()
        self._opened: dict[str, _Opened] = {}
        self._closed = False

    def close(self, *_: Any, **__: Any) -> None:
        """Let go of every collection; later calls are refused."""
        self._closed = True
        self._opened.clear()

    def building(self, collection_name: str, **parts: Any) -> AbstractContextManager[building.Build]:
        """Build a collection, or one in place of another of its name (see `retrievers.store.building`)."""
        self._opened.pop(collection_name, None)  # where open folders cannot be renamed, this client's is none
        return building.building(self.path, collection_name, **parts)

    def generation(self, collection_name: str) -> tuple[int, int] | None:
        """Return a value that changes whenever the collection is built anew; None without a collection."""
        self._check_open()
        folder = building.folder_of(self.path, collection_name)
        return building.stamp(folder) if folder else None

    def collection_exists(self, collection_name: str, **_: Any) -> bool:
        """Return True if there is a collection of that name."""
        return self.generation(collection_name) is not None

    def get_collections(self, **_: Any) -> models.CollectionsResponse:
        """Return the names of all collections."""
        self._check_open()
        names = building.names(self.path)
        return models.CollectionsResponse(collections=[models.CollectionDescription(name=name) for name in names])

    def get_collection(self, collection_name: str, **_: Any) -> models.CollectionInfo:
        """Return the vectors, metadata, payload indexes and number of points of a collection."""
        with self._reading(collection_name) as opened:
            record = opened.record
            dense = {name: models.VectorParams(**params) for name, params in record["vectors"].items()}
            sparse = {name: models.SparseVectorParams(**params) for name, params in record["sparse"].items()}
            params = models.CollectionParams(
                vectors=dense[""] if [*dense] == [""] else dense, sparse_vectors=sparse or None
            )
            return models.CollectionInfo(
                status=models.CollectionStatus.GREEN,
                optimizer_status=models.OptimizersStatusOneOf.OK,
                points_count=record["points"],
                indexed_vectors_count=0,
                segments_count=1,
                payload_schema={
                    key: models.PayloadIndexInfo(data_type=INDEXES[kind], points=record["points"])
                    for key, kind in record["indexes"].items()
                },
                config=models.CollectionConfig(
                    params=params, hnsw_config=HNSW, optimizer_config=OPTIMIZER, metadata=record["metadata"]
                ),
            )

    def count(
        self, collection_name: str, count_filter: models.Filter | None = None, exact: bool = True, **_: Any
    ) -> models.CountResult:
        """Count the points, or those that a filter lets pass."""
        with self._reading(collection_name) as opened:
            request = edge.CountRequest(exact=True, filter=to_engine(count_filter))
            return models.CountResult(count=opened.shard.count(request))

    def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        limit: int = 10,
        *,
        offset: Any = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        **_: Any,
    ) -> tuple[list[models.Record], int | str | None]:
        """Return points in the order of their ids, and the id to go on with, None at the end."""
        with self._reading(collection_name) as opened:
            request = edge.ScrollRequest(
                offset=None if offset is None else _id(offset),
                limit=limit,
                filter=to_engine(scroll_filter),
                with_payload=with_payload,
                with_vector=with_vectors,
            )
            points, following = opened.shard.scroll(request)
        return [*map(_record, points)], None if following is None else _id(following)

    def retrieve(
        self, collection_name: str, ids: Sequence[Any], with_payload: Any = True, with_vectors: Any = False, **_: Any
    ) -> list[models.Record]:
        """Return the points of these ids, in their order; missing ones are left out."""
        keys = [*map(_id, ids)]
        with self._reading(collection_name) as opened:
            points = opened.shard.retrieve([*dict.fromkeys(keys)], with_payload, with_vectors)
        records = {_id(point.id): point for point in points}
        return [_record(records[key]) for key in keys if key in records]

    def query_points(
        self, collection_name: str, query: Any = None, using: str | None = None, **options: Any
    ) -> QueryResponse:
        """Return the nearest points to a dense or sparse vector, best first; or a fusion of several such searches.

        Every search is exact, so that `search_params` change nothing. Which of several equal scores come first, and
        which of them the limit cuts off, may differ from call to call.

        Args:
            collection_name: The collection.
            query: A list of numbers, a `SparseVector`, or a `FusionQuery` over `prefetch`.
            using: The vector of the collection to compare with; the unnamed one when left out.
            options: As QdrantClient has them: `query_filter`, `limit`, `offset`, `with_payload` and so on.
        """
        fields = {RENAMED.get(name, name): value for name, value in options.items()}
        request = models.QueryRequest.model_construct(query=query, using=using, **{"with_payload": True} | fields)
        return self.query_batch_points(collection_name, [request])[0]

    def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest], **_: Any
    ) -> list[QueryResponse]:
        """Run `query_points` for each request, in one pass; points without payload are as the engine gives them."""
        if not requests:
            return []
        with self._reading(collection_name) as opened:
            batch = edge.QueryBatchRequest([_request(request) for request in requests])
            answers = opened.shard.query_batch(batch)
        return [
            QueryResponse.model_construct(points=[*map(_scored, found)] if asked.with_payload else cast("Any", found))
            for asked, found in zip(requests, answers, strict=True)
        ]

    @contextmanager
    def _reading(self, name: str) -> Iterator[_Opened]:
        self._check_open()
        with engine_errors(f"collection {name!r} at {self.path}"):
            yield self._open(name)

    def _open(self, name: str) -> _Opened:
        folder = building.folder_of(self.path, name)
        if folder is None:
            names = building.names(self.path)
            have = f"it has {', '.join(map(repr, names[:10]))}" if names else "it has none"
            raise CollectionNotFoundError(f"no collection {name!r} at {self.path}: {have}{nearest(name, names)}")
        stamp, opened = building.stamp(folder), self._opened.get(name)
        if opened is not None and opened.stamp == stamp:
            return opened
        with self._lock:
            opened = self._opened.get(name)
            if opened is None or opened.stamp != stamp:
                self._opened[name] = opened = _Opened(stamp, *building.opened(folder))
        return opened

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the client of the embedded store at {self.path} has been closed; open another")


def is_embedded(client: Any) -> TypeGuard[EmbeddedClient]:
    """Return True if a client is of an embedded store."""
    return isinstance(client, EmbeddedClient)


def _request(request: models.QueryRequest) -> edge.QueryRequest:
    """Convert a search for the engine."""
    fused = isinstance(request.query, models.FusionQuery | models.RrfQuery)
    several = request.prefetch if isinstance(request.prefetch, list) else [request.prefetch] if request.prefetch else []
    prefetches = [
        edge.Prefetch(limit=one.limit or 10, query=_nearest(one.query, one.using), filter=to_engine(one.filter))
        for one in several
    ]
    return edge.QueryRequest(
        prefetches=prefetches,
        limit=request.limit or 10,
        offset=request.offset or 0,
        query=_fusion(request.query) if fused else _nearest(request.query, request.using),
        filter=to_engine(request.filter),
        score_threshold=request.score_threshold,
        with_payload=bool(request.with_payload),
        with_vector=request.with_vector or False,
        params=None if fused else edge.SearchParams(exact=True),
    )


def _nearest(query: Any, using: str | None) -> edge.Query:
    vector = query.nearest if isinstance(query, models.NearestQuery) else query
    if isinstance(vector, models.SparseVector):
        return edge.Query.Nearest(edge.SparseVector(vector.indices, vector.values), using=using or "")
    if isinstance(vector, Sequence | np.ndarray) and not isinstance(vector, str):
        return edge.Query.Nearest(np.asarray(vector, dtype=np.float32).tolist(), using=using or "")
    raise StoreUnsupportedError(
        f"a query of type {type(query).__name__}: the embedded engine is asked for the neighbours of a dense or sparse "
        "vector, or for a fusion of such searches"
    )


def _fusion(query: Any) -> Any:
    if isinstance(query, models.RrfQuery):
        return edge.Fusion.Rrf(k=query.rrf.k or 2, weights=query.rrf.weights)
    return edge.Fusion.Dbsf() if query.fusion == models.Fusion.DBSF else edge.Fusion.Rrf(k=2)


def to_engine(given: models.Filter | None) -> edge.Filter | None:
    """Convert a filter for the engine; values match by kind, as on a server: 1, true and "1" differ.

    Raises:
        StoreUnsupportedError: It holds a condition that is not convertible.
    """
    if given is None:
        return None
    least = given.min_should
    return edge.Filter(
        must=_conditions(given.must),
        should=_conditions(given.should),
        must_not=_conditions(given.must_not),
        min_should=edge.MinShould(_conditions(least.conditions) or [], least.min_count) if least else None,
    )


def _conditions(conditions: Any) -> list[Any] | None:
    if conditions is None:
        return None
    return [_condition(each) for each in (conditions if isinstance(conditions, list) else [conditions])]


def _condition(condition: Any) -> Any:
    if isinstance(condition, models.FieldCondition):
        tests = {name: test for name, test in condition if name != "key" and test is not None}
        return edge.FieldCondition(condition.key, **{name: _converted(test, TESTS) for name, test in tests.items()})
    return _converted(condition, CONDITIONS)


def _converted(value: Any, kinds: Mapping[type, Callable[[Any], Any]]) -> Any:
    if isinstance(value, bool):  # is_empty, is_null
        return value
    if type(value) not in kinds:
        raise StoreUnsupportedError(
            f"filter condition {type(value).__name__}: the embedded engine is used without it; use equality, any-of, "
            "all-but or a range of numbers"
        )
    return kinds[type(value)](value)


def _bounds(limits: Any) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in ("gte", "gt", "lte", "lt")}


def _match_value(value: Any) -> edge.MatchValue:
    # The engine's binding takes Python's True for 1.
    flag: Any = np.bool_(value) if isinstance(value, bool) else value
    return edge.MatchValue(flag)


TESTS: Mapping[type, Callable[[Any], Any]] = {
    models.MatchValue: lambda test: _match_value(test.value),
    models.MatchAny: lambda test: edge.MatchAny(test.any),
    models.MatchExcept: lambda test: edge.MatchExcept(test.except_),
    models.Range: lambda test: edge.RangeFloat(**_bounds(test)),
    models.ValuesCount: lambda test: edge.ValuesCount(**_bounds(test)),
}
CONDITIONS: Mapping[type, Callable[[Any], Any]] = {
    models.IsEmptyCondition: lambda given: edge.IsEmptyCondition(given.is_empty.key),
    models.IsNullCondition: lambda given: edge.IsNullCondition(given.is_null.key),
    models.HasIdCondition: lambda given: edge.HasIdCondition(set(given.has_id)),
    models.HasVectorCondition: lambda given: edge.HasVectorCondition(given.has_vector),
    models.NestedCondition: lambda given: edge.NestedCondition(
        given.nested.key, to_engine(given.nested.filter) or edge.Filter()
    ),
    models.Filter: to_engine,
}


def _id(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


def _record(point: edge.Record) -> models.Record:
    return models.Record.model_construct(id=_id(point.id), payload=point.payload, vector=_vectors(point.vector))


def _scored(point: edge.ScoredPoint) -> models.ScoredPoint:
    return models.ScoredPoint.model_construct(
        id=_id(point.id),
        version=point.version,
        score=point.score,
        payload=point.payload or {},
        vector=_vectors(point.vector),
    )


def _vectors(vectors: Any) -> Any:
    if not isinstance(vectors, dict):
        return vectors
    return {
        name: models.SparseVector(indices=vector.indices, values=vector.values)
        if isinstance(vector, edge.SparseVector)
        else vector
        for name, vector in vectors.items()
    }
