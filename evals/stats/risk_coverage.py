"""Risk against coverage: the loss of answering, as fewer and fewer queries are answered. Pure.

Source: El-Yaniv and Wiener (2010), the risk–coverage curve of selective classification.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class RiskAt:
    """The queries whose best score reaches a threshold: which share of all they are, and the mean loss among them."""

    threshold: float
    coverage: float
    risk: float


def risk_coverage(scores: Sequence[float], losses: Sequence[float]) -> tuple[RiskAt, ...]:
    """Return the curve from the fewest queries answered to all; queries of equal score form one point.

    Args:
        scores: The best score of each query.
        losses: Loss of answering each query, 0 to 1; 1 for an out-of-scope query.
    """
    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    ordered, summed = np.asarray(scores, dtype=float)[order], np.cumsum(np.asarray(losses, dtype=float)[order])
    # A threshold cannot separate equal scores, so each group of them is one point.
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)).tolist() if len(ordered) else []
    return tuple(
        RiskAt(
            threshold=float(ordered[end]),
            coverage=float((end + 1) / len(ordered)),
            risk=float(summed[end] / (end + 1)),
        )
        for end in ends
    )


def area_under(curve: Sequence[RiskAt]) -> float | None:
    """Return the mean risk over all coverages, 0 at best, as a step function of coverage; None for an empty curve."""
    if not curve:
        return None
    steps = np.diff([0.0, *(point.coverage for point in curve)])
    return float(np.sum(steps * np.asarray([point.risk for point in curve])))
