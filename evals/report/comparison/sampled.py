"""A judged metric of two runs of which at least one judged a sample of the queries. Pure and seeded.

Such runs on the same golden data judge the same queries, as far as both go, so they are paired on those that were
judged in both, and corrected by what the golden labels say of all.
"""

from collections.abc import Sequence

import numpy as np

from evals.collect.observations import Unscored
from evals.judge.sampling import NOT_DRAWN
from evals.report.comparison.records import Pairing
from evals.report.model import FailedValue, ScoreValue
from evals.stats.corrected_difference import CorrectedDifference, corrected_difference
from evals.stats.corrected_mean import Floats


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
    paired = [
        (a, b, rows) for a, b, rows in zip(baseline, other, pairing.rows, strict=True) if _counts(a) and _counts(b)
    ]
    judged = _column([a for a, _, _ in paired]), _column([b for _, b, _ in paired])
    first, second = (
        [run.proxies.get(metric) for run in runs] for runs in zip(*(rows for _, _, rows in paired), strict=True)
    )
    complete = None not in first and None not in second
    proxies = (_column(first), _column(second)) if complete else (np.zeros(len(paired)), np.zeros(len(paired)))
    return corrected_difference(judged, proxies, ~np.isnan(judged[0]) & ~np.isnan(judged[1]), seed)


def described(result: CorrectedDifference) -> str:
    """Return how many queries were judged, and how the difference was corrected."""
    alone = "the judged queries alone"
    how = f"corrected by labels, weight {result.weight:.2f}" if result.weight else alone
    return f"judged in both: {result.paired.n} of {result.total} queries, {how}"


def _counts(score: ScoreValue | None) -> bool:
    """Return True for a query that the mean stands for: it is scored, failed, or was not drawn."""
    return isinstance(score, float | int | FailedValue) or not_drawn(score)


def _column(scores: Sequence[ScoreValue | None]) -> Floats:
    return np.array([score if isinstance(score, float | int) else np.nan for score in scores], dtype=float)
