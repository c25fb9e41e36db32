"""The description of a collection besides its points: its vectors, its metadata, and its state of optimisation."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import qdrant_edge as edge
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from qdrant_client import models

from retrievers.config.files import load_json
from retrievers.errors import StoreError, StoreUnsupportedError, nearest

DENSE = ("size", "distance", "quantization_config")
SPARSE = ("modifier",)
PLAIN = (str, int, bool, type(None))


@dataclass(frozen=True)
class Spec:
    """A collection's vectors and metadata, as `collection.json` keeps them.

    Attributes:
        dense: Dense vectors by name; '' is the unnamed one.
        sparse: Sparse vectors by name.
        metadata: Record of the collection's maker, or None.
        optimized: True if `optimize` has built an index, so that searches are approximate unless exact is asked for.
        recount: True if points have been written since; the index still has their old counts for the IDF.
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
            _quantization(params)
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
        content = load_json(text)
        return cls(
            dense={name: models.VectorParams(**params) for name, params in content["dense"].items()},
            sparse={name: models.SparseVectorParams(**params) for name, params in content["sparse"].items()},
            metadata=content["metadata"],
            optimized=content["optimized"],
            recount=content.get("recount", content["optimized"]),
        )

    def to_json(self) -> str:
        """Return the content of `collection.json`."""
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
        """Add metadata: keys are added or replaced, and a null removes one, as a server does it."""
        new = as_json(metadata, "metadata")
        others = {key: value for key, value in (self.metadata or {}).items() if key not in new}
        return replace(self, metadata={**others, **{key: value for key, value in new.items() if value is not None}})

    def engine_config(self) -> edge.EdgeConfig:
        """Return the engine's settings: no write-ahead log, since a generation comes into force whole or not at all."""
        return edge.EdgeConfig(
            vectors={
                name: edge.EdgeVectorParams(
                    size=params.size,
                    distance=getattr(edge.Distance, params.distance.value),
                    quantization_config=_quantization(params),
                )
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
        """Return the error for a vector that the collection does not have."""
        names = [*self.dense, *self.sparse]
        have = ", ".join(repr(k) for k in names)
        return StoreError(f"no vector {name!r} in the collection: it has {have}{nearest(name, names)}")


def as_json(value: Any, name: str) -> Any:
    """Return the value as JSON would give it back: tuples are lists, dates and UUIDs strings.

    Raises:
        StoreError: It cannot be said in JSON (NaN among others).
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=to_jsonable_python))
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"{name} cannot be stored as JSON: {error}") from error


def is_json(value: Any) -> bool:
    """Return True if JSON would give a value back unchanged; five times as fast as writing it."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and is_json(inner) for key, inner in value.items())
    if kind is list:
        return all(map(is_json, value))
    return kind in PLAIN or (kind is float and math.isfinite(value))


def _quantization(params: models.VectorParams) -> edge.ScalarQuantizationConfig | edge.BinaryQuantizationConfig | None:
    """Return the engine's settings of a vector's quantisation, which comes into force when an index is built.

    Raises:
        StoreUnsupportedError: It is neither scalar nor binary, or has settings that the engine is not used with.
    """
    quantization = params.quantization_config
    if quantization is None:
        return None
    if isinstance(quantization, models.ScalarQuantization):
        _only(quantization.scalar, ("type", "quantile", "always_ram"), "scalar quantisation")
        scalar = quantization.scalar
        return edge.ScalarQuantizationConfig(
            type=edge.ScalarType.Int8, quantile=scalar.quantile, always_ram=scalar.always_ram
        )
    if isinstance(quantization, models.BinaryQuantization):
        _only(quantization.binary, ("always_ram",), "binary quantisation")
        return edge.BinaryQuantizationConfig(always_ram=quantization.binary.always_ram)
    raise StoreUnsupportedError(
        f"quantization_config={quantization!r}: the embedded engine is used with scalar and binary quantisation alone"
    )


def _only(params: BaseModel, supported: tuple[str, ...], what: str) -> None:
    extra = [name for name in type(params).model_fields if name not in supported and getattr(params, name) is not None]
    if extra:
        raise StoreUnsupportedError(f"{what}: the embedded engine is used without {', '.join(extra)}; leave it out")
