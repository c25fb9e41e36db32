"""Cohen's kappa of two raters. Pure.

Source: Cohen (1960), "A coefficient of agreement for nominal scales".
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cohens_kappa(counts: Floats) -> Floats:
    """Return Cohen's kappa: (o − c) / (1 − c), o the observed agreement, c that of chance.

    Agreement by chance is that of independent raters with the same margins. The value lies within −1 and 1; it is 0
    where c is 1, as when a resample holds one class alone, which shows no agreement beyond chance.

    Args:
        counts: How often the first rater gave the class of the row and the second that of the column,
            (…, classes, classes).
    """
    n = counts.sum(axis=(-2, -1))
    chance = (counts.sum(axis=-1) * counts.sum(axis=-2)).sum(axis=-1)
    room = n * n - chance
    agreed = np.trace(counts, axis1=-2, axis2=-1)
    kappa: Floats = np.divide(n * agreed - chance, room, out=np.zeros_like(n), where=room > 0)
    return kappa
