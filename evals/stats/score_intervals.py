"""What `corrected_mean` reads of intervals by a sample's variance, until it is replaced. Pure."""

import numpy as np

from evals.stats.intervals import Floats, Pair

__all__ = ["Pair", "student"]


def student(n: Floats, alpha: float = 0.05) -> Floats:
    """Return the quantile q with P(|t| > q) = alpha, for Student's t with n − 1 degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(n - 1, alpha / 2), dtype=float)
