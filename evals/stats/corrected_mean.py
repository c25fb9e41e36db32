"""Means of judged scores, where a random sample of the queries was judged, corrected by scores that all queries have.

Let N queries have a proxy score p (the same metric by golden labels, or any that costs nothing), and n of them, drawn
at random, a judged score j. The difference estimator with the weight λ is

    θ = mean over the n of j + λ (mean over the N of p − mean over the n of p).

Its variance over both the draw and the queries' own (a sample of all that users may ask) is
Var(j)/N + (1/n − 1/N) · Var(j − λ p): judging more reduces the second part only, and n = N is plain judging.
The best λ is that of the regression, Cov(j, p)/Var(p), whatever n and N are. It is PPI++'s tuned weight, whose factor
1/(1 + n/N) is there because the labelled queries are not among its N: with them among the N, it cancels.

λ is estimated, and so shrunk by 1 − 1/F, F being the regression's own statistic: it is 0 where the proxy says no more
than chance would. It is kept within 0 to 1. Several proxies become one, their weighted mean, by one regression on all
of them (`joint_weights`, `nested_samples`). Several columns (the cells of a grid) take one λ together, from their
summed covariances and variances, so that chance hardly moves it, and so that a query on which two cells return the same
adds nothing to the variance of their difference, as without correction.

Taking λ for each judged query from the others would make θ unbiased exactly. In simulations it was the worse: where few
queries are relevant, the weight of those that decide is 0, and intervals of 15 queries held the mean in 74% of samples.
The bias that is left is below a third of the standard error, there, and a tenth elsewhere.

Sources: Cochran, Sampling Techniques (3rd ed., 1977, chapter 7), difference and regression estimator; Angelopoulos,
Bates, Fannjiang, Jordan & Zrnic (2023), Science 382, and Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv:2311.01453;
Zou & Donner (2008), Statistics in Medicine 27, for intervals of sums from those of their parts (MOVER).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats.bounded_intervals import bounded_intervals, tied_share
from evals.stats.intervals import Interval, mean_interval, mean_intervals
from evals.stats.joint_weights import FEWEST_REGRESSED, shrunk_weights
from evals.stats.score_intervals import Pair, student

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class CorrectedMean:
    """Mean of judged scores of a sample, corrected by the proxy scores of all queries.

    Attributes:
        value: The estimate, within 0 and 1 for shares.
        interval: 95% interval, for all that users may ask.
        weight: λ, 0 (judging alone) to 1.
        n: Judged queries; `total`, those that have a proxy score.
        alone: Mean of the judged scores alone, `alone_interval`, its interval.
    """

    value: float
    interval: Interval
    weight: float
    n: int
    total: int
    alone: float
    alone_interval: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierPhase:
    """Origin of proxy scores that were not had for every query either (see `evals.stats.nested_samples`).

    Attributes:
        queries: Number of queries for which they were.
        predicted: [N, columns], what the scores before them predict of the proxy.
        weight: Sum of the weights of these scores in it.
    """

    queries: int
    predicted: Floats
    weight: float


def corrected_mean(
    judged: Floats,
    proxy: Floats,
    sampled: Bools,
    *,
    shares: bool = True,
    weight: float | None = None,
    earlier: Sequence[EarlierPhase] = (),
    regressed: int = 0,
) -> CorrectedMean:
    """Return the corrected mean of one metric in one cell, with its interval.

    Args:
        judged: [N], judged scores; those of queries that are not in the sample are not read and may be NaN.
        proxy: [N], finite.
        sampled: [N], whether a query was drawn and judged; at least one.
        shares: True if judged scores lie within 0 and 1.
        weight: λ, where it was estimated from more columns than this one; else None.
        earlier: As in `corrected_intervals`.
        regressed: Likewise.
    """
    columns = judged[:, None], proxy[:, None]
    values, weight = corrected_means(*columns, sampled, weight)
    low, high = corrected_intervals(
        *columns, sampled, shares=shares, weight=weight, earlier=earlier, regressed=regressed
    )
    scores = _limited(judged[sampled], shares=shares)
    alone, value = mean_interval(scores.tolist(), shares=shares), float(values[0])
    return CorrectedMean(
        value=min(1.0, max(0.0, value)) if shares else value,
        interval=Interval(low=float(low[0]), high=float(high[0])) if np.isfinite(low[0]) else alone,
        weight=weight,
        n=int(sampled.sum()),
        total=len(proxy),
        alone=float(scores.mean()),
        alone_interval=alone,
    )


def corrected_means(judged: Floats, proxy: Floats, sampled: Bools, weight: float | None = None) -> tuple[Floats, float]:
    """Return the corrected mean of every column, not limited to 0 and 1, and the λ that all columns share.

    Args:
        judged: [N, columns], read where `sampled`.
        proxy: [N, columns], finite.
        sampled: [N], at least one True.
        weight: λ to use; estimated from the columns where it is left out.
    """
    j, p = judged[sampled], proxy[sampled]
    if weight is None:
        weight = shrunk_weight(j, p) if len(j) < len(proxy) else 0.0
    return weight * proxy.mean(axis=0) + (j - weight * p).mean(axis=0), weight


def shrunk_weight(judged: Floats, proxy: Floats) -> float:
    """Return the λ of a single proxy, 0 to 1 (`joint_weights`).

    Args:
        judged: [n, columns].
        proxy: [n, columns].
    """
    return shrunk_weights(judged, [proxy])[0]


def corrected_intervals(
    judged: Floats,
    proxy: Floats,
    sampled: Bools,
    *,
    shares: bool,
    weight: float | None = None,
    earlier: Sequence[EarlierPhase] = (),
    regressed: int = 0,
) -> Pair:
    """Return 95% intervals of the corrected means, for all that users may ask: lower and upper ends, NaN where none.

    The two parts of the variance each have an interval: the judged scores that of `mean_interval`, here scaled by
    √(n/N), and the residuals j − λ p theirs, scaled by √(1 − n/N); of nested samples there is one part for each phase.
    Their distances to the mean add in squares. So
    n = N and λ = 0 give the interval of plain judging. No distance is longer than its longer one: residuals that are
    nearly all 0 must allow for some that were not seen, yet the estimate is not the worse for them.

    In simulations of 15, 22 and 60 judged of 40, 225 and 500 queries (agreement 0.6, 0.88 and 0.97; relevance of 5% to
    95%; one to six verdicts a query; labels that say the contrary or nothing) they hold the true mean in 94% of samples
    and more.

    Args:
        judged: [N, columns], read where `sampled`.
        proxy: [N, columns], finite.
        sampled: [N], at least one True.
        shares: True if judged scores lie within 0 and 1.
        weight: λ, as in `corrected_means`.
        earlier: How the proxy's scores were had, the latest phase first; none where all queries have them.
        regressed: Number of weights in λ that were estimated, each of which takes a degree of freedom from the
            residuals; 0 for that of a single proxy, which the simulations above are of.
    """
    values, weight = corrected_means(judged, proxy, sampled, weight)
    scores, n = judged[sampled], int(sampled.sum())
    limited = _limited(scores, shares=shares)
    whole = [np.abs(end - limited.mean(axis=0)) for end in mean_intervals(limited, shares=shares)]
    reach = [n / len(proxy) * w**2 for w in whole]
    phases = [(proxy, weight), *((phase.predicted, weight * phase.weight) for phase in earlier)]
    sizes = [n, *(phase.queries for phase in earlier), len(proxy)]
    for (predicted, difference), size, larger in zip(phases, sizes[:-1], sizes[1:], strict=True):
        parts = _residual_distances(scores, weight * predicted, sampled, difference, shares=shares)
        share = n * (1 / size - 1 / larger) * (n - 1) / max(1, n - 1 - regressed)
        reach = [r + share * p**2 for r, p in zip(reach, parts, strict=True)]
    longest = np.maximum(*whole)
    low, high = (values + sign * np.fmin(np.sqrt(r), longest) for sign, r in zip((-1, 1), reach, strict=True))
    return (np.clip(low, 0, 1), np.clip(high, 0, 1)) if shares else (low, high)


def _residual_distances(
    scores: Floats, weighted: Floats, sampled: Bools, weight: float, *, shares: bool
) -> list[Floats]:
    """Return the distances of the ends of the residuals' intervals to their mean.

    Args:
        scores: [n, columns], the judged.
        weighted: [N, columns], λ p.
        sampled: As in `corrected_means`.
        weight: λ, of an earlier phase with that of its prediction.
        shares: True if judged scores lie within 0 and 1.
    """
    residuals = scores - weighted[sampled]
    # A residual's bounds, and the score's own at λ = 0.
    floor = -weighted.max(axis=0) if shares else np.zeros(residuals.shape[1])
    span = 1 + np.ptp(weighted, axis=0) if shares else np.ones(residuals.shape[1])
    # Rounding must not lead beyond.
    ceiling, floor = np.maximum(floor + span, residuals.max(axis=0)), np.minimum(floor, residuals.min(axis=0))
    span = ceiling - floor
    own = _residual_intervals((residuals - floor) / span, weight, shares=shares)
    return [np.abs(floor + span * end - residuals.mean(axis=0)) for end in own]


def _limited(scores: Floats, *, shares: bool) -> Floats:
    """Return scores within 0 and 1 if they are shares: estimates of these may leave the range."""
    return np.clip(scores, 0.0, 1.0) if shares else scores


def _residual_intervals(values: Floats, weight: float, *, shares: bool) -> Pair:
    """Return (1 − λ) · the interval of scores + λ · that of differences, t² of it by the bounds, as in `paired`.

    Args:
        values: [n, columns], residuals moved into 0 to 1 if they have bounds.
        weight: λ.
        shares: True if they have.
    """
    n, mean, scores = len(values), values.mean(axis=0), mean_intervals(values, shares=shares)
    if not shares or not weight or n < FEWEST_REGRESSED:
        return scores
    half = student(np.asarray(float(n))) * values.std(axis=0, ddof=1) / np.sqrt(n)
    tied, bounded = tied_share(values) ** 2, bounded_intervals(values, 0.0, 1.0)
    low, high = (
        (1 - weight) * s + weight * ((1 - tied) * (mean + sign * half) + tied * b)
        for s, b, sign in zip(scores, bounded, (-1, 1), strict=True)
    )
    return low, high


def pseudo_values(
    judged: Floats,
    proxy: Floats,
    sampled: Bools,
    spread: Floats | None = None,
    weight: float | None = None,
) -> Floats:
    """Return an N-vector for every column whose mean is the corrected mean and whose variance / N is its variance.

    ψᵢ = θ + λ (pᵢ − mean p) + k N/n · [i judged] (rᵢ − mean r), r = j − λ p, k² = (1 − 1/N)/(1 − 1/n), with λ the mean
    over the judged queries. At n = N they are the judged scores. Columns that are equal have equal ones, and those of
    two that are equal on many queries differ little there.

    Args:
        judged: [N, columns], read where `sampled`.
        proxy: [N, columns], finite.
        sampled: [N], at least two True.
        spread: [N, columns], pseudo-values of the proxy's own mean, where that is an estimate too; else its scores.
        weight: λ, as in `corrected_means`.
    """
    values, weight = corrected_means(judged, proxy, sampled, weight)
    total, n = len(proxy), int(sampled.sum())
    residuals = judged[sampled] - weight * proxy[sampled]
    scale = total / n * np.sqrt((1 - 1 / total) / (1 - 1 / n))
    spread = proxy if spread is None else spread
    pseudo: Floats = values + weight * (spread - spread.mean(axis=0))
    pseudo[sampled] += scale * (residuals - residuals.mean(axis=0))
    return pseudo
