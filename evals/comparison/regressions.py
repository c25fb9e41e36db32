"""Regressions: metrics that are worse than in the baseline by more than is tolerated. Pure.

The rule. The drop of a metric is how much worse the other run is, in the metric's own direction: baseline − other where
higher is better, other − baseline where lower is. A mean is taken over the queries scored in both runs; where scores
failed, every failed one counts as badly against the other run as it can. It is a regression when the drop is greater
than the tolerance, whether or not the interval of the difference excludes 0 (which is reported), or when the drop is
unknown: the metric is absent or has no value in one of the runs, or over 5% of the queries scored in one of them
are not scored in the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from evals.comparison.records import Regression
from evals.errors import ExperimentError
from evals.metrics import declared
from evals.metrics.criteria import TOLERANCE as ROUNDING
from evals.report.model import Difference
from retrievers.errors import nearest
from retrievers.text.quoting import quoted

MAX_DROPPED_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """By how much a metric may drop."""

    metric: str
    tolerance: float


def parse(texts: Sequence[str]) -> dict[str, float]:
    """Read `metric:tolerance` pairs, such as `ranking/ndcg_at_10:0.02`.

    Raises:
        ExperimentError: One is malformed, or its metric was named before.
    """
    drops: dict[str, float] = {}
    for text in texts:
        metric, _, number = text.rpartition(":")
        try:
            tolerance = float(number)
        except ValueError:
            tolerance = -1.0
        if not metric or not _is_drop(tolerance):
            raise ExperimentError(
                f"--fail-on-regression: expected METRIC:TOLERANCE such as ranking/ndcg_at_10:0.02, got {quoted(text)}"
            )
        if metric in drops:
            raise ExperimentError(f"--fail-on-regression: {metric} is named twice")
        drops[metric] = tolerance
    return drops


def tolerated(drops: Mapping[str, float]) -> tuple[Tolerance, ...]:
    """Return tolerances, metric to the largest drop that is no regression.

    Raises:
        ExperimentError: A drop is negative or not finite, or its metric has no better direction.
    """
    for metric, drop in drops.items():
        if not _is_drop(drop):
            raise ExperimentError(f"tolerance of {metric}: expected a number of 0 or more, got {drop!r}")
        if declared(metric).direction == "neither":
            raise ExperimentError(f"--fail-on-regression: no direction of {metric} is better than the other")
    return tuple(Tolerance(metric=metric, tolerance=drop) for metric, drop in drops.items())


def _is_drop(value: float) -> bool:
    return isfinite(value) and value >= 0


def check_names(tolerances: Sequence[Tolerance], measured: Sequence[str], known: Sequence[str]) -> None:
    """Make sure that every tolerance is of a metric that exists, measured in the runs or not.

    Args:
        tolerances: Tolerated drops.
        measured: Metrics of the runs.
        known: All metrics that there are.

    Raises:
        ExperimentError: One does not exist; the nearest names are given.
    """
    names = [*measured, *known]
    for tolerance in tolerances:
        if tolerance.metric not in names:
            raise ExperimentError(
                f"--fail-on-regression: no metric {tolerance.metric!r}{nearest(tolerance.metric, names)}"
            )


def judge(tolerances: Sequence[Tolerance], differences: Sequence[Difference]) -> list[Regression]:
    """Compare every difference with its tolerance, by the rule at the head of this file."""
    by_name = {item.metric: item for item in differences}
    return [_judge(item, by_name[item.metric]) for item in tolerances]


def _judge(tolerance: Tolerance, difference: Difference) -> Regression:
    limit = tolerance.tolerance
    drop, unknown = _drop(difference), _unknown(difference)
    if unknown or drop is None:
        return Regression(
            metric=tolerance.metric, tolerance=limit, drop=drop, passed=False, certain=None, reason=unknown
        )
    certain = _excludes_zero(difference)
    remark = {None: "there is no interval", True: "the 95% interval excludes 0", False: "the 95% interval includes 0"}
    worst = f", if all {len(difference.failed)} failed scores had come out badly" if difference.failed else ""
    return Regression(
        metric=tolerance.metric,
        tolerance=limit,
        drop=drop,
        passed=drop <= limit + ROUNDING,
        certain=certain,
        reason=remark[certain] + worst,
    )


def _drop(found: Difference) -> float | None:
    difference = found.worst if found.failed else found.difference
    return difference if difference is None or found.better == "lower" else -difference


def _unknown(difference: Difference) -> str:
    """Return the reason why a regression can neither be found nor ruled out; empty when it can."""
    if difference.difference is None:
        return difference.note
    if difference.failed and difference.worst is None:
        return f"{len(difference.failed)} failed scores leave it open"
    dropped = len(difference.only_baseline) + len(difference.only_other)
    scored = dropped + (difference.paired.n if difference.paired else 0)
    if dropped > MAX_DROPPED_SHARE * scored:
        return f"{dropped} of {scored} queries are scored in one of the runs only, more than {MAX_DROPPED_SHARE:.0%}"
    return ""


def _excludes_zero(difference: Difference) -> bool | None:
    interval = difference.paired.interval if difference.paired else None
    if interval is None or interval.low is None or interval.high is None:
        return None
    return interval.low > 0 or interval.high < 0
