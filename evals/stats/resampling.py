"""Samples drawn with replacement, as counts: the sums over many samples are then one matrix product."""

import numpy as np
from numpy.typing import NDArray

CACHED = 50_000
"""Counts that stay in a processor's cache."""


def drawn_counts(places: NDArray[np.integer], n: int) -> NDArray[np.float64]:
    """How often every one of n is in each sample, (…, n).

    Args:
        places: What was drawn, each within 0 to n − 1, (…, drawn).
        n: Of how many.
    """
    flat = places.reshape(-1, places.shape[-1])
    counts = np.empty((len(flat), n))
    rows = max(1, CACHED // n)
    for begun in range(0, len(flat), rows):
        part = flat[begun : begun + rows]
        numbered = part + n * np.arange(len(part))[:, None]
        counts[begun : begun + rows] = np.bincount(numbered.ravel(), minlength=len(part) * n).reshape(-1, n)
    return counts.reshape(*places.shape[:-1], n)
