"""Points between qdrant_client's models and the engine's, checked on the way in."""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from retrievers.errors import StoreError, StoreUnsupportedError
from retrievers.store.edge import vectors
from retrievers.store.edge.spec import Spec, as_json, is_json

LARGEST_ID = 2**64 - 1
CANONICAL_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def to_engine(points: Iterable[models.PointStruct] | models.Batch, spec: Spec) -> list[edge.Point]:
    """Convert points for the engine.

    A sparse vector without terms is left out: such a point has nothing to be found by, and the engine counts it for
    the IDF before a reload but not after.

    Raises:
        StoreError: A point cannot be stored; the message names it. None is stored then.
    """
    structs = _flat(points)
    ids = [to_id(struct.id) for struct in structs]
    named = [_named(struct.vector, f"point {i}") for struct, i in zip(structs, ids, strict=True)]
    columns = {name: _column(named, ids, spec, name) for name in {key: None for row in named for key in row}}
    return [
        edge.Point(
            point_id,
            {name: columns[name][point_id] for name in row if point_id in columns[name]},
            _payload(struct.payload, point_id),
        )
        for struct, point_id, row in zip(structs, ids, named, strict=True)
    ]


def to_id(value: Any) -> int | str:
    """Return a point's id in the one form that is stored and returned: an integer, or a UUID with dashes.

    Raises:
        StoreError: It is neither an unsigned integer nor a UUID.
    """
    # Most are; it costs a quarter of parsing.
    if isinstance(value, str) and CANONICAL_ID(value):
        return value
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value <= LARGEST_ID:
        return int(value)
    if isinstance(value, str):
        try:
            return str(uuid.UUID(value))
        except ValueError:
            pass
    raise StoreError(f"point id {value!r}: expected an integer from 0 to {LARGEST_ID}, or a UUID")


def record(point: edge.Record) -> models.Record:
    """Convert a stored point to qdrant_client's record."""
    return models.Record(id=_id(point.id), payload=point.payload, vector=_vectors(point.vector))


def scored(point: edge.ScoredPoint) -> models.ScoredPoint:
    """Convert a found point to qdrant_client's record."""
    return models.ScoredPoint(
        id=_id(point.id),
        version=point.version,
        score=point.score,
        payload=point.payload,
        vector=_vectors(point.vector),
    )


def with_payload(selector: Any) -> Any:
    """Convert `with_payload` for the engine.

    Raises:
        StoreUnsupportedError: It is neither a bool, a list of keys, nor a selector.
    """
    if selector is None or isinstance(selector, bool):
        return bool(selector)
    if isinstance(selector, models.PayloadSelectorInclude):
        return edge.PayloadSelector.Include(list(selector.include))
    if isinstance(selector, models.PayloadSelectorExclude):
        return edge.PayloadSelector.Exclude(list(selector.exclude))
    if isinstance(selector, (list, tuple)):
        return edge.PayloadSelector.Include(list(selector))
    raise StoreUnsupportedError(f"with_payload={selector!r}: expected true, false, a list of keys, or a selector")


def with_vectors(selector: Any, spec: Spec) -> bool | list[str]:
    """Convert `with_vectors` for the engine.

    Raises:
        StoreError: It names a vector that the collection does not have.
    """
    if selector is None or isinstance(selector, bool):
        return bool(selector)
    if isinstance(selector, str):
        raise StoreError(f"with_vectors={selector!r}: expected true, false, or a list of names")
    for name in selector:
        if name not in spec.dense and name not in spec.sparse:
            raise spec.unknown_vector(name)
    return list(selector)


def _id(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


def _vectors(vectors: Any) -> Any:
    if not isinstance(vectors, dict):
        return vectors
    return {
        name: models.SparseVector.model_construct(indices=vector.indices, values=vector.values)
        if isinstance(vector, edge.SparseVector)
        else vector
        for name, vector in vectors.items()
    }


def _flat(points: Iterable[models.PointStruct] | models.Batch) -> Sequence[models.PointStruct]:
    if not isinstance(points, models.Batch):
        return list(points)
    columns = points.vectors if isinstance(points.vectors, Mapping) else {"": points.vectors}
    count = len(points.ids)
    lengths = {len(column) for column in columns.values()} | {len(points.payloads or points.ids)}
    if lengths != {count}:
        raise StoreError(f"batch of {count} ids: its vectors and payloads must be as many, got {sorted(lengths)}")
    return [
        models.PointStruct.model_construct(
            id=point_id,
            vector={name: column[i] for name, column in columns.items()},
            payload=points.payloads[i] if points.payloads else None,
        )
        for i, point_id in enumerate(points.ids)
    ]


def _named(vector: Any, whose: str) -> dict[str, Any]:
    """Return the vectors of a point by name; '' for one without a name."""
    if isinstance(vector, Mapping):
        return dict(vector)
    if isinstance(vector, (list, tuple, np.ndarray)):
        return {"": vector}
    raise StoreUnsupportedError(f"{whose}: a vector of type {type(vector).__name__}; embed before storing")


def _payload(payload: Any, point_id: int | str) -> Any:
    return payload if is_json(payload) and payload else as_json(payload or {}, f"payload of point {point_id}")


def _column(
    named: Sequence[Mapping[str, Any]], ids: Sequence[int | str], spec: Spec, name: str
) -> Mapping[int | str, Any]:
    """Return the vectors of one name by point id, checked all at once."""
    rows = {i: vectors_of[name] for i, vectors_of in zip(ids, named, strict=True) if name in vectors_of}
    whose = [f"point {i}" for i in rows]
    if name in spec.sparse:
        vectors.check_sparse(spec, name, list(rows.values()), whose)
        return {i: vectors.to_engine(row) for i, row in rows.items() if row.indices}
    return dict(zip(rows, vectors.check_dense(spec, name, list(rows.values()), whose), strict=True))
