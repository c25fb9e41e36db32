"""Risk against coverage: what is lost by answering, as fewer and fewer queries are answered. Pure.

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
    """The curve from the fewest queries answered to all; queries of equal score come together.

    Args:
        scores: The best score of each query.
        losses: What is lost by answering it, 0 to 1: for an out-of-scope query 1.
    """
    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    known, summed = np.asarray(scores, dtype=float)[order], np.cumsum(np.asarray(losses, dtype=float)[order])
    ends = np.flatnonzero(np.append(known[1:] != known[:-1], True)).tolist() if len(known) else []
    return tuple(
        RiskAt(
            threshold=float(known[place]),
            coverage=float((place + 1) / len(known)),
            risk=float(summed[place] / (place + 1)),
        )
        for place in ends
    )


def area_under(curve: Sequence[RiskAt]) -> float | None:
    """Mean risk over all coverages, 0 is best; between two points that of the greater coverage holds. None of none."""
    if not curve:
        return None
    steps = np.diff([0.0, *(point.coverage for point in curve)])
    return float(np.sum(steps * np.asarray([point.risk for point in curve])))
