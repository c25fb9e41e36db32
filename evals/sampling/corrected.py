"""Means of judged scores, where a random sample of the queries was judged, corrected by a proxy that all queries have.

Let N queries have a proxy score p (a cheap judge's, the same metric by golden labels, words of the reference answer)
and n of them, drawn at random, a judged score j. The difference estimator with the weight λ is

    θ = mean over the n of j + λ (mean over the N of p − mean over the n of p).

Of these queries, the residuals j − λ p of the n alone leave θ open: (1/n − 1/N) · Var(j − λ p). Of all that users may
ask, Var(j)/N comes on top: judging more reduces the first part only, and n = N is plain judging. The best λ is that of
the regression, Cov(j, p)/Var(p), whatever n and N are; it is PPI++'s tuned weight, whose factor 1/(1 + n/N) is there
because its labelled queries are not among the N. It is estimated, and so shrunk by 1 − 1/F, F being the regression's
own statistic: 0 where the proxy says no more than chance would. It is kept within 0 to 1.

Several columns (the cells of a grid) take one λ together, from their summed covariances and variances: chance hardly
moves it, and a query on which two cells return the same adds nothing to the variance of their difference.

Sources: Cochran, Sampling Techniques (3rd ed., 1977, chapter 7), difference and regression estimator; Angelopoulos,
Bates, Fannjiang, Jordan & Zrnic (2023), Science 382, and Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv:2311.01453;
Copas (1983), JRSS B 45, for shrinkage by F. docs/method.md has the figures of simulations.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evals.stats import paired
from evals.stats.best import with_unseen
from evals.stats.intervals import LEVEL, SAME, Floats, Interval, Pair, mean_intervals, student_quantile
from evals.stats.paired import Paired, agreed, difference_intervals, sign_flip

Bools = NDArray[np.bool_]
# A regression of fewer has no residual to judge it by.
FEWEST_REGRESSED = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Judged scores of a sample of the queries, within 0 to 1, and what foretells them of all.

    Attributes:
        judged: [N], whether a query was judged; at least one is.
        scores: [n, columns], of the judged.
        foretold: [N, columns], λ times the proxy's.
        weight: λ, 0 (the judged queries alone) to 1.
    """

    judged: Bools
    scores: Floats
    foretold: Floats
    weight: float

    @property
    def n(self) -> int:
        """Number of judged queries."""
        return len(self.scores)

    @property
    def total(self) -> int:
        """Number of queries that the means stand for."""
        return len(self.judged)

    @cached_property
    def residuals(self) -> Floats:
        """[n, columns], what the proxy leaves of the scores."""
        return self.scores - self.foretold[self.judged]

    @property
    def means(self) -> Floats:
        """[columns], the corrected means; those of few queries may leave 0 to 1."""
        means: Floats = self.residuals.mean(axis=0) + self.foretold.mean(axis=0)
        return means

    @property
    def pseudo(self) -> Floats:
        """[N, columns], numbers whose means are the corrected means, and whose variance / N is these means' variance.

        ψ = θ + λ (p − mean p) + k N/n · [judged] (r − mean r), r the residuals and k² = (1 − 1/N)/(1 − 1/n). With all
        judged they are the scores. They go wherever scores of single queries go. At least two queries are judged.
        """
        scale = self.total / self.n * np.sqrt((1 - 1 / self.total) / (1 - 1 / self.n))
        pseudo: Floats = self.means + self.foretold - self.foretold.mean(axis=0)
        pseudo[self.judged] += scale * (self.residuals - self.residuals.mean(axis=0))
        return pseudo

    def of_these(self, looks: int) -> Pair:
        """Return the 95% bounds of the means that judging all of these queries would give; NaN where there are none.

        After a single look no distance is longer than those of `interval` may be: all queries are nearer than all
        that users may ask.

        Args:
            looks: Number of planned looks at a growing sample, at any of which it may have ended (Bonferroni).
        """
        reach = self._open((1 - LEVEL) / looks)
        return self._around(*(self._capped(reach) if looks == 1 else reach))

    def interval(self) -> Pair:
        """Return the 95% intervals of the means of all that users may ask; NaN where there are none.

        The distances to the ends of the scores' interval, scaled by √(n/N), and those of `of_these` add in squares. No
        distance is longer than the longer one of judging alone: residuals that are nearly all 0 must allow for some
        that were not seen, yet the mean is not the worse for them.
        """
        whole = self._alone()
        return self._around(*self._capped(_joined(self.n / self.total, whole, self._open(1 - LEVEL))))

    def _capped(self, reach: Pair) -> Pair:
        longest = np.maximum(*self._alone())
        return np.minimum(reach[0], longest), np.minimum(reach[1], longest)

    def _alone(self) -> Pair:
        """Return the distances from the judged queries' own mean to the ends of its interval."""
        scores = np.clip(self.scores, 0.0, 1.0)
        low, high = mean_intervals(scores, shares=True)
        return scores.mean(axis=0) - low, high - scores.mean(axis=0)

    def _open(self, alpha: float) -> Pair:
        known = np.where(np.isfinite(self._alone()[0]), 0.0, np.nan)
        if self.n == self.total:
            return known, known
        mean, foretold = self.residuals.mean(axis=0), self.foretold[self.judged]
        # A residual's bounds; estimates that are scores may leave theirs.
        floor = np.minimum(-self.foretold.max(axis=0), self.residuals.min(axis=0))
        ceiling = np.maximum(1 - self.foretold.min(axis=0), self.residuals.max(axis=0))
        agreement = (np.abs(self.weight * self.scores - foretold) <= SAME).mean(axis=0)
        share = 1 - self.n / self.total
        below, above = _left_open(self.residuals, mean - floor, ceiling - mean, agreement**2, share, alpha)
        return below + known, above + known

    def _around(self, below: Floats, above: Floats) -> Pair:
        low, high = np.clip([self.means - below, self.means + above], 0.0, 1.0)
        return low, high


def corrected(judged: Floats, proxy: Floats, weight: float | None = None) -> Sample:
    """Return the sample of one metric's scores, with what corrects their means.

    Args:
        judged: [N, columns], NaN where a query has no score. A query counts as judged if it has one in all columns;
            at least one is.
        proxy: [N, columns]. One that does not score every query corrects nothing.
        weight: λ, where it was estimated from more columns or queries than these.
    """
    known: Bools = np.asarray(np.isfinite(judged).all(axis=1))
    proxy = proxy if np.isfinite(proxy).all() else np.zeros_like(judged)
    if known.all():
        weight = 0.0
    elif weight is None:
        weight = shrunk_weight(judged[known], proxy[known])
    return Sample(judged=known, scores=judged[known], foretold=weight * proxy, weight=weight)


def shrunk_weight(judged: Floats, proxy: Floats) -> float:
    """Return λ = Cov/Var · (1 − 1/F), F = (n − 2) R²/(1 − R²), within 0 to 1; columns share it.

    Covariances and variances are summed over columns. 0 where the proxy is constant or speaks against the judge, and
    of fewer than four queries.

    Args:
        judged: [n, columns], finite.
        proxy: [n, columns], likewise.
    """
    j, p = (scores - scores.mean(axis=0) for scores in (judged, proxy))
    own, shared = float((p * p).sum()), float((j * p).sum())
    if len(j) < FEWEST_REGRESSED or shared <= 0 or own <= SAME**2 * p.size:
        return 0.0
    explained = shared**2 / own
    chance = max(0.0, float((j * j).sum()) - explained) / (len(j) - 2)
    return min(1.0, shared / own * max(0.0, 1 - chance / explained))


def weight_of_differences(judged: Floats, proxy: Floats) -> float:
    """Return λ for differences between columns: what moves all cells of a query alike has no part in it.

    Args:
        judged: [n, columns].
        proxy: [n, columns].
    """
    return shrunk_weight(*(scores - scores.mean(axis=1, keepdims=True) for scores in (judged, proxy)))


def difference(judged: Pair, proxies: Pair, seed: int) -> tuple[Paired, float]:
    """Compare two runs' judged scores of the same queries, corrected by the scores that every query has.

    With d the difference of a query's judged scores, q that of its proxies' and r = d − λ q, the estimate is that of
    `corrected`; a query on which both runs return the same has d = q = 0. The distances to the ends of the interval of
    a paired difference (`evals.stats.paired`), scaled by √(n/N), and of what r leaves open add in squares; there t², t
    the share of ties, is the weight of the unseen query on which r is as large as can be.

    Test: Fisher's randomisation. If the runs are exchangeable on each query, changing them over there turns the signs
    of d and q alike: the estimate is the mean of N numbers u = λ q + (N/n) r [judged] whose signs are coins.

    Args:
        judged: Baseline's and other run's scores [N], within 0 to 1, NaN where a query has none; some query has both.
        proxies: Theirs [N]; two that do not score every query correct nothing.
        seed: Seed of the drawn signs.

    Returns:
        The comparison, whose n and wins are of the queries judged in both runs; and λ. It is that of these queries
        alone, with λ = 0, where all were judged, and where the correction would make the interval wider.
    """
    by_judge, by_proxy = ((second - first)[:, None] for first, second in (judged, proxies))
    sample = corrected(by_judge, by_proxy)
    first, second = (scores[sample.judged] for scores in judged)
    alone = paired.compare(first.tolist(), second.tolist(), seed)
    if not sample.weight or alone.interval.note:
        return alone, 0.0
    numbers, d, r = sample.foretold[:, 0].copy(), sample.scores, sample.residuals
    numbers[sample.judged] += sample.total / sample.n * r[:, 0]
    low, high = difference_intervals(d, 1.0)
    ties = (np.abs(d) <= SAME).mean(axis=0)
    mean = r.mean(axis=0)
    largest = np.maximum(1.0, np.abs(r).max(axis=0))
    share = sample.n / sample.total
    rest = _left_open(r, largest + mean, largest - mean, ties**2, 1 - share, 1 - LEVEL)
    below, above = _joined(share, (d.mean(axis=0) - low, high - d.mean(axis=0)), rest)
    interval, p = agreed(sample.means - below, sample.means + above, sign_flip(numbers, seed))
    if _width(interval) > _width(alone.interval):
        return alone, 0.0
    baseline, other = (
        float(corrected(np.where(sample.judged, s, np.nan)[:, None], p[:, None], sample.weight).means[0])
        for s, p in zip(judged, proxies, strict=True)
    )
    means = replace(alone, baseline=baseline, other=other, difference=float(sample.means[0]))
    return replace(means, interval=interval, p=p), sample.weight


def _left_open(residuals: Floats, below: Floats, above: Floats, weight: Floats, share: float, alpha: float) -> Pair:
    """Return how far the mean of all residuals may be below and above that of the judged queries' own.

    Student's interval with one query more that was not seen (`evals.stats.best`): as far off as the others are, and
    with a weight, the square of the share that agrees, as far off as can be. Where labels err on few queries, none of
    these may be among the judged.

    Args:
        residuals: [n, columns].
        below: [columns], the greatest distance possible below their mean.
        above: [columns], the one above it.
        weight: [columns], 0 to 1.
        share: Of all queries, those that were not judged.
        alpha: Probability that an interval misses.
    """
    n = len(residuals)
    centred = residuals - residuals.mean(axis=0)
    nothing = np.zeros(residuals.shape[1])
    variance, sizes = centred.var(axis=0), np.abs(centred)
    usual = sizes.sum(axis=0) / np.maximum(1, (sizes > SAME).sum(axis=0))
    quantile = student_quantile(n - 1, alpha / 2)
    as_seen = quantile * with_unseen(nothing, variance, n, usual, share)[1]
    ends = (with_unseen(nothing, variance, n, distance, share) for distance in (below, above))
    low, high = ((1 - weight) * as_seen + weight * (quantile * error - moved) for moved, error in ends)
    return low, high


def _joined(share: float, whole: Pair, rest: Pair) -> Pair:
    """Add distances in squares: those of the scores by their share of the queries, and what the others leave open."""
    below, above = (np.sqrt(share * own**2 + open_**2) for own, open_ in zip(whole, rest, strict=True))
    return below, above


def _width(interval: Interval) -> float:
    assert interval.low is not None and interval.high is not None
    return interval.high - interval.low
