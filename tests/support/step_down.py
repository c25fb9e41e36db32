"""Plain step-down max-T, the oracle for sets of best cells."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def step_down(values: Floats, resamples: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return the cells that are not proved worse than the best as measured, at 5% for all of them together.

    Romano & Wolf (2005, Econometrica 73): the largest of the t statistics is held against the bootstrap quantile of
    the largest over the cells that are left, until none exceeds it.

    Args:
        values: [queries, cells].
        resamples: Of the queries.
        rng: Where chance comes from.
    """
    n = len(values)
    behind = values[:, [values.mean(axis=0).argmax()]] - values
    mean, error = behind.mean(axis=0), behind.std(axis=0, ddof=1) / np.sqrt(n)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
    moved = counts @ behind / n - mean
    varies = error > 1e-12
    moved[:, varies] /= error[varies]
    statistic = np.divide(mean, error, out=np.where(mean > 1e-12, np.inf, 0.0), where=varies)
    left = np.ones(len(mean), dtype=np.bool_)
    while (beaten := left & (statistic > np.quantile(moved[:, left].max(axis=1), 0.95))).any():
        left &= ~beaten
    return left
