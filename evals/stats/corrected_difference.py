"""Two runs' mean difference, where both have a judged score of a sample of the queries and labels' scores of all.

With d the difference of the judged scores of a query and q that of its labels' scores, the estimate is that of
`evals.stats.corrected_mean`: mean of d over the n judged + λ (mean of q over all N − mean of q over the n). A query on
which both runs return the same has d = q = 0 and adds nothing to its variance, Var(d)/N + (1/n − 1/N) · Var(d − λ q).

Interval: the two parts have the interval of a paired difference (`evals.stats.paired`), scaled by √(n/N) and
√(1 − n/N); their distances to the mean add in squares. No distance is longer than that without correction. In
simulations of 15, 22 and 60 judged of 40 and 225 queries (agreement 0.6, 0.88 and 0.97; relevance of 5% to 80%; 20% to
80% of the queries the same in both) it holds the true difference in 94% of samples and more.

Test: Fisher's randomisation. If the runs are exchangeable on each query, changing them over there turns the signs of d
and q alike: the estimate is the mean of N numbers u = λ q + (N/n) (d − λ q) [judged] whose signs are coins.
"""

from dataclasses import dataclass

import numpy as np

from evals.stats.corrected_mean import Bools, Floats, corrected_means, shrunk_weight
from evals.stats.intervals import SAME, Interval, Pair
from evals.stats.paired import Paired, agreed, difference_intervals, obstacle, sign_flip


@dataclass(frozen=True, kw_only=True, slots=True)
class CorrectedDifference:
    """A paired comparison whose means are corrected; `paired.n` and its wins are of the judged queries.

    Attributes:
        weight: λ, 0 (the judged queries alone) to 1.
        total: Queries that the means stand for.
    """

    paired: Paired
    weight: float
    total: int


def corrected_difference(
    judged: tuple[Floats, Floats],
    proxies: tuple[Floats, Floats],
    sampled: Bools,
    seed: int,
) -> CorrectedDifference:
    """Compare two runs' judged scores, corrected by the scores that every query has.

    Args:
        judged: Baseline's and other run's scores [N], within 0 to 1; read where `sampled`.
        proxies: Theirs by labels [N], finite.
        sampled: [N], the queries that were judged in both runs; at least one.
        seed: Seed of the drawn signs.
    """
    first, second = (scores[sampled] for scores in judged)
    own, foretold, n, total = second - first, (proxies[1] - proxies[0])[sampled], int(sampled.sum()), len(sampled)
    weight = shrunk_weight(own[:, None], foretold[:, None]) if n < total else 0.0
    baseline, other = (
        float(corrected_means(of_run[:, None], proxy[:, None], sampled, weight)[0][0])
        for of_run, proxy in zip(judged, proxies, strict=True)
    )
    whole = weight * (proxies[1] - proxies[0])
    whole[sampled] += total / n * (own - weight * foretold)
    p_test, test = sign_flip(whole, seed)
    interval, p = Interval(note=obstacle(own)), p_test
    if not interval.note:
        low, high = _ends(own, own - weight * foretold, n / total, 1 + weight)
        interval, p = agreed(other - baseline + low, other - baseline + high, p_test)
    paired = paired_of(own, (baseline, other), interval, p, (p_test, test))
    return CorrectedDifference(paired=paired, weight=weight, total=total)


def paired_of(own: Floats, means: tuple[float, float], interval: Interval, p: float, test: tuple[float, str]) -> Paired:
    """Return a comparison of means, with the wins of the queries that were judged in both runs.

    Args:
        own: Differences of these queries' scores.
        means: Baseline's and other run's.
        interval: Of their difference.
        p: P value of no difference.
        test: That of a test alone, and its name.
    """
    rises, falls = int((own > SAME).sum()), int((own < -SAME).sum())
    return Paired(
        n=len(own),
        baseline=means[0],
        other=means[1],
        difference=means[1] - means[0],
        interval=interval,
        p=p,
        p_test=test[0],
        test=test[1],
        rises=rises,
        ties=len(own) - rises - falls,
        falls=falls,
    )


def _ends(own: Floats, residuals: Floats, share: float, span: float) -> tuple[float, float]:
    """Return the distances from the estimate to the ends of its interval, the lower one negative."""
    whole = _reach(own, difference_intervals(own[:, None], 1.0))
    rest = _reach(residuals, difference_intervals(residuals[:, None], span))
    low, high = (min(np.sqrt(share * w**2 + (1 - share) * r**2), max(whole)) for w, r in zip(whole, rest, strict=True))
    return -float(low), float(high)


def _reach(values: Floats, ends: Pair) -> list[float]:
    return [abs(float(end[0]) - float(values.mean())) for end in ends]
