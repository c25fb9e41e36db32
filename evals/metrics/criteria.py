"""Verdicts on a run by the criteria of its experiment. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

from evals.collect.observations import Gate, Summary
from evals.config.values import CRITERION

# `== 1` and `>= 1` hold within this difference: ragas' average precision of a perfect ranking is 0.9999999999.
TOLERANCE = 1e-9


def judge(criteria: Mapping[str, str], summaries: Sequence[Summary]) -> list[Gate]:
    """Compare the metric of every criterion with its condition.

    If scores failed or are missing, both bounds of the metric are compared. If a sample of the queries was judged, the
    bounds are the 95% bounds of the value that judging all would give. A criterion is undecided if one bound meets it
    and the other does not. A metric without a value does not meet it.

    Args:
        criteria: Metric name to condition, such as `>= 0.8`.
        summaries: The metrics of the run.
    """
    by_name = {summary.metric: summary for summary in summaries}
    return [_gate(name, condition, by_name.get(name)) for name, condition in criteria.items()]


def undecided(gates: Sequence[Gate], reason: str) -> list[Gate]:
    """Mark every criterion as undecided, for the given reason."""
    return [replace(gate, passed=False, undecided=True, reason=reason) for gate in gates]


def parsed(condition: str) -> tuple[str, float]:
    """Return the comparison and the limit of a condition. The settings have checked its form."""
    match = CRITERION.fullmatch(condition)
    assert match is not None
    return match[1], float(match[2])


def _gate(name: str, condition: str, summary: Summary | None) -> Gate:
    """Return the verdict on one criterion; `summary` is None if the run lacks the metric."""
    symbol, limit = parsed(condition)
    gate = Gate(metric=name, condition=condition, figure=None, passed=False, reason="the metric is absent")
    if summary is None:
        return gate
    if summary.value is None:
        return replace(gate, reason=f"no value: {summary.note}", undecided=summary.n_missing > 0)
    # Without a bound, unknown scores may be anything. A sample that is too small for bounds decides nothing.
    is_open = summary.sampled is not None or summary.n_failed + summary.n_missing > 0
    low = -inf if summary.bound_low is None else summary.bound_low
    high = inf if summary.bound_high is None else summary.bound_high
    figures = [summary.value, *((low, high) if is_open else ())]
    met = [is_met(symbol, figure, limit) for figure in figures]
    is_small = summary.sampled is not None and summary.bound_low is None
    is_between = is_open and symbol == "==" and low < limit < high
    undecided = is_small or is_between or (any(met) and not all(met))
    worst = min(filter(isfinite, figures), key=lambda figure: _margin(symbol, figure, limit))
    return replace(
        gate,
        # Of a sample the bounds are in the reason; of failed scores, they are in the figure.
        figure=summary.value if summary.sampled else worst,
        passed=all(met) and not undecided,
        reason=_reason(summary, passed=all(met), undecided=undecided),
        undecided=undecided,
    )


def _reason(summary: Summary, *, passed: bool, undecided: bool) -> str:
    """Return why a criterion is not met or not decided; for a sample, which value judging all queries would give."""
    if summary.sampled is None:
        lost = f"{summary.n_failed + summary.n_missing} scores that failed or are missing leave it open"
        return "" if passed else lost if undecided else "not met"
    judged = f"{summary.n} of {summary.sampled.queries} queries are judged"
    if summary.bound_low is None or summary.bound_high is None:
        return f"{judged}, too few for an interval"
    ends = f"{judged}; judging all would give {summary.bound_low:.3f} … {summary.bound_high:.3f} (95%)"
    return ends if passed else f"{ends}: {'the others leave it open' if undecided else 'not met'}"


def is_met(symbol: str, figure: float, limit: float) -> bool:
    """Return True if a figure meets a condition, such as `>=` with its limit."""
    margin = _margin(symbol, figure, limit)
    return margin > 0 if symbol in ("<", ">") else margin >= -TOLERANCE


def _margin(symbol: str, figure: float, limit: float) -> float:
    """Return the distance of a figure from the limit, positive on the good side."""
    if symbol == "==":
        return -abs(figure - limit)
    return limit - figure if symbol.startswith("<") else figure - limit
