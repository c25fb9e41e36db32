"""The power-tuned prediction-powered mean (PPI++): a few trusted scores, and others that merely predict them. Pure.

θ = λ · mean(f over the others) + mean(y − λ · f over the labelled). The labelled are not among the others; where they
are, as queries of a judged sample are among all with golden labels, see `corrected_mean`, which is the same estimate.

Source: Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv:2311.01453.
"""

import numpy as np

from evals.stats.corrected_mean import Floats
from evals.stats.intervals import SAME


def power_tuned(y: Floats, f: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Return the power-tuned prediction-powered mean and its λ (PPI++, example 6.1 and section 6).

    λ = Cov(y, f) / ((1 + n/N) Var(f)), kept within 0 to 1: the covariance over the n labelled, the variance over all
    n + N. Over the last axis.

    Args:
        y: Scores of the labelled queries, by people or a stronger judge, (…, n).
        f: Proxy scores of these, by the judge, (…, n).
        others: Proxy scores of the other queries, (…, N).

    Returns:
        The means and the λ, (…).
    """
    n, rest = y.shape[-1], others.shape[-1]
    if rest < 2:
        return y.mean(axis=-1), np.zeros(y.shape[:-1])
    f_mean, others_mean = f.mean(axis=-1), others.mean(axis=-1)
    covariance = (y * f).mean(axis=-1) - y.mean(axis=-1) * f_mean
    # The difference of the two means adds to both spreads.
    apart = n * rest / (n + rest) * (f_mean - others_mean) ** 2
    variance = (n * f.var(axis=-1) + rest * others.var(axis=-1) + apart) / (n + rest - 1)
    share = np.divide(covariance, (1 + n / rest) * variance, out=np.zeros_like(variance), where=variance > SAME**2)
    tuning = np.clip(share, 0, 1)
    return y.mean(axis=-1) + tuning * (others_mean - f_mean), tuning
