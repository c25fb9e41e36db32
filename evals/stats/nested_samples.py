"""Proxy scores that only a sample of the queries has: two-phase and many-phase sampling.

Let p₀ be scores of all N queries (golden labels), p₁ those of a cheap judge on n₁ of them, p₂ those of a stronger one
on n₂ of these, and so on to p_K on n_K, which is the truth; the samples S₁ ⊇ S₂ ⊇ … ⊇ S_K are random. The estimate of
the mean of p_k is the difference estimator on that of the mean before:

    θₖ = mean over S_k of pₖ + λₖ (θₖ₋₁ − mean over S_k of pₖ₋₁),   θ₀ = mean over all N of p₀,

each λₖ from the shrunk regression of pₖ on pₖ₋₁ over S_k (`shrunk_weight`). It is the estimator of
`evals.stats.corrected_mean`, whose proxy is pₖ₋₁ where it was had, and elsewhere what the regression predicts of it:
mean over S_k₋₁ of (pₖ₋₁ − λₖ₋₁ pₖ₋₂) + λₖ₋₁ pₖ₋₂. The mean of that over all N is θₖ₋₁.

Its variance, over the draws and the queries' own: let Λⱼ = λⱼ λⱼ₊₁ … λ_K. Given Sⱼ₋₁, and the means over S_K to Sⱼ₊₁
taken for those over Sⱼ, which they estimate, θ_K is mean over Sⱼ of (p_K − Λⱼ pⱼ₋₁) and a constant: Sⱼ as a sample of
Sⱼ₋₁ adds (1/nⱼ − 1/nⱼ₋₁) Var(p_K − Λⱼ pⱼ₋₁). With n₀ = N, and the queries a sample of all that users may ask,

    Var θ_K = Var(p_K)/N + Σ over j = 1 … K of (1/nⱼ − 1/nⱼ₋₁) Var(p_K − Λⱼ pⱼ₋₁).

All of it is seen on the queries of S_K. For K = 1 it is the variance given in `corrected_mean`; for K = 2 and n₁ = N
(the cheap judge judges everything) p₀ drops out. `corrected_intervals` gives each term the interval of its residuals.

In simulations of 15, 22 and 45 queries in S_K (of 60, 225 and 500; the cheap judge on all or on 40% of them, its
agreement with the strong one 0.6, 0.88 and 0.97, that of the labels 0.5 and 0.93; relevance of 5% and 50%; one and five
verdicts a query; 400 draws each) the intervals hold the true mean in 93% of samples and more.

Sources: Cochran, Sampling Techniques (3rd ed., 1977, chapter 12), double sampling, regression estimators; Särndal,
Swensson & Wretman, Model Assisted Survey Sampling (1992, chapter 9), two-phase sampling; Angelopoulos, Duchi & Zrnic
(2023), PPI++, arXiv:2311.01453, for the tuned weight.
"""

from dataclasses import dataclass, replace

import numpy as np

from evals.stats.corrected_mean import EarlierPhase, Floats, corrected_means, pseudo_values


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxyScores:
    """Scores that correct the mean of a judge's.

    Attributes:
        scores: [N, columns], those of a sample completed by a prediction. Their mean is the proxy's estimated mean.
        spread: [N, columns], numbers of the same mean that vary as it does (`pseudo_values`).
        earlier: Where they were completed, from what, the latest phase first.
        weights: Weight of each correction that led to them, the first first; 0 where there was nothing to predict.
    """

    scores: Floats
    spread: Floats
    earlier: tuple[EarlierPhase, ...] = ()
    weights: tuple[float, ...] = ()

    @classmethod
    def of_all(cls, scores: Floats) -> "ProxyScores":
        """Return scores that every query has, [N, columns]; all 0, which corrects nothing, where one is missing."""
        known = scores if np.isfinite(scores).all() else np.zeros_like(scores)
        return cls(scores=known, spread=known)


def completed(scores: Floats, proxy: ProxyScores, weight: float | None = None) -> ProxyScores:
    """Return the scores of a cheaper judge as a proxy, predicted where it judged nothing.

    Args:
        scores: [N, columns], NaN where a query was not judged.
        proxy: Scores that correct these in turn; in place of these where fewer than two queries were judged.
        weight: λ of the prediction, where it was estimated from more columns than these; else None.
    """
    sampled = np.asarray(np.isfinite(scores).all(axis=1), dtype=np.bool_)
    n = int(sampled.sum())
    if n < 2:
        return replace(proxy, weights=(*proxy.weights, 0.0))
    if n == len(scores):
        return ProxyScores(scores=scores, spread=scores, weights=(*proxy.weights, 0.0))
    means, weight = corrected_means(scores, proxy.scores, sampled, weight)
    predicted = means + weight * (proxy.scores - proxy.scores.mean(axis=0))
    return ProxyScores(
        scores=np.where(sampled[:, None], scores, predicted),
        spread=pseudo_values(scores, proxy.scores, sampled, spread=proxy.spread),
        earlier=(EarlierPhase(queries=n, proxy=proxy.scores, weight=weight), *proxy.earlier),
        weights=(*proxy.weights, weight),
    )
