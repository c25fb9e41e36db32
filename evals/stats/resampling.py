"""Samples drawn with replacement, as counts: the sums over many samples are then one matrix product."""

import numpy as np
from numpy.typing import NDArray

# Number of counts that fit a processor's cache.
CACHED = 50_000


def drawn_counts(indices: NDArray[np.integer], n: int) -> NDArray[np.float64]:
    """Count the draws of each of n items in each sample, (…, n).

    Args:
        indices: Indices of the drawn items, each 0 to n − 1, (…, drawn).
        n: Number of items.
    """
    flat = indices.reshape(-1, indices.shape[-1])
    counts = np.empty((len(flat), n))
    rows = max(1, CACHED // n)
    for start in range(0, len(flat), rows):
        part = flat[start : start + rows]
        # Each row gets its own range of numbers, so that one bincount counts all rows.
        numbered = part + n * np.arange(len(part))[:, None]
        counts[start : start + rows] = np.bincount(numbered.ravel(), minlength=len(part) * n).reshape(-1, n)
    return counts.reshape(*indices.shape[:-1], n)
