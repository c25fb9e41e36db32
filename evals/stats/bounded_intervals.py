"""What `corrected_mean` reads of intervals by bounds, until it is replaced. Pure."""

import numpy as np

from evals.stats.intervals import SAME, Floats, bounded_intervals

__all__ = ["bounded_intervals", "tied_share"]


def tied_share(values: Floats) -> Floats:
    """Return the share of each column that repeats its most frequent value, (k − 1)/(n − 1): 0 if all differ.

    Args:
        values: [n, columns].
    """
    ordered, positions = np.sort(values, axis=0), np.arange(len(values))[:, None]
    is_first = np.vstack([np.ones_like(ordered[:1], dtype=np.bool_), np.diff(ordered, axis=0) > SAME])
    starts = np.maximum.accumulate(np.where(is_first, positions, 0), axis=0)
    repeats: Floats = (positions - starts).max(axis=0) / max(len(values) - 1, 1)
    return repeats
