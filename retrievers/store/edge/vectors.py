"""Checks of vectors before the engine gets them: it accepts NaN and repeated indices silently."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from retrievers.errors import EmbeddingMismatchError, StoreError, StoreUnsupportedError
from retrievers.store.edge.spec import Spec

LARGEST_INDEX = 2**32 - 1
Dense = list[float]


def check_dense(spec: Spec, name: str, rows: Sequence[Any], whose: Sequence[str]) -> list[Dense]:
    """Convert dense vectors for the engine.

    Args:
        spec: Description of the collection.
        name: Which of its vectors these are.
        rows: One vector each; lists or arrays.
        whose: Name of each vector's owner, for the message ('point 7').

    Raises:
        EmbeddingMismatchError: A length is wrong.
        StoreError: A value is not finite in float32, or there is no such dense vector.
    """
    if name not in spec.dense:
        raise _wrong_kind(spec, name, whose[0]) if name in spec.sparse else spec.unknown_vector(name)
    size = spec.dense[name].size
    for row, who in zip(rows, whose, strict=True):
        if isinstance(row, models.SparseVector):
            raise _wrong_kind(spec, name, who)
    plain = [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows]
    for row, who in zip(plain, whose, strict=True):
        if row and isinstance(row[0], (list, tuple, np.ndarray)):
            raise StoreUnsupportedError(f"{who}: several vectors under one name ({name!r}); give one")
        if len(row) != size:
            raise EmbeddingMismatchError(
                f"{who}: expected {size} dimensions in vector {name!r}, got {len(row)}; "
                "it was made by another model than the collection's"
            )
    _finite(plain, whose, name)
    return plain


def check_sparse(spec: Spec, name: str, rows: Sequence[models.SparseVector], whose: Sequence[str]) -> None:
    """Refuse sparse vectors that the engine would garble (arguments as in `check_dense`).

    Raises:
        StoreError: Indices and values differ in number, an index is repeated or out of range, a value is not finite,
            or there is no such sparse vector.
    """
    if name not in spec.sparse:
        raise _wrong_kind(spec, name, whose[0]) if name in spec.dense else spec.unknown_vector(name)
    for row, who in zip(rows, whose, strict=True):
        if not isinstance(row, models.SparseVector):
            raise _wrong_kind(spec, name, who)
        indices, count = row.indices, len(row.indices)
        if count != len(row.values):
            raise StoreError(f"{who}: vector {name!r} has {count} indices but {len(row.values)} values")
        if len(set(indices)) != count:
            raise StoreError(f"{who}: vector {name!r} has an index twice; add up the values of equal indices")
        if count and (min(indices) < 0 or max(indices) > LARGEST_INDEX):
            raise StoreError(f"{who}: vector {name!r} has an index outside 0 to {LARGEST_INDEX}")
    _finite([row.values for row in rows], whose, name)


def to_engine(vector: models.SparseVector) -> edge.SparseVector:
    """Convert a sparse vector for the engine."""
    return edge.SparseVector(vector.indices, vector.values)


def _finite(rows: Sequence[Sequence[float]], whose: Sequence[str], name: str) -> None:
    """Check in one go; look for the culprit only when there is one."""
    if not rows or _is_finite(np.concatenate(rows)):
        return
    bad = next(who for row, who in zip(rows, whose, strict=True) if not _is_finite(np.asarray(row)))
    raise StoreError(f"{bad}: vector {name!r} holds a value that is not a finite number (NaN, infinite or over 3.4e38)")


def _is_finite(values: Any) -> bool:
    """Return True if all are finite numbers in float32, which the engine stores."""
    with np.errstate(over="ignore"):
        return values.dtype.kind in "fiu" and bool(np.isfinite(values.astype(np.float32)).all())


def _wrong_kind(spec: Spec, name: str, who: str) -> StoreError:
    """Refuse a dense vector where the collection has a sparse one, or the other way round."""
    is_, actual, fitting = ("dense", "sparse", spec.sparse) if name in spec.dense else ("sparse", "dense", spec.dense)
    have = f"its {actual} vectors are {', '.join(map(repr, fitting))}" if fitting else f"it has no {actual} vector"
    return StoreError(f"{who}: vector {name!r} of the collection is {is_}, but a {actual} one was given; {have}")
