"""What a collection is besides its points: its vectors, its metadata, and whether it has been optimised."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import qdrant_edge as edge
from pydantic_core import to_jsonable_python
from qdrant_client import models

from retrievers.config.guarded_json import load
from retrievers.errors import StoreError, StoreUnsupportedError, nearest

DENSE = ("size", "distance")
SPARSE = ("modifier",)
PLAIN = (str, int, bool, type(None))


@dataclass(frozen=True)
class Spec:
    """A collection's vectors and metadata, as `collection.json` keeps them.

    Attributes:
        dense: Dense vectors by name; '' is the unnamed one.
        sparse: Sparse vectors by name.
        metadata: What the maker of the collection recorded, or None.
        optimized: Whether `optimize` has built an index, so that searches are approximate unless exact is asked for.
        recount: Whether points have been written to since; the index still counts them as they were for the IDF.
    """

    dense: Mapping[str, models.VectorParams]
    sparse: Mapping[str, models.SparseVectorParams]
    metadata: Mapping[str, Any] | None = None
    optimized: bool = False
    recount: bool = False

    @classmethod
    def of(
        cls,
        vectors: models.VectorParams | Mapping[str, models.VectorParams] | None,
        sparse: Mapping[str, models.SparseVectorParams] | None,
        metadata: Mapping[str, Any] | None,
    ) -> Self:
        """Take what `create_collection` was given.

        Raises:
            StoreUnsupportedError: It asks for a kind of vector or storage that this engine is not used for.
            StoreError: It names no vector, or one name twice.
        """
        dense = {"": vectors} if isinstance(vectors, models.VectorParams) else dict(vectors or {})
        sparse = dict(sparse or {})
        if not dense and not sparse:
            raise StoreError("a collection needs a vector: give vectors_config or sparse_vectors_config")
        if both := sorted(dense.keys() & sparse.keys()):
            raise StoreError(f"vector {both[0]!r} is both dense and sparse; give one of them another name")
        for name, params in dense.items():
            _only(params, DENSE, f"dense vector {name!r}")
            if params.size < 1:
                raise StoreError(f"dense vector {name!r}: expected a size of at least 1, got {params.size}")
        for name, sparse_params in sparse.items():
            _only(sparse_params, SPARSE, f"sparse vector {name!r}")
        return cls(dense=dense, sparse=sparse, metadata=as_json(metadata, "metadata"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read `collection.json`.

        Raises:
            ValueError: It is not JSON.
        """
        found = load(text)
        return cls(
            dense={name: models.VectorParams(**params) for name, params in found["dense"].items()},
            sparse={name: models.SparseVectorParams(**params) for name, params in found["sparse"].items()},
            metadata=found["metadata"],
            optimized=found["optimized"],
            recount=found.get("recount", found["optimized"]),
        )

    def to_json(self) -> str:
        """What `collection.json` holds."""
        keep: Mapping[str, Any] = {"mode": "json", "exclude_none": True}
        return json.dumps(
            {
                "dense": {name: params.model_dump(**keep) for name, params in self.dense.items()},
                "sparse": {name: params.model_dump(**keep) for name, params in self.sparse.items()},
                "metadata": self.metadata,
                "optimized": self.optimized,
                "recount": self.recount,
            },
            indent=1,
        )

    def merged(self, metadata: Mapping[str, Any]) -> Self:
        """With more metadata: keys are added or replaced, and a null removes one, as a server does it."""
        new = as_json(metadata, "metadata")
        kept = {key: value for key, value in (self.metadata or {}).items() if key not in new}
        return replace(self, metadata={**kept, **{key: value for key, value in new.items() if value is not None}})

    def engine_config(self) -> edge.EdgeConfig:
        """For the engine: no write-ahead log, since a generation comes into force whole or not at all."""
        return edge.EdgeConfig(
            vectors={
                name: edge.EdgeVectorParams(size=params.size, distance=getattr(edge.Distance, params.distance.value))
                for name, params in self.dense.items()
            },
            sparse_vectors={
                name: edge.EdgeSparseVectorParams(
                    modifier=edge.Modifier.Idf if params.modifier == models.Modifier.IDF else None
                )
                for name, params in self.sparse.items()
            },
            wal_enabled=False,
        )

    def unknown_vector(self, name: str) -> StoreError:
        """The error for a vector that the collection does not have."""
        known = [*self.dense, *self.sparse]
        have = ", ".join(repr(k) for k in known)
        return StoreError(f"no vector {name!r} in the collection: it has {have}{nearest(name, known)}")


def as_json(value: Any, what: str) -> Any:
    """The value as JSON would give it back: tuples are lists, dates and UUIDs strings.

    Raises:
        StoreError: It cannot be said in JSON (NaN among others).
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=to_jsonable_python))
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"{what} cannot be stored as JSON: {error}") from error


def is_json(value: Any) -> bool:
    """Whether a value is what JSON would give back; a fifth of the cost of finding out by writing it."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and is_json(one) for key, one in value.items())
    if kind is list:
        return all(map(is_json, value))
    return kind in PLAIN or (kind is float and math.isfinite(value))


def _only(params: models.VectorParams | models.SparseVectorParams, known: tuple[str, ...], what: str) -> None:
    extra = [name for name in type(params).model_fields if name not in known and getattr(params, name) is not None]
    if extra:
        raise StoreUnsupportedError(f"{what}: the embedded engine is used without {', '.join(extra)}; leave it out")
