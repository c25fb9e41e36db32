"""Means of judged scores, where a random sample of the queries was judged, corrected by a proxy that all queries have.

Estimate. Let N queries have a proxy score p (of a cheap judge, of the same metric by golden labels, or by words of the
reference answer). Let n of them, drawn at random, have a judged score j. The difference estimator with the weight λ is

    θ = mean over the n of j + λ (mean over the N of p − mean over the n of p).

Variance. For these queries the variance of θ is (1/n − 1/N) · Var(j − λ p), by the residuals of the n. For all that
users may ask, Var(j)/N comes on top. Judging more queries reduces the first part only, and n = N is plain judging.

Weight. The best λ is that of the regression, Cov(j, p)/Var(p), for any n and N. (PPI++ has the same tuned weight with a
factor 1/(1 + n/N), as its labelled queries are not among the N.) As λ is estimated, it is shrunk by 1 − 1/F, where F is
the statistic of the regression: it is 0 if the proxy says no more than chance would. λ is kept within 0 and 1. Several
columns (the cells of a grid) share one λ, from their summed covariances and variances. So chance hardly moves λ, and a
query on which two cells return the same adds nothing to the variance of their difference.

Sources: Cochran, Sampling Techniques (3rd ed., 1977, chapter 7), difference and regression estimator; Angelopoulos,
Bates, Fannjiang, Jordan & Zrnic (2023), Science 382, and Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv:2311.01453;
Copas (1983), JRSS B 45, for shrinkage by F. docs/method.md has the figures of simulations.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evals.stats import paired
from evals.stats.best import with_unseen
from evals.stats.intervals import LEVEL, SAME, Bools, Floats, Interval, Pair, mean_intervals, student_quantile
from evals.stats.paired import Paired, agreed, difference_intervals, sign_flip

# A regression of fewer queries leaves too few residuals for its F.
FEWEST_REGRESSED = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Judged scores of a sample of the queries, within 0 to 1, and weighted proxy scores of all queries.

    Attributes:
        judged: [N], whether a query was judged; at least one is.
        scores: [n, columns], scores of the judged queries.
        foretold: [N, columns], λ times the proxy scores of all queries.
        weight: λ, 0 (no correction) to 1.
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
        """[n, columns], scores of the judged queries minus λ times their proxy scores."""
        return self.scores - self.foretold[self.judged]

    @property
    def agreement(self) -> Floats:
        """[columns], share of the judged queries on which the proxy says the same as the judge; 1 without a proxy."""
        differences = self.weight * self.scores - self.foretold[self.judged]
        return np.asarray((np.abs(differences) <= SAME).mean(axis=0))

    @property
    def means(self) -> Floats:
        """The corrected means, [columns]. For few queries they may lie outside of what is possible."""
        return np.asarray(self.residuals.mean(axis=0) + self.foretold.mean(axis=0))

    @property
    def possible(self) -> Pair:
        """The least and largest means of these queries, [columns] each: all that were not judged score 0, or 1."""
        told = np.clip(self.scores, 0.0, 1.0).sum(axis=0) / self.total
        return told, told + 1 - self.n / self.total

    @property
    def values(self) -> Floats:
        """The corrected means that a report shows, [columns]: they lie within what is possible."""
        return np.clip(self.means, *self.possible)

    @property
    def pseudo(self) -> Floats:
        """[N, columns], pseudo-values: their means are the corrected means, their variances / N the means' variances.

        ψ = θ + λ (p − mean p) + k N/n · [judged] (r − mean r), with the residuals r and k² = (1 − 1/N)/(1 − 1/n). If
        all queries are judged, they are the scores. They can take the place of scores of single queries. At least two
        queries must be judged.
        """
        scale = self.total / self.n * np.sqrt((1 - 1 / self.total) / (1 - 1 / self.n))
        pseudo: Floats = self.means + self.foretold - self.foretold.mean(axis=0)
        pseudo[self.judged] += scale * (self.residuals - self.residuals.mean(axis=0))
        return pseudo

    def of_these(self, looks: int) -> Pair:
        """Return the 95% bounds of the means that judging all of these queries would give, [columns]; NaN for none.

        After a single look they are no farther away than judging alone allows, as in `interval`: these queries leave
        less open than all that users may ask.

        Args:
            looks: Number of planned looks at a growing sample. Judging may have ended at any of them (Bonferroni).
        """
        below, above = reach = self._open((1 - LEVEL) / looks)
        if looks == 1:
            below, above = self._cap(reach)
        low, high = np.clip([self.values - below, self.values + above], *self.possible)
        return low, high

    def interval(self) -> Pair:
        """Return the 95% intervals of the means of all that users may ask, [columns] each; NaN for none.

        Two distances add in squares: that to the end of the scores' interval, scaled by √(n/N), and that to the bound
        of `of_these`. No distance is longer than the longer one of judging alone: residuals that are nearly all 0 allow
        for others that were not seen, which must not make the interval worse than without a proxy.
        """
        below, above = self._cap(_add(self.n / self.total, self._alone(), self._open(1 - LEVEL)))
        low, high = np.clip([self.values - below, self.values + above], 0.0, 1.0)
        return low, high

    def _cap(self, reach: Pair) -> Pair:
        """Return distances, each at most the longer one of judging alone."""
        longest = np.maximum(*self._alone())
        return np.minimum(reach[0], longest), np.minimum(reach[1], longest)

    def _alone(self) -> Pair:
        """Return the distances from the mean of the judged scores to the ends of its interval."""
        scores = np.clip(self.scores, 0.0, 1.0)
        low, high = mean_intervals(scores, shares=True)
        return scores.mean(axis=0) - low, high - scores.mean(axis=0)

    def _open(self, alpha: float) -> Pair:
        """Return how far the mean by all verdicts on these queries may be below and above the corrected mean."""
        known = np.where(np.isfinite(self._alone()[0]), 0.0, np.nan)
        if self.n == self.total:
            return known, known
        mean = self.residuals.mean(axis=0)
        # Bounds of a residual. Scores outside of 0 to 1 have residuals beyond them.
        floor = np.minimum(-self.foretold.max(axis=0), self.residuals.min(axis=0))
        ceiling = np.maximum(1 - self.foretold.min(axis=0), self.residuals.max(axis=0))
        share = 1 - self.n / self.total
        below, above = _left_open(self.residuals, mean - floor, ceiling - mean, self.agreement**2, share, alpha)
        return below + known, above + known


def corrected(judged: Floats, proxy: Floats, weight: float | None = None) -> Sample:
    """Return the sample of a metric's scores, with the correction of their means.

    Args:
        judged: [N, columns], NaN where a query has no score. A query counts as judged if it has a score in all columns.
            At least one query is judged.
        proxy: [N, columns], the proxy scores. A proxy that does not score every query corrects nothing.
        weight: λ, if it was estimated from more columns or queries than these; None to estimate it.
    """
    known: Bools = np.asarray(np.isfinite(judged).all(axis=1))
    proxy = proxy if np.isfinite(proxy).all() else np.zeros_like(judged)
    if known.all():
        weight = 0.0
    elif weight is None:
        weight = shrunk_weight(judged[known], proxy[known])
    return Sample(judged=known, scores=judged[known], foretold=weight * proxy, weight=weight)


def shrunk_weight(judged: Floats, proxy: Floats) -> float:
    """Return λ = Cov/Var · (1 − 1/F) with F = (n − 2) R²/(1 − R²), within 0 to 1, for all columns together.

    Covariances and variances are summed over columns. λ is 0 if the proxy is constant or correlates negatively with the
    judge, and for fewer than four queries.

    Args:
        judged: [n, columns], finite.
        proxy: [n, columns], finite.
    """
    j, p = (scores - scores.mean(axis=0) for scores in (judged, proxy))
    variance, covariance = float((p * p).sum()), float((j * p).sum())
    if len(j) < FEWEST_REGRESSED or covariance <= 0 or variance <= SAME**2 * p.size:
        return 0.0
    explained = covariance**2 / variance
    unexplained = max(0.0, float((j * j).sum()) - explained) / (len(j) - 2)
    return min(1.0, covariance / variance * max(0.0, 1 - unexplained / explained))


def weight_of_differences(judged: Floats, proxy: Floats) -> float:
    """Return λ for differences between columns. What moves all columns of a query alike has no part in it.

    Args:
        judged: [n, columns], finite.
        proxy: [n, columns], finite.
    """
    return shrunk_weight(*(scores - scores.mean(axis=1, keepdims=True) for scores in (judged, proxy)))


def difference(judged: Pair, proxies: Pair, seed: int) -> tuple[Paired, float]:
    """Compare two runs' judged scores of the same queries, corrected by the proxy scores that every query has.

    Estimate. Let d be the difference of a query's judged scores, q that of its proxy scores, and r = d − λ q. The
    estimate is that of `corrected`. A query on which both runs return the same has d = q = 0.

    Interval. Two distances add in squares: that to the end of the interval of a paired difference
    (`evals.stats.paired`), scaled by √(n/N), and that which r leaves open. With t the share of ties, t² is the weight
    of an unseen query on which r is as large as possible.

    Test. It is Fisher's randomisation test. If the runs are exchangeable on each query, exchanging them there turns the
    signs of d and q alike. So the estimate is the mean of N numbers u = λ q + (N/n) r [judged] with random signs.

    Args:
        judged: Scores of the baseline and of the other run, [N] each, within 0 to 1, NaN where a query has none. Some
            query has both.
        proxies: Proxy scores of the two runs, [N] each. Proxies that do not score every query correct nothing.
        seed: Seed of the drawn signs.

    Returns:
        The comparison, and λ. Its counts are over the queries that were judged in both runs. If all queries were
        judged, or if the correction would widen the interval, it is the comparison of these queries alone, with λ = 0.
    """
    by_judge, by_proxy = ((second - first)[:, None] for first, second in (judged, proxies))
    sample = corrected(by_judge, by_proxy)
    first, second = (scores[sample.judged] for scores in judged)
    alone = paired.compare(first.tolist(), second.tolist(), seed)
    if not sample.weight or alone.interval.note:
        return alone, 0.0
    share, d, r = sample.n / sample.total, sample.scores, sample.residuals
    low, high = difference_intervals(d, 1.0)
    ties = (np.abs(d) <= SAME).mean(axis=0)
    mean = r.mean(axis=0)
    largest = np.maximum(1.0, np.abs(r).max(axis=0))
    rest = _left_open(r, largest + mean, largest - mean, ties**2, 1 - share, 1 - LEVEL)
    below, above = _add(share, (d.mean(axis=0) - low, high - d.mean(axis=0)), rest)
    u = sample.foretold[:, 0].copy()
    u[sample.judged] += sample.total / sample.n * r[:, 0]
    interval, p = agreed(sample.means - below, sample.means + above, sign_flip(u, seed))
    if _width(interval) > _width(alone.interval):
        return alone, 0.0
    baseline, other = (
        float(corrected(np.where(sample.judged, scores, np.nan)[:, None], proxy[:, None], sample.weight).means[0])
        for scores, proxy in zip(judged, proxies, strict=True)
    )
    means = replace(alone, baseline=baseline, other=other, difference=float(sample.means[0]))
    return replace(means, interval=interval, p=p), sample.weight


def _left_open(residuals: Floats, below: Floats, above: Floats, weight: Floats, share: float, alpha: float) -> Pair:
    """Return how far the mean of all residuals may be below and above the mean of the judged queries' residuals.

    It is Student's interval with an unseen query (`evals.stats.best`), whose residual is as far off as the farthest of
    the others. λ and its mean are estimated: n − 2 degrees of freedom, and variance · (n − 1)/(n − 2) · (1 + 1/n). With
    a weight, the square of the share of queries on which proxy and judge agree, the unseen residual is as far off as
    possible: if labels are wrong on few queries, none of these may be among the judged.

    Args:
        residuals: [n, columns].
        below: [columns], the largest possible distance below their mean.
        above: [columns], the largest possible distance above it.
        weight: [columns], the weight of the largest possible distance, 0 to 1.
        share: Share of the queries that were not judged.
        alpha: Probability that an interval misses.
    """
    n = len(residuals)
    centred = residuals - residuals.mean(axis=0)
    zeros = np.zeros(residuals.shape[1])
    variance, free = centred.var(axis=0), max(1, n - 2)
    fitted = variance * (n - 1) / free * (1 + 1 / n)
    farthest = np.abs(centred).max(axis=0)
    by_farthest = student_quantile(free, alpha / 2) * with_unseen(zeros, fitted, n, farthest, share)[1]
    quantile = student_quantile(n - 1, alpha / 2)
    by_largest = (with_unseen(zeros, variance, n, distance, share) for distance in (below, above))
    low, high = ((1 - weight) * by_farthest + weight * (quantile * error - mean) for mean, error in by_largest)
    return low, high


def _add(share: float, scores: Pair, rest: Pair) -> Pair:
    """Add two distances in squares, the first one times √share, at the lower and at the upper end."""
    below, above = (np.sqrt(share * first**2 + second**2) for first, second in zip(scores, rest, strict=True))
    return below, above


def _width(interval: Interval) -> float:
    """Return the width of an interval that could be computed."""
    assert interval.low is not None and interval.high is not None
    return interval.high - interval.low
