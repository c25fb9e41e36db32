"""Vectors for a collection that keeps them as whole numbers from 0 to 255 (uint8)."""

from collections.abc import Sequence

import numpy as np

from retrievers.errors import EmbeddingMismatchError
from retrievers.store.collection import CollectionInfo

LARGEST = 255


def as_stored(vectors: Sequence[Sequence[float]], info: CollectionInfo, model: str) -> list[list[float]]:
    """Return vectors as the collection keeps them: rounded to whole numbers for uint8, and else unchanged.

    A server would cut decimals off a query's vector, and compare it rounded down with vectors rounded to the nearest.

    Args:
        vectors: Vectors of a model.
        info: The collection.
        model: The name of the model, for the message.

    Raises:
        EmbeddingMismatchError: The model makes other numbers than from 0 to 255.
    """
    if info.datatype != "uint8":
        return [list(vector) for vector in vectors]
    rounded = np.rint(np.asarray(vectors, dtype=np.float64))
    outside = rounded[(rounded < 0) | (rounded > LARGEST)]
    if outside.size or not rounded.any(axis=-1).all():
        largest = np.asarray(vectors).ravel()[np.abs(vectors).argmax()]
        raise EmbeddingMismatchError(
            f"collection {info.name!r} keeps vectors as whole numbers from 0 to {LARGEST} (uint8), and {model} makes "
            f"others (the largest is {largest:.3g}); configure a model of such vectors"
        )
    numbers: list[list[float]] = rounded.tolist()
    return numbers
