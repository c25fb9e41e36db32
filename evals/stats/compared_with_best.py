"""How far a chosen cell may be from the truly best one, from estimates with a covariance. Pure and seeded.

Multiple comparisons with the best (Hsu, 1984; 1996). Were cell i the best, then with probability 1 − α no other cell's
estimated lead over it is wrong by more than dᵢ standard errors, dᵢ being Dunnett's one-sided quantile for control i:
that of the largest of the correlated deviations, here of a multivariate t distribution with the estimated covariance.
The truly best cell is one of the i. So, for any cell r, however it was chosen,

    regret of r ≤ max over i of (θᵢ − θᵣ + dᵢ · standard error of the difference),

and an i is not the best where some r leads it by more than dᵢ standard errors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# A variance of a difference below this is rounding.
NOTHING = 1e-14


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedWithBest:
    """Comparison of all cells with the truly best one.

    Attributes:
        candidates: [cells], those that may be the best.
        regret: [cells], upper bound of how far each is below the best, at least 0; simultaneous.
        quantiles: [cells], dᵢ; NaN where a cell was ruled out before it was needed.
    """

    candidates: Bools
    regret: Floats
    quantiles: Floats


def compare_with_best(
    estimates: Floats, covariance: Floats, freedom: float, alpha: float, rng: np.random.Generator, draws: int = 2_000
) -> ComparedWithBest:
    """Bound every cell's distance to the best.

    Args:
        estimates: [cells], of means; more is better.
        covariance: [cells, cells], of the estimates.
        freedom: Degrees of freedom of the covariance.
        alpha: Probability that a bound fails.
        rng: Random generator of the simulated deviations.
        draws: Number of them.
    """
    from scipy.special import stdtrit

    own = np.diag(covariance)
    variance = own[:, None] + own - 2 * covariance
    error = np.sqrt(np.where(variance > NOTHING, variance, 0.0))
    # [r, i]: lead of r over i.
    lead = estimates[:, None] - estimates
    largest = -stdtrit(freedom, alpha / max(1, len(estimates) - 1))
    # By Bonferroni no quantile is larger: whom it rules out needs none.
    candidates = ~(lead > largest * error).any(axis=0)
    quantiles = np.full(len(estimates), np.nan)
    deviations = _deviations(covariance, freedom, rng, draws)
    for i in np.flatnonzero(candidates).tolist():
        quantiles[i] = _quantile(deviations, error[:, i], i, float(largest), alpha)
        candidates[i] = not (lead[:, i] > quantiles[i] * error[:, i]).any()
    left = np.flatnonzero(candidates)
    regret = (quantiles[left] * error[:, left] - lead[:, left]).max(axis=1, initial=0.0)
    return ComparedWithBest(candidates=candidates, regret=regret, quantiles=quantiles)


def _deviations(covariance: Floats, freedom: float, rng: np.random.Generator, draws: int) -> NDArray[np.float32]:
    """Draw from the multivariate t distribution; [cells, draws]."""
    values, vectors = np.linalg.eigh(covariance)
    positive = values > values.max(initial=0.0) * 1e-10
    root = (vectors[:, positive] * np.sqrt(values[positive])).T.astype(np.float32)
    normal = rng.standard_normal((draws, len(root)), dtype=np.float32)
    scale = np.sqrt(freedom / rng.chisquare(freedom, size=(draws, 1))).astype(np.float32)
    drawn: NDArray[np.float32] = root.T @ (normal * scale).T
    return drawn


def _quantile(deviations: NDArray[np.float32], error: Floats, control: int, largest: float, alpha: float) -> float:
    """Return Dunnett's one-sided quantile for a control."""
    if not error.any():
        return 0.0
    inverse = np.divide(1.0, error, out=np.zeros_like(error), where=error > 0).astype(np.float32)
    apart = deviations - deviations[control]
    apart *= inverse[:, None]
    return min(largest, max(0.0, float(np.quantile(apart.max(axis=0), 1 - alpha))))
