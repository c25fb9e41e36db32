"""Abstention by a threshold on the best score: its cost in scope and its gain out of scope. Pure.

A query is answered when its best score, of those the threshold reads, reaches the threshold. A false answer is an
out-of-scope query that is answered, a false abstention an in-scope query that is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from math import ceil, isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evals.stats import intervals as stats
from evals.stats.intervals import Interval
from retrievers.records import UNBOUNDED

Floats = NDArray[np.float64]
# `entire`: some threshold makes no error; `none`: the order of the scores is no better than chance.
Separation = Literal["entire", "partial", "none", "unknown"]
# AUROC of a random order.
CHANCE = 0.5
# Decimals that tell any two floats within [0, 1] apart.
MOST_DIGITS = 17


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatingPoint:
    """Effect of a threshold.

    Attributes:
        threshold: The threshold.
        false_answer: Share of the out-of-scope queries that are answered, None without any.
        false_abstention: Share of the in-scope queries that are not, None without any.
    """

    threshold: float
    false_answer: float | None
    false_abstention: float | None


@dataclass(frozen=True, kw_only=True)
class Abstention:
    """Separation of in-scope from out-of-scope queries by their best scores.

    Attributes:
        auroc: Probability that an in-scope query's best score exceeds an out-of-scope query's, ties counted half.
        separation: Degree to which a threshold can tell the two apart; `statement` is the same as a sentence.
        curve: Every distinct score as a threshold, ascending, and above them 1 if no score is. The ROC curve is
            (`false_answer`, 1 − `false_abstention`).
    """

    in_scope: int
    out_of_scope: int
    auroc: float | None
    auroc_interval: Interval
    separation: Separation
    statement: str
    curve: tuple[OperatingPoint, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """A threshold that promises a rate of false answers for questions like these, at 95%.

    Attributes:
        rate: Largest share of such out-of-scope questions that is answered, above 0.
        threshold: The least that promises it, in the fewest digits; None where these queries promise it for none, or
            for none that answers an in-scope query.
        at: Effect of that threshold on these queries.
        queries: Number of out-of-scope queries that promise the rate if all of them are silent.
        statement: The same in a sentence.
    """

    rate: float
    threshold: float | None
    at: OperatingPoint | None
    queries: int
    statement: str


def assess(inside: Sequence[float], outside: Sequence[float], scale: str = "cosine") -> Abstention:
    """Assess every threshold on the best score.

    Args:
        inside: The best score of each in-scope query, 0 where nothing was found, −∞ on a scale without bounds.
        outside: The best score of each out-of-scope query.
        scale: The scale of the scores.
    """
    area, interval = None, Interval(note="needs in-scope and out-of-scope queries")
    if inside and outside:
        area = stats.auroc(inside, outside)
        interval = stats.auroc_interval(area, len(inside), len(outside))
    # Between two neighbouring scores every threshold has the same effect, so the scores are enough.
    read = {score for score in (*inside, *outside) if isfinite(score)} | (set() if scale in UNBOUNDED else {1.0})
    curve = operating(inside, outside, sorted(read))
    separation, statement = _separation(inside, outside, area, interval, curve)
    return Abstention(
        in_scope=len(inside),
        out_of_scope=len(outside),
        auroc=area,
        auroc_interval=interval,
        separation=separation,
        statement=statement,
        curve=curve,
    )


def operating(
    inside: Sequence[float], outside: Sequence[float], thresholds: Sequence[float]
) -> tuple[OperatingPoint, ...]:
    """Return the effect of each threshold."""
    least = np.asarray(thresholds, dtype=np.float64)
    below = [np.searchsorted(np.sort(side), least, side="left").tolist() for side in (inside, outside)]
    return tuple(
        OperatingPoint(
            threshold=threshold,
            false_answer=(len(outside) - silent_outside) / len(outside) if outside else None,
            false_abstention=silent_inside / len(inside) if inside else None,
        )
        for threshold, silent_inside, silent_outside in zip(thresholds, *below, strict=True)
    )


def promise(inside: Sequence[float], outside: Sequence[float], rate: float, scale: str = "cosine") -> Promise:
    """Return the least strict threshold that promises a rate of false answers for questions like these, at 95%.

    Thresholds are tested from the strictest on, each by the exact binomial test of its rate, up to the first that is
    not told from a higher one: then the error of all tests together is 5% (Learn then Test, Angelopoulos et al., 2021).
    As rates rise with lower thresholds, that is the lowest whose upper limit (Clopper and Pearson, 1934) is at most
    `rate`.

    Args:
        inside: The best score of each in-scope query.
        outside: The best score of each out-of-scope query, at least one.
        rate: Above 0, at most 1.
        scale: The scale of the scores.
    """
    from scipy.special import betaincinv

    n, queries = len(outside), queries_that_promise(rate)
    limits = betaincinv(np.arange(1, n + 1), np.arange(n, 0, -1), stats.LEVEL)
    answered = int(np.searchsorted(limits, rate + stats.SAME, side="right")) - 1
    wanted = f"at most {100 * rate:.3g}% wrong answers"
    if rate < 1 and answered < 0:
        said = f"{n} out-of-scope queries cannot promise {wanted}; {queries}, all of them silent, could"
        return Promise(rate=rate, threshold=None, at=None, queries=queries, statement=said)
    scores = sorted({*inside, *outside})
    # The highest score that must be below the threshold, where so many may reach it.
    highest = -np.inf if rate >= 1 else sorted(outside, reverse=True)[answered]
    reaching = [score for score in scores if score > highest]
    if not reaching or not any(score >= reaching[0] for score in inside):
        said = f"no threshold promises {wanted} and answers an in-scope query"
        return Promise(rate=rate, threshold=None, at=None, queries=queries, statement=said)
    lowest = scores[0] if scale in UNBOUNDED and isfinite(scores[0]) else 0.0
    threshold = lowest if reaching[0] == scores[0] else _between(highest, reaching[0])
    (at,) = operating(inside, outside, [threshold])
    said = (
        f"threshold {threshold} promises {wanted} of questions like these (95%): it answers "
        f"{round((at.false_answer or 0.0) * n)} of {n} out of scope"
        + (f", and gives up {at.false_abstention:.1%} of {len(inside)} in scope" if inside else "")
    )
    return Promise(rate=rate, threshold=threshold, at=at, queries=queries, statement=said)


def queries_that_promise(rate: float) -> int:
    """Return the number of out-of-scope queries, none of them answered, that promise a rate: (1 − rate)ⁿ ≤ 0.05.

    Args:
        rate: Above 0, at most 1.
    """
    return 1 if rate >= 1 else ceil(log(1 - stats.LEVEL) / log(1 - rate))


def _between(low: float, high: float) -> float:
    """Return a threshold that a score `high` reaches and `low` does not."""
    return shortest_between(low, high) if isfinite(low) else high


def shortest_between(low: float, high: float) -> float:
    """Return the number with the fewest decimals above `low` and at most `high`, the least of them.

    Args:
        low: A finite number.
        high: Above `low`.
    """
    for digits in range(MOST_DIGITS):
        step = Decimal(1).scaleb(-digits)
        above = float(Decimal(repr(low)).quantize(step, ROUND_FLOOR) + step)
        if low < above <= high:
            return above
    return high


def _separation(
    inside: Sequence[float],
    outside: Sequence[float],
    area: float | None,
    interval: Interval,
    curve: Sequence[OperatingPoint],
) -> tuple[Separation, str]:
    if area is None:
        return "unknown", f"whether a threshold separates in scope from out of scope is not known: {interval.note}"
    if min(inside) > max(outside):
        best = _between(max(outside), min(inside))
        return "entire", f"a threshold separates in scope from out of scope entirely: {best}"
    spread = "" if interval.low is None else f", 95% {interval.low:.3f} to {interval.high:.3f}"
    auroc_text = f"AUROC {area:.3f}{spread}"
    if (area if interval.low is None else interval.low) <= CHANCE:
        return "none", f"no threshold separates in scope from out of scope: their order may be chance ({auroc_text})"
    at = min(curve, key=lambda point: (point.false_answer or 0.0) + (point.false_abstention or 0.0))
    return "partial", (
        f"no threshold separates in scope from out of scope entirely ({auroc_text}); "
        f"where the two rates are least together there are "
        f"{at.false_answer or 0.0:.1%} false answers and {at.false_abstention or 0.0:.1%} false abstentions"
    )
