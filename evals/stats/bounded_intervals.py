"""Score intervals of means of values that have bounds: they allow for values that a sample does not hold. Pure.

Where most values are the same, the few others decide, and the rare large one may not be among them. The sample's
variance does not show that; the bounds do. Of all distributions within the bounds whose mean is δ, take the one under
which the sample is likeliest; it may put weight on a bound that no value reached. The interval holds the means δ whose
distance to the observed mean m is at most z standard errors of that distribution: (m − δ)² n ≤ z² V(δ).

Its weights are proportional to 1/(c − x) and its variance is (c − δ)(δ − m), for one number c that is not below the
upper bound (for δ > m; the lower end is the mirror image). So the upper end is the mean with z² further values of c,
(n m + z² c)/(n + z²), where c is the least number for which the harmonic mean of the distances c − x is at least
n/(n + z²) of their arithmetic mean.

Of values 0 and 1 this is Wilson's interval (1927), of differences −1, 0 and 1 Tango's (1998). The likelihood is Owen's
empirical one (1988) with the bounds added to its support, which is Honda and Takemura's (COLT 2010).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Newton's method takes fewer than ten; the limit guards against values that are not finite.
STEPS = 100
# Values that differ by no more are equal.
TINY = 1e-9
# A last Newton step below this leaves an error of about its square.
CLOSE = 1e-8


def bounded_intervals(values: Floats, floor: float, ceiling: float, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """Return the intervals of the means of columns.

    Args:
        values: [n, columns], within the bounds, n at least 1.
        floor: The least value possible.
        ceiling: The greatest value possible.
        alpha: Probability that an interval misses the mean, between 0 and 1; 0.05 for 95%.

    Returns:
        Lower and upper ends [columns], within the bounds.
    """
    from scipy.special import ndtri

    quantile: Any = ndtri(alpha / 2)
    share = len(values) / (len(values) + float(quantile) ** 2)
    return 0.0 - _upper(-values, -floor, share), _upper(values, ceiling, share)


def tied_share(values: Floats) -> Floats:
    """Return the share of each column that repeats its most frequent value, (k − 1)/(n − 1): 0 if all differ.

    Args:
        values: [n, columns].
    """
    ordered, positions = np.sort(values, axis=0), np.arange(len(values))[:, None]
    is_first = np.vstack([np.ones_like(ordered[:1], dtype=np.bool_), np.diff(ordered, axis=0) > TINY])
    starts = np.maximum.accumulate(np.where(is_first, positions, 0), axis=0)
    repeats: Floats = (positions - starts).max(axis=0) / max(len(values) - 1, 1)
    return repeats


def _upper(values: Floats, ceiling: float, share: float) -> Floats:
    mean = values.mean(axis=0)
    end: Floats = mean + (1 - share) * _reach(values - mean, ceiling - mean, share)
    return np.minimum(end, ceiling)


def _reach(centred: Floats, least: Floats, share: float) -> Floats:
    """Return the least c − m ≥ `least` at which harmonic over arithmetic mean of the c − x is at least `share`.

    That ratio is concave and decreasing in 1/(c − m): Newton's method goes beyond the root at most once, and from there
    straight to it. It starts where the ratio would be `share` if only the variance counted.
    """
    # There the ratio is below `share`.
    nearest = np.maximum(centred.max(axis=0), TINY) / (1 - share / len(centred))
    most = 1 / np.maximum(nearest, least)
    inverse = np.minimum(most, np.sqrt(1 - share) / np.maximum(centred.std(axis=0), TINY))
    for _ in range(STEPS):
        weights = 1 / (1 - inverse * centred)
        ratio = 1 / weights.mean(axis=0)
        slope = np.einsum("ij,ij,ij->j", centred, weights, weights) / len(centred) * ratio**2
        step = np.divide(ratio - share, slope, out=np.full_like(ratio, np.inf), where=slope > TINY**2)
        before, inverse = inverse, np.minimum(most, inverse + step)
        if np.allclose(before, inverse, rtol=CLOSE, atol=0):
            break
    reach: Floats = 1 / inverse
    return reach
