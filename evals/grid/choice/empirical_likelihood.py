"""Evidence that one cell is truly ahead of another, although losses may be missing from the sample.

Neighbouring cells score the same on most queries, so that a few decide, and the rare query on which a cell loses
everything may not be among those asked. Then the standard error is far too small (figures in docs/choice.md).
The empirical likelihood (Owen, 2001) needs none: it is the share of the likelihood that is left when the queries are
weighted such that the mean difference is 0. It is exp(−E), with the evidence

    E = max over λ > 0 of Σ log(1 + λ D), D the differences query by query.

One query is added to those asked, on which the cell ahead loses everything (`Pairs.typical_loss`). Where many queries
differ in both directions, it hardly counts, and E is about t² / 2. Where few do, E reaches `TIE` only if so few losses
as were seen would have a probability below 4% (Poisson) were there a tie.
"""

import numpy as np
from numpy.typing import NDArray

from evals.grid.choice.standings import Bools, Floats

# Evidence at which a tie has a p value of 5%, one-sided: half the square of the normal quantile.
TIE = 1.6448536269514722**2 / 2
STEP = 0.75
# Factors that are multiplied before the logarithm: the product stays within single precision.
TOGETHER = 16


def beyond_doubt(differences: Floats, loss: float) -> Bools:
    """Return the columns [columns] whose mean is above 0 beyond doubt, with one loss more than observed.

    Only some λ are tried; any of them errs on the side of doubt.

    Args:
        differences: [queries, columns].
        loss: Possible loss on a query, above 0.
    """
    narrow = np.ascontiguousarray(differences, dtype=np.float32)
    n, columns = narrow.shape
    largest = 1 / np.maximum(-narrow.min(axis=0), loss)
    whole = n // TOGETHER * TOGETHER
    evidence = np.zeros(columns)
    for share in _shares(n):
        stake = share * largest
        factors: NDArray[np.float32] = narrow * stake.astype(np.float32)
        factors += 1
        products = factors[:whole].reshape(-1, TOGETHER, columns).prod(axis=1)
        summed = np.log(products).sum(axis=0) + np.log(factors[whole:]).sum(axis=0)
        np.maximum(evidence, summed + np.log1p(-stake * loss), out=evidence)
    return evidence > TIE


def _shares(n: int) -> list[float]:
    """Return values of λ as shares of the largest, down to the least that matters for n queries."""
    least = min(0.5, np.sqrt(2 * TIE / n))
    return [0.9 * STEP**power for power in range(1 + int(np.ceil(np.log(least / 0.9) / np.log(STEP))))]
