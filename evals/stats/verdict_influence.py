"""By how much a verdict on one chunk moves a cell's average precision. Pure."""

import numpy as np
from numpy.typing import NDArray

from evals.stats.corrected_mean import Bools, Floats

# Rate at which likely verdicts are not the labels.
DISAGREE = 0.07


def likely_worlds(labels: Bools, count: int, seed: int) -> list[Bools]:
    """Return likely verdicts [N, pool]: the labels, each turned over now and then."""
    rng = np.random.default_rng([seed, count])
    return [labels ^ (rng.random(labels.shape) < DISAGREE) for _ in range(count)]


def precision_influence(ranked: NDArray[np.int64], verdicts: Bools) -> NDArray[np.float32]:
    """Return average precision with a chunk useful, less that with it useless, the other verdicts as they are.

    With Hₖ useful among the first k, average precision is Σ vₖ Hₖ / k over the number of useful chunks, T. Without
    place i it is S / (T − vᵢ) with S = Σ over k < i of vₖ Hₖ / k + Σ over k > i of vₖ (Hₖ − vᵢ) / k; with it useful,
    (S + (Hᵢ₋₁ + 1) / i + Σ over k > i of vₖ / k) / (T − vᵢ + 1).

    Args:
        ranked: [N, cells, longest], the places in its query's pool of what a cell returns in rank order, −1 beyond.
        verdicts: [N, pool], likely ones.

    Returns:
        [N, cells, pool]; 0 where a cell does not return a chunk.
    """
    inside = ranked >= 0
    useful = np.take_along_axis(verdicts[:, None], np.maximum(ranked, 0), axis=2) & inside
    rank = np.arange(1, ranked.shape[2] + 1)
    hits = np.cumsum(useful, axis=2)
    terms, shares = useful * hits / rank, useful / rank
    later = shares.sum(axis=2, keepdims=True) - np.cumsum(shares, axis=2)
    without = terms.sum(axis=2, keepdims=True) - terms - useful * later
    others: Floats = hits[:, :, -1:] - useful.astype(float)
    with_it = (without + (hits - useful + 1) / rank + later) / (others + 1)
    change: Floats = with_it - np.divide(without, others, out=np.zeros_like(without), where=others > 0)
    # A last column takes what lies beyond the end of a list.
    influence = np.zeros((*ranked.shape[:2], verdicts.shape[1] + 1), dtype=np.float32)
    np.put_along_axis(influence, ranked, change.astype(np.float32), axis=2)
    return influence[:, :, :-1]
