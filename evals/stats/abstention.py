"""Abstention by a threshold on the best score: what it costs in scope and what it gains out of scope. Pure.

A query is answered if its best score, of the kind that the threshold reads, reaches the threshold. A false answer is an
out-of-scope query that is answered. A false abstention is an in-scope query that is not answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from math import ceil, isfinite, log

import numpy as np

from evals.stats import intervals as stats
from evals.stats.bands import exact_limits
from retrievers.records import UNBOUNDED

# AUROC of a random order.
CHANCE = 0.5
# What the threshold reads under `threshold_on: final`.
FINAL = "final score"
# Number of decimals by which any two floats within [0, 1] differ.
MOST_DIGITS = 17


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """How well the best score of one kind separates in-scope from out-of-scope queries.

    Attributes:
        name: Kind of score, a value of `retriever.threshold_signal` or `final score`.
        auroc: AUROC, 0 to 1; 0.5 is chance.
        low: Lower end of its 95% interval; None if it is not computable.
        high: Upper end of the interval; None if it is not computable.
        thresholds: Thresholds along the best scores, up to the highest, such as `0:0.6:0.05`.
    """

    name: str
    auroc: float
    low: float | None
    high: float | None
    thresholds: str = ""

    @property
    def separates(self) -> bool:
        """False if the order of the queries may be chance."""
        return self.low is not None and self.low > CHANCE

    def __str__(self) -> str:
        """Return the AUROC with its interval."""
        spread = "" if self.low is None else f", 95% {self.low:.3f} to {self.high:.3f}"
        return f"AUROC {self.auroc:.3f}{spread}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """A threshold that promises a rate of false answers for questions like these, at 95%.

    Attributes:
        rate: Largest share of such out-of-scope questions that is answered, above 0.
        threshold: The lowest threshold that promises the rate, in the fewest digits. None if no threshold promises the
            rate and answers an in-scope query.
        queries: Number of out-of-scope queries that promise the rate if all of them are silent.
        statement: The promise in a sentence, or the reason why there is none.
        silent: Share of the in-scope queries that the threshold leaves without an answer; None without a threshold.
    """

    rate: float
    threshold: float | None
    queries: int
    statement: str
    silent: float | None = None


def signal(name: str, inside: Sequence[float], outside: Sequence[float]) -> Signal:
    """Return how well the best scores of one kind separate in-scope from out-of-scope queries, at least one of each."""
    area, interval = stats.auroc(inside, outside), stats.auroc_interval(inside, outside)
    thresholds = thresholds_along([*inside, *outside])
    return Signal(name=name, auroc=area, low=interval.low, high=interval.high, thresholds=thresholds)


def thresholds_along(scores: Sequence[float]) -> str:
    """Return some thirty even thresholds from the lowest score, or 0, to the highest; empty without scores.

    Args:
        scores: The best score of each query; −∞ for a query without candidates.
    """
    finite = [score for score in scores if isfinite(score)]
    if not finite:
        return ""
    least, most = min(finite), max(finite)
    first = 0.0 if 0 <= least <= most / 2 else least
    step = Decimal(f"{(most - first) / 30 or 0.05:.0e}")
    low, high = (((Decimal(end) / step).to_integral_value(ROUND_FLOOR) * step).normalize() for end in (first, most))
    along = f"{low:f}" if low == high else f"{low:f}:{high:f}:{step:f}"
    return "0," * (low > 0) + along


def promise(inside: Sequence[float], outside: Sequence[float], rate: float, scale: str, among: int) -> Promise:
    """Return the least strict threshold that promises a rate of false answers for questions like these, at 95%.

    Thresholds are tested from the strictest on, each by the exact binomial test that its rate is below `rate`, up to
    the first that fails. So the error of all tests together is 5% (Learn then Test, Angelopoulos et al., 2021). As
    lower thresholds have higher rates, the result is the lowest threshold whose upper limit (Clopper and Pearson, 1934)
    is at most `rate`. If the best of several retrievals is taken, all their promises must hold, so each has its part of
    the 5%.

    Args:
        inside: The best score of each in-scope query.
        outside: The best score of each out-of-scope query, at least one.
        rate: The rate to promise, above 0, at most 1.
        scale: The scale of the scores.
        among: Number of retrievals that were tried on these queries.

    Returns:
        The promise. Its threshold is None if no threshold promises the rate and answers an in-scope query.
    """
    n, queries, wanted = len(outside), queries_that_promise(rate, among), f"at most {100 * rate:.3g}% wrong answers"
    # Upper limits of the rate if 0, 1, … of the n queries are answered; the largest number that keeps the promise.
    _, limits = exact_limits(np.arange(n), n, (1 - stats.LEVEL) / among)
    answered = int(np.searchsorted(limits, rate + stats.SAME, side="right")) - 1
    broken = Promise(rate=rate, threshold=None, queries=queries, statement="")
    if rate < 1 and answered < 0:
        statement = f"{n} out-of-scope queries cannot promise {wanted}; {queries}, all of them silent, could"
        return replace(broken, statement=statement)
    scores = sorted({*inside, *outside})
    # The threshold must be above this score, so that no more than `answered` out-of-scope queries reach it.
    highest = -np.inf if rate >= 1 else sorted(outside, reverse=True)[answered]
    reaching = [score for score in scores if score > highest]
    if not reaching or not any(score >= reaching[0] for score in inside):
        return replace(broken, statement=f"no threshold promises {wanted} and answers an in-scope query")
    lowest = scores[0] if scale in UNBOUNDED and isfinite(scores[0]) else 0.0
    threshold = lowest if reaching[0] == scores[0] else shortest_between(highest, reaching[0])
    wrong = sum(score >= threshold for score in outside)
    silent = sum(score < threshold for score in inside) / len(inside)
    statement = (
        f"threshold {threshold} promises {wanted} of questions like these (95%): it answers {wrong} of {n} out of "
        f"scope, and gives up {silent:.1%} of {len(inside)} in scope"
    )
    return replace(broken, threshold=threshold, silent=silent, statement=statement)


def queries_that_promise(rate: float, among: int) -> int:
    """Return the least number n of silent out-of-scope queries that promise a rate: (1 − rate)ⁿ ≤ 0.05 / m.

    Args:
        rate: Above 0, at most 1.
        among: Number m of retrievals that were tried on these queries.
    """
    return 1 if rate >= 1 else ceil(log((1 - stats.LEVEL) / among) / log(1 - rate))


def shortest_between(low: float, high: float) -> float:
    """Return the least number with the fewest decimals above `low` and at most `high`.

    Args:
        low: A number, or −∞, for which `high` is returned.
        high: A number above `low`.
    """
    if not isfinite(low):
        return high
    for digits in range(MOST_DIGITS):
        step = Decimal(1).scaleb(-digits)
        above = float(Decimal(repr(low)).quantize(step, ROUND_FLOOR) + step)
        if low < above <= high:
            return above
    return high
