"""A judged metric of two runs of which at least one judged a part of the queries. Pure and seeded.

Samples of the same golden data (`judge.sample`) are beginnings of the same random order, so runs are paired on the
queries that were judged in both, and corrected by what the golden labels say of all. Under `judge.stop` queries are
drawn with probabilities of the grid's own. Where the other run judged all of these queries, they are paired, and
weighted by their draws; else each mean is estimated from the queries of its own run, and the means are compared.
"""

from collections.abc import Sequence

import numpy as np

from evals.collect.observations import Unscored
from evals.judge.sampling import NOT_DRAWN
from evals.report.comparison.records import Pairing
from evals.report.model import FailedValue, ScoreValue
from evals.stats.corrected_difference import CorrectedDifference, corrected_difference
from evals.stats.corrected_mean import Floats
from evals.stats.intervals import SAME
from evals.stats.unlike_samples import JudgedSample, difference_of_samples


def not_drawn(score: ScoreValue | None) -> bool:
    """Return True for a query that a run left out of the sample that it judged."""
    return isinstance(score, Unscored) and score.reason == NOT_DRAWN.reason


def sampled_difference(
    metric: str,
    baseline: Sequence[ScoreValue | None],
    other: Sequence[ScoreValue | None],
    pairing: Pairing,
    seed: int,
) -> CorrectedDifference:
    """Compare a metric on the queries scored in both runs, corrected by labels where both reports hold their scores.

    Args:
        metric: Name of the metric.
        baseline: Scores of the paired queries in the first run.
        other: Scores of the same queries in the other; at least one is scored in both.
        pairing: The queries.
        seed: Seed of the drawn signs.
    """
    kept = [(a, b, rows) for a, b, rows in zip(baseline, other, pairing.rows, strict=True) if _counts(a) and _counts(b)]
    judged = _column([a for a, _, _ in kept]), _column([b for _, b, _ in kept])
    rows = [pair for _, _, pair in kept]
    first, second = ([run.proxies.get(metric) for run in runs] for runs in zip(*rows, strict=True))
    known = None not in first and None not in second
    proxies = (_column(first), _column(second)) if known else (np.zeros(len(kept)), np.zeros(len(kept)))
    samples = [
        _sample(of_run, proxy, [pair[side].draw for pair in rows])
        for side, (of_run, proxy) in enumerate(zip(judged, proxies, strict=True))
    ]
    weighted = [each for each in samples if each.draws is not None]
    if not weighted:
        return corrected_difference(judged, proxies, samples[0].sampled & samples[1].sampled, seed)
    # Samples that do not depend on draws hold all of them by chance alone, whichever these are.
    for drawn, whole in (samples, samples[::-1]):
        if not (drawn.sampled & ~whole.sampled).any() and (whole.draws is None or _same(drawn, whole)):
            return corrected_difference(judged, proxies, drawn.sampled, seed, drawn.draws)
    return difference_of_samples(samples[0], samples[1], seed)


def _sample(judged: Floats, proxy: Floats, draws: Sequence[float | None]) -> JudgedSample:
    """Return what a run judged, with the weights of its draws where they are unequal."""
    sampled = ~np.isnan(judged)
    weights = np.array([draw or 0.0 for draw in draws])[sampled]
    equal = not weights.all() or np.ptp(weights) <= SAME
    # They are 1 on average over all that were drawn, of which some may have failed.
    return JudgedSample(judged=judged, proxy=proxy, sampled=sampled, draws=None if equal else weights / weights.mean())


def _same(first: JudgedSample, second: JudgedSample) -> bool:
    """Return True if two runs judged the same queries, drawn with the same probabilities."""
    if first.draws is None or second.draws is None:
        return False
    return np.array_equal(first.sampled, second.sampled) and np.allclose(first.draws, second.draws)


def described(result: CorrectedDifference, pairing: Pairing) -> str:
    """Return how many queries were judged, and how the difference was corrected."""
    alone = "the judged queries alone"
    bare = any(row.outcome == "UNLABELLED" for rows in pairing.rows for row in rows)
    proxy = "what the queries have without a judge" if bare else "labels"
    how = f"corrected by {proxy}, weight {result.weight:.2f}" if result.weight else alone
    both = f"judged in both: {result.paired.n} of {result.total} queries"
    if result.apart:
        return f"{both}; each run's mean is from all of its own ({' and '.join(map(str, result.apart))}), {how}"
    return f"{both}, {how}"


def _counts(score: ScoreValue | None) -> bool:
    """Return True for a query that the mean stands for: it is scored, failed, or was not drawn."""
    return isinstance(score, float | int | FailedValue) or not_drawn(score)


def _column(scores: Sequence[ScoreValue | None]) -> Floats:
    return np.array([score if isinstance(score, float | int) else np.nan for score in scores], dtype=float)
