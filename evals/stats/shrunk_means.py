"""Corrected means of many cells, shrunk towards what labels say: to choose the best cell by, not to report. Pure.

A corrected mean is λ · the mean of the proxy + the mean residual r of the judged queries. Among hundreds of cells the
highest corrected mean owes much to chance in r. What the judge and labels disagree on depends mainly on how much a cell
returns (each chunk more is one more verdict that may differ), and only then on which chunks. So r is split into its
regression on the logarithm of the mean number of returned chunks, which is kept, and the rest, which is shrunk by

    1 − λ · min(1, variance of the rest by chance / its sum of squares),

the positive-part empirical Bayes estimator, as far as the proxy is trusted: with a useless one (λ near 0) nothing is
shrunk, and with all queries judged nothing either. Bounds on how far the chosen cell is from the best hold whichever
way it was chosen (`compared_with_best`).

Sources: James & Stein (1961); Efron & Morris (1973), JASA 68; Fay & Herriot (1979), JASA 74, for the regression.
"""

import numpy as np
from numpy.typing import NDArray

from evals.stats.corrected_mean import Bools, Floats, shrunk_weight


def shrunk_means(judged: Floats, proxy: Floats, sampled: Bools, returned: Floats) -> Floats:
    """Return a score for every cell whose highest is the best guess at the best cell.

    Args:
        judged: [N, cells], read where `sampled`.
        proxy: [N, cells], finite.
        sampled: [N], a random sample, at least two True.
        returned: [cells], mean number of chunks that a cell returns.
    """
    n, share = int(sampled.sum()), float(sampled.mean())
    j, p = judged[sampled], proxy[sampled]
    weight = weight_of_differences(j, p)
    residuals = j - weight * p
    centred = residuals - residuals.mean(axis=0)
    covariance = (1 - share) / (n * (n - 1)) * centred.T @ centred
    means: Floats = weight * proxy.mean(axis=0) + shrunk_residuals(residuals.mean(axis=0), covariance, returned, weight)
    return means


def weight_of_differences(judged: Floats, proxy: Floats) -> float:
    """Return λ for differences between columns: what moves all cells of a query alike has no part in it.

    Args:
        judged: [n, columns].
        proxy: [n, columns].
    """
    return shrunk_weight(*(scores - scores.mean(axis=1, keepdims=True) for scores in (judged, proxy)))


def shrunk_residuals(means: Floats, covariance: Floats, returned: Floats, trust: float) -> Floats:
    """Shrink mean residuals towards their regression on the logarithm of the number of returned chunks.

    Args:
        means: [cells], of the residuals.
        covariance: [cells, cells], of these means.
        returned: [cells], mean number of chunks that a cell returns.
        trust: λ, 0 to 1.
    """
    predictors = np.stack([np.ones(len(means)), np.log1p(returned)], axis=1)
    fitted: NDArray[np.float64] = predictors @ np.linalg.lstsq(predictors, means, rcond=None)[0]
    rest = means - fitted
    basis = np.linalg.qr(predictors)[0]
    chance = max(0.0, float(np.trace(covariance) - np.trace(basis.T @ covariance @ basis)))
    squares = float(rest @ rest)
    share = min(1.0, chance / squares) if squares > 0 else 0.0
    return fitted + (1 - trust * share) * rest
