"""qdrant_client's search requests as the engine's, checked."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from retrievers.errors import StoreError, StoreUnsupportedError
from retrievers.store.edge import convert, filters, vectors
from retrievers.store.edge.views import View

LIMIT = 10
SEARCH_PARAMS = ("exact", "hnsw_ef", "quantization", "indexed_only")


class SearchOptions(TypedDict, total=False):
    """Options of `query_points`, as QdrantClient has them.

    Attributes:
        query_filter: Only points that fit.
        search_params: `exact`, `hnsw_ef`, `quantization`, `indexed_only`. Left out, the search is exact unless
            `optimize` has built an index.
        limit: Largest number of points; 10 when left out.
        offset: Number of the best points to leave out.
        with_payload: True to return payloads (the default), or the keys of them to return.
        with_vectors: True to return vectors, or their names.
        score_threshold: Only points that score more than this (less, for a distance); not those that equal it.
    """

    query_filter: models.Filter | None
    search_params: models.SearchParams | None
    limit: int
    offset: int | None
    with_payload: Any
    with_vectors: Any
    score_threshold: float | None
    prefetch: Any
    lookup_from: Any
    consistency: Any
    shard_key_selector: Any
    timeout: Any


RENAMED = {"query_filter": "filter", "search_params": "params", "with_vectors": "with_vector"}


def request(query: Any, using: str | None, options: SearchOptions) -> models.QueryRequest:
    """Build the request of `query_points` from its arguments.

    Raises:
        StoreUnsupportedError: An option is given that the embedded engine is used without.
    """
    fields = {RENAMED.get(name, name): value for name, value in options.items()}
    refuse(**{name: value for name, value in fields.items() if name not in models.QueryRequest.model_fields})
    arguments: dict[str, Any] = {
        name: value for name, value in fields.items() if name in models.QueryRequest.model_fields
    }
    return models.QueryRequest.model_construct(query=query, using=using, **{"with_payload": True} | arguments)


def to_engine(request: models.QueryRequest, view: View) -> edge.QueryRequest:
    """Convert a nearest-neighbour request for the engine.

    Unless its params say otherwise a search is exact, until `optimize` has built an index.

    Raises:
        StoreUnsupportedError: It asks for more than the neighbours of one vector: fusion, prefetch, recommendation.
        StoreError: The vector is not one that the collection can be searched by.
    """
    refuse(prefetch=request.prefetch, lookup_from=request.lookup_from, shard_key=request.shard_key)
    limit = LIMIT if request.limit is None else request.limit
    if limit < 1 or (request.offset or 0) < 0:
        raise StoreError(f"expected a limit of at least 1 and an offset of at least 0, got {limit}, {request.offset}")
    threshold = request.score_threshold
    if threshold is not None and not np.isfinite(threshold):
        raise StoreError(f"expected a finite score_threshold, got {threshold!r}")
    return edge.QueryRequest(
        limit=limit,
        offset=request.offset or 0,
        query=_nearest(request.query, request.using or "", view),
        filter=filters.to_engine(request.filter),
        score_threshold=threshold,
        with_payload=convert.with_payload(request.with_payload),
        with_vector=convert.with_vectors(request.with_vector, view.spec),
        params=_params(request.params, request.using or "", view),
    )


def refuse(**options: Any) -> None:
    """Refuse options that are not left out.

    Raises:
        StoreUnsupportedError: Names the first.
    """
    for name, value in options.items():
        if value is not None:
            raise StoreUnsupportedError(f"{name}={value!r}: the embedded engine is used without it; leave it out")


def _nearest(query: Any, using: str, view: View) -> edge.Query:
    if isinstance(query, models.NearestQuery):
        refuse(mmr=query.mmr)
        query = query.nearest
    if isinstance(query, models.SparseVector):
        vectors.check_sparse(view.spec, using, [query], ["the query"])
        return edge.Query.Nearest(vectors.to_engine(query), using=using)
    if isinstance(query, (Sequence, np.ndarray)) and not isinstance(query, str):
        return edge.Query.Nearest(vectors.check_dense(view.spec, using, [query], ["the query"])[0], using=using)
    kind = "no query" if query is None else f"a query of type {type(query).__name__}"
    raise StoreUnsupportedError(
        f"{kind}: the embedded engine is asked for the neighbours of a dense or sparse vector; "
        "search each side by itself and fuse the results"
    )


def _params(params: models.SearchParams | None, using: str, view: View) -> edge.SearchParams:
    """Recount terms for the IDF where the engine's counts still hold replaced and removed points."""
    sparse = view.spec.sparse.get(using)
    recount = view.recount and sparse is not None and sparse.modifier == models.Modifier.IDF
    idf = edge.IdfParams(corpus=edge.Filter()) if recount else None
    if params is None:
        return edge.SearchParams(exact=not view.spec.optimized, idf=idf)
    refuse(**{name: value for name, value in params if name not in SEARCH_PARAMS and value not in (None, False)})
    exact = bool(params.exact) if "exact" in params.model_fields_set else not view.spec.optimized
    quantized = params.quantization or models.QuantizationSearchParams()
    return edge.SearchParams(
        exact=exact,
        hnsw_ef=params.hnsw_ef,
        quantization=edge.QuantizationSearchParams(
            ignore=bool(quantized.ignore), rescore=quantized.rescore, oversampling=quantized.oversampling
        ),
        indexed_only=bool(params.indexed_only),
        idf=idf,
    )
