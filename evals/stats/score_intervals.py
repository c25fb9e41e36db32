"""95% score intervals of many means at once. Pure; arrays in, arrays out.

A score interval holds the means δ whose distance to the observed mean m is at most q standard errors, with the variance
that the values would have if δ were their mean: (m − δ)² n = q² V(δ). Values of queries are skewed, and then spread and
mean go together: a variance taken at m, as in m ± q s/√n, is too small on the side where the mean lies.

- Proportions: V(δ) = δ(1 − δ), q = 1.96. Wilson (1927).
- Shares (within [0, 1]): V(δ) = φ δ(1 − δ) with φ = s²/(m(1 − m)), q from Student's t. This is Wilson's interval at the
  effective number n/φ, which surveys use: Kott & Carr (1997); Franco, Little, Louis & Slud (2019).
- Amounts (all of one sign): V(δ) = s² + (μ₃/μ₂)(δ − m), q from Student's t: in a natural exponential family the
  variance changes with the mean by the third central moment over the second. Johnson (1978) corrects t by that ratio.
- Differences (of both signs): V(δ) = s², which is Student's interval. A sample's skewness says little of theirs, and
  corrected by it (or by BCa) the interval holds the mean in 82% to 92% of samples of 40 instead of 94% to 95%.

The more values are equal, the less a sample's own variance can be trusted: see `bounded_intervals`.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
Z = 1.959963984540054


def proportion_intervals(share: Floats, n: Floats) -> Pair:
    """Return Wilson's intervals, with ends of exactly 0 and 1 where no or every trial succeeded.

    Args:
        share: Share of the trials that succeeded, 0 to 1.
        n: Trials, at least one; broadcast with `share`.
    """
    low, high = _wilson(share, n, np.asarray(Z))
    return np.where(share > 0, low, 0.0), np.where(share < 1, high, 1.0)


def share_intervals(mean: Floats, variance: Floats, n: Floats) -> Pair:
    """Return intervals of means of shares.

    Args:
        mean: Strictly between 0 and 1.
        variance: Unbiased sample variance, above 0.
        n: Number of values, at least two.
    """
    low, high = _wilson(mean, n * mean * (1 - mean) / variance, student(n))
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def amount_intervals(mean: Floats, variance: Floats, third: Floats, n: Floats) -> Pair:
    """Return intervals of means of amounts, or of differences.

    Args:
        mean: Means, of any sign.
        variance: Unbiased sample variance, above 0.
        third: Third central moment (the mean of cubed distances); 0 for differences.
        n: Number of values, at least two.
    """
    square = student(n) ** 2
    tilt = square * third / (variance * (n - 1) / n)
    root = np.sqrt(tilt**2 + 4 * n * square * variance)
    return mean + (tilt - root) / (2 * n), mean + (tilt + root) / (2 * n)


def student(n: Floats, alpha: float = 0.05) -> Floats:
    """Return the quantile q with P(|t| > q) = alpha, for Student's t with n − 1 degrees of freedom."""
    # In place of scipy.stats, whose import takes half a second.
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(n - 1, alpha / 2), dtype=float)


def _wilson(share: Floats, n: Floats, quantile: Floats) -> Pair:
    square = quantile**2
    centre = share + square / (2 * n)
    spread = quantile * np.sqrt(share * (1 - share) / n + square / (4 * n * n))
    scale = 1 + square / n
    return (centre - spread) / scale, (centre + spread) / scale
