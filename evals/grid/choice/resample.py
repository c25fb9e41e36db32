"""The bootstrap: resampled queries, the same draws for all cells."""

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice.standings import Floats, Integers
from evals.stats.resampling import drawn_counts

# Entries of a batch of resample counts or means: 8 MB, which stays in a processor's cache.
BATCH = 1_000_000


def resample(values: Floats, strata: Integers, resamples: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw as many queries of each stratum as there are, with replacement, and average every cell over the draw.

    Counts times scores is one matrix product in double precision; only the deviations are kept in single.

    Returns:
        [resamples, cells], each resample's mean minus the mean.

    Args:
        values: [queries, cells], columns in the order in which equal ones are preferred.
        strata: [queries].
        resamples: Number of resamples.
        rng: Random generator.
    """
    n, cells = values.shape
    order, mean = np.argsort(strata, kind="stable"), values.mean(axis=0)
    ordered = values if np.all(strata[1:] >= strata[:-1]) else values[order]
    sizes = np.unique(strata, return_counts=True)[1]
    deviations = np.empty((resamples, cells), dtype=np.float32)
    counts = np.empty((min(resamples, max(1, BATCH // max(n, cells))), n))
    for start in range(0, resamples, len(counts)):
        batch = counts[: resamples - start]
        _draw(batch, sizes, rng)
        deviations[start : start + len(batch)] = batch @ ordered / n - mean
    return deviations


def _draw(counts: Floats, sizes: Integers, rng: np.random.Generator) -> None:
    """Fill [resamples, queries] with how often each query is drawn; queries are in order of their strata."""
    ends = np.cumsum(sizes)
    for first, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True):
        rows = rng.integers(0, end - first, size=(len(counts), end - first))
        counts[:, first:end] = drawn_counts(rows, end - first)
