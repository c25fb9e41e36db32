"""A client for Qdrant's engine in this process, with the methods of QdrantClient that read.

langchain-qdrant searches it like a server. `retrievers.store.building` writes a collection as a whole. This client
changes no file. At its next call it sees a collection that was built anew.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeGuard, cast
from uuid import UUID

import numpy as np
import portalocker
import qdrant_edge as edge
from qdrant_client import models
from qdrant_client.http.models import QueryResponse

from retrievers.errors import CollectionNotFoundError, StoreError, nearest
from retrievers.store import building

RENAMED = {"query_filter": "filter", "with_vectors": "with_vector"}


class _Opened(NamedTuple):
    stamp: tuple[int, int]
    shard: edge.EdgeShard
    info: models.CollectionInfo


class EmbeddedClient:
    """Reads a folder of collections. Any number of threads and processes may read the same folder.

    Args:
        path: The folder.
        create: True to make the folder if it does not exist.

    Raises:
        StoreError: There is no store at `path`, or it cannot be opened.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = Path(path)
        collections = self.path / "collections"
        with building.engine_errors(f"the embedded store at {path} cannot be opened"):
            if create:
                collections.mkdir(parents=True, exist_ok=True)
        if not collections.is_dir():
            remedy = "index pages into it first (python -m retrievers index DIR), or name another place with"
            raise StoreError(f"no embedded store at {path}: {remedy} store.path or store.url")
        self._lock = Lock()
        self._opened: dict[str, _Opened] = {}
        self._writing: portalocker.Lock | None = None

    def close(self, *_: Any, **__: Any) -> None:
        """Close all collections, and let others build in the store."""
        self._opened.clear()
        if self._writing:
            self._writing.release()
            self._writing = None

    def build_alone(self) -> None:
        """Wait until no other process builds in the store, then keep others from it until this client is closed."""
        self._writing = building.lock(self.path, wait=True)

    def building(self, collection_name: str, **description: Any) -> AbstractContextManager[building.Upsert]:
        """Build a collection, which replaces the one of its name (see `retrievers.store.building`)."""
        self._opened.pop(collection_name, None)  # some systems cannot rename a folder that is open
        return building.building(self.path, collection_name, locked=self._writing is not None, **description)

    def collection_exists(self, collection_name: str, **_: Any) -> bool:
        """Return True if there is a collection of that name."""
        return building.find(self.path, collection_name) is not None

    def get_collections(self, **_: Any) -> models.CollectionsResponse:
        """Return the names of all collections."""
        names = building.names(self.path)
        return models.CollectionsResponse(collections=[models.CollectionDescription(name=name) for name in names])

    def get_collection(self, collection_name: str, **_: Any) -> models.CollectionInfo:
        """Return the vectors, metadata, payload indexes and number of points of a collection."""
        with self._reading(collection_name) as opened:
            return opened.info.model_copy()

    def count(self, collection_name: str, count_filter: models.Filter | None = None, **_: Any) -> models.CountResult:
        """Count the points that pass a filter, or all points. Every count is exact."""
        with self._reading(collection_name) as opened:
            request = edge.CountRequest(exact=True, filter=to_engine(count_filter))
            return models.CountResult(count=opened.shard.count(request))

    def scroll(
        self, collection_name: str, scroll_filter: models.Filter | None = None, limit: int = 10, **options: Any
    ) -> tuple[list[models.Record], int | str | None]:
        """Return points in the order of their ids, and the id of the next point, None at the end."""
        with self._reading(collection_name) as opened:
            offset = options.get("offset")
            request = edge.ScrollRequest(
                offset=None if offset is None else _id(offset),
                limit=limit,
                filter=to_engine(scroll_filter),
                with_payload=options.get("with_payload", True),
                with_vector=options.get("with_vectors", False),
            )
            points, following = opened.shard.scroll(request)
        return [_record(point.id, point) for point in points], None if following is None else _id(following)

    def retrieve(
        self, collection_name: str, ids: Sequence[Any], with_payload: Any = True, with_vectors: Any = False, **_: Any
    ) -> list[models.Record]:
        """Return the points of the ids, in their order. Missing points are left out."""
        with self._reading(collection_name) as opened:
            keys = [key if isinstance(key, int | UUID) else UUID(key) for key in ids]
            points = opened.shard.retrieve([*dict.fromkeys(keys)], with_payload, with_vectors)
        records = {point.id: point for point in points}
        return [_record(key, records[key]) for key in keys if key in records]

    def query_points(
        self, collection_name: str, query: Any = None, using: str | None = None, **options: Any
    ) -> QueryResponse:
        """Return the points nearest to a dense or sparse vector, best first, or the fusion of several such searches.

        Every search is exact, so `search_params` have no effect. The order of points with equal scores, and which of
        them the limit cuts off, may differ from call to call.

        Args:
            collection_name: The collection.
            query: A list of numbers, a `SparseVector`, or a `FusionQuery` over `prefetch`.
            using: The vector of the collection to compare with; the unnamed one when left out.
            options: Options of QdrantClient: `query_filter`, `limit`, `offset`, `with_payload` and so on.
        """
        fields = {RENAMED.get(name, name): value for name, value in options.items()}
        request = models.QueryRequest.model_construct(query=query, using=using, **{"with_payload": True} | fields)
        return self.query_batch_points(collection_name, [request])[0]

    def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest], **_: Any
    ) -> list[QueryResponse]:
        """Run `query_points` for each request, in one pass. Points without payload are objects of the engine."""
        with self._reading(collection_name) as opened:
            answers = opened.shard.query_batch(edge.QueryBatchRequest([*map(_request, requests)]))
        return [
            QueryResponse.model_construct(points=[*map(_scored, points)] if r.with_payload else cast("Any", points))
            for r, points in zip(requests, answers, strict=True)
        ]

    @contextmanager
    def _reading(self, name: str) -> Iterator[_Opened]:
        with building.engine_errors(f"collection {name!r} at {self.path}"):
            yield self._current(name)

    def _current(self, name: str) -> _Opened:
        """Open the current build of a collection. Look for it again if it is replaced while it is opened."""
        while current := building.find(self.path, name):
            folder, stamp = current
            with self._lock:
                opened = self._opened.get(name)
                if opened is None or opened.stamp != stamp:
                    try:
                        self._opened[name] = opened = _Opened(stamp, *building.opened(folder))
                    except CollectionNotFoundError:
                        if building.find(self.path, name) == current:
                            raise
                        continue
            return opened
        near = nearest(name, building.names(self.path))
        raise CollectionNotFoundError(f"no collection {name!r} at {self.path}{near}")


def is_embedded(client: Any) -> TypeGuard[EmbeddedClient]:
    """Return True for a client of an embedded store."""
    return isinstance(client, EmbeddedClient)


def to_engine(given: Any) -> Any:
    """Convert a filter, or a part of one, for the engine. As on a server, the values 1, true and "1" differ.

    Raises:
        StoreError: It holds a condition that cannot be converted.
    """
    if given is None or isinstance(given, bool):
        return given
    if type(given) not in CONVERTED:
        raise StoreError(f"filter condition {type(given).__name__}: an embedded store has values and ranges of numbers")
    return CONVERTED[type(given)](given)


def _all(conditions: Any) -> Any:
    return conditions and [*map(to_engine, conditions if isinstance(conditions, list) else [conditions])]


def _field(given: models.FieldCondition) -> edge.FieldCondition:
    tests = {name: to_engine(test) for name, test in given if name != "key" and test is not None}
    return edge.FieldCondition(given.key, **tests)


def _match_value(given: models.MatchValue) -> edge.MatchValue:
    # The engine's binding takes Python's True for 1.
    value: Any = np.bool_(given.value) if isinstance(given.value, bool) else given.value
    return edge.MatchValue(value)


CONVERTED: Mapping[type, Callable[[Any], Any]] = {
    models.Filter: lambda f: edge.Filter(_all(f.must), _all(f.should), _all(f.must_not), to_engine(f.min_should)),
    models.FieldCondition: _field,
    models.MatchValue: _match_value,
    models.MatchAny: lambda given: edge.MatchAny(given.any),
    models.Range: lambda given: edge.RangeFloat(**dict(given)),
    models.IsEmptyCondition: lambda given: edge.IsEmptyCondition(given.is_empty.key),
    models.HasIdCondition: lambda given: edge.HasIdCondition(set(given.has_id)),
}


def _request(request: models.QueryRequest) -> edge.QueryRequest:
    """Convert a search for the engine."""
    sides: list[Any] = [*request.prefetch] if isinstance(request.prefetch, list) else []
    return edge.QueryRequest(
        prefetches=[edge.Prefetch(s.limit or 10, _query(s.query, s.using), filter=to_engine(s.filter)) for s in sides],
        limit=request.limit or 10,
        offset=request.offset or 0,
        query=_query(request.query, request.using),
        filter=to_engine(request.filter),
        score_threshold=request.score_threshold,
        with_payload=bool(request.with_payload),
        with_vector=request.with_vector or False,
        params=None if sides else edge.SearchParams(exact=True),
    )


def _query(query: Any, using: str | None) -> Any:
    match query:
        case models.SparseVector():
            return edge.Query.Nearest(edge.SparseVector(query.indices, query.values), using=using or "")
        case list() | tuple() | np.ndarray():
            return edge.Query.Nearest(np.asarray(query, dtype=np.float32).tolist(), using=using or "")
        case models.FusionQuery():
            return edge.Fusion.Dbsf() if query.fusion == models.Fusion.DBSF else edge.Fusion.Rrf(k=2)
    raise StoreError(f"a query of type {type(query).__name__}: the embedded engine takes vectors, and fusions of them")


def _id(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


def _record(key: Any, point: edge.Record) -> models.Record:
    # The engine makes a new object at each access to `point.id`, so callers pass the id that they have.
    fields = {"id": _id(key), "payload": point.payload, "vector": _vectors(point.vector)}
    return models.Record.model_construct(**fields, shard_key=None, order_value=None)


def _scored(point: edge.ScoredPoint) -> models.ScoredPoint:
    fields = {"id": _id(point.id), "version": point.version, "score": point.score, "payload": point.payload or {}}
    return models.ScoredPoint.model_construct(**fields, vector=_vectors(point.vector))


def _vectors(vectors: Any) -> Any:
    if isinstance(vectors, edge.SparseVector):
        return models.SparseVector(indices=vectors.indices, values=vectors.values)
    return {name: _vectors(vector) for name, vector in vectors.items()} if isinstance(vectors, dict) else vectors
